#!/bin/bash
# Runs once, at an instance's first boot: writes the fleet's environment, fetches the source bundle and hands over to a
# unit that starts at every boot. Installs nothing: what is needed is asserted, and its absence is signalled.
set -euo pipefail

ROOT="${TORCHLIFT_ROOT:-}"
HOME_DIR="$ROOT/opt/torchlift"

# By bash alone: whatever fails after this can be told.
{ IFS= read -r -d '' environment || true; } <<'TORCHLIFT_FLEET_ENV'
@FLEET_ENVIRONMENT@
TORCHLIFT_FLEET_ENV
set -a
eval "$environment"
set +a

# The scripts that say why a host failed are in the bundle; until it is here, this is all there is. No port opens, so the
# load balancer finds the host unhealthy and the group replaces it.
give_up() {
  local reason="user data: $1" token id
  trap - ERR
  echo "torchlift: FAILURE: $reason" >&2
  id="${TORCHLIFT_INSTANCE_ID:-}"
  if [ -z "$id" ]; then
    token="$(curl -sf --max-time 10 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' http://169.254.169.254/latest/api/token)" || true
    id="$(curl -sf --max-time 10 -H "X-aws-ec2-metadata-token: $token" http://169.254.169.254/latest/meta-data/instance-id)" || true
  fi
  local log=(--log-group-name "$TORCHLIFT_LOG_GROUP" --log-stream-name "${id:-unknown}/boot")
  timeout --kill-after=5 60 aws logs create-log-stream "${log[@]}" --cli-connect-timeout 10 || true
  timeout --kill-after=5 60 aws logs put-log-events "${log[@]}" --cli-connect-timeout 10 --log-events \
    "[{\"timestamp\":$(date +%s)000,\"message\":\"torchlift: FAILURE: $reason\"}]" >/dev/null || true
  timeout --kill-after=5 60 aws cloudformation signal-resource --stack-name "$TORCHLIFT_STACK" \
    --logical-resource-id "$TORCHLIFT_RESOURCE" --unique-id "${id:-unknown}" --status FAILURE --cli-connect-timeout 10 || true
  exit 1
}
trap 'give_up "line $LINENO failed"' ERR

# cloud-init's mark of having run this: without it, it does so at the next boot too. A host that is reset in the middle
# begins again; where the unit is enabled already, all is done.
rm -f "$ROOT/var/lib/cloud/instance/sem/config_scripts_user"
[ ! -e "$ROOT/etc/systemd/system/multi-user.target.wants/torchlift-fleet.service" ] || exit 0
install -d -m 0755 "$ROOT/etc/torchlift" "$HOME_DIR"
(umask 077 && printf %s "$environment" >"$ROOT/etc/torchlift/fleet.env")

for program in aws docker python3 curl systemctl; do
  command -v "$program" >/dev/null || give_up "the AMI has no $program"
done
root_gib="$(df --output=size -BG / | tail -n 1 | tr -dc 0-9)"
# A file system is a little smaller than its volume.
[ "$root_gib" -ge "$((TORCHLIFT_ROOT_GIB * 9 / 10))" ] ||
  give_up "the root file system has $root_gib GiB, not $TORCHLIFT_ROOT_GIB: is the AMI's root device another one?"

timeout --kill-after=5 900 aws s3 cp --only-show-errors "$TORCHLIFT_SOURCE" "$HOME_DIR/source.zip" ||
  give_up "cannot fetch $TORCHLIFT_SOURCE"
python3 -m zipfile -e "$HOME_DIR/source.zip" "$HOME_DIR" || give_up "the source bundle is no zip file"
install -d "$ROOT/etc/systemd/system"
install -m 0644 "$HOME_DIR"/hosts/inferentia/torchlift-*.service "$ROOT/etc/systemd/system/"
systemctl daemon-reload
systemctl enable --now --no-block torchlift-fleet.service
