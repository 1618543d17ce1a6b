#!/bin/bash
# What torchlift-fleet.service runs at every boot: fetch the images and the token, configure nginx, start one server for
# each core, and tell the stack when every core has answered a question through nginx, or which step failed.
#
# Run again it changes nothing that runs. A host that fails closes its port: the load balancer then finds it unhealthy,
# and the group replaces it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Less than the stack waits for a signal.
DEADLINE="${TORCHLIFT_DEADLINE_SECONDS:-1500}"
LISTEN="${TORCHLIFT_LISTEN:-8080}"
step="reading the instance's id"
id="unknown"

# signal SUCCESS|FAILURE: tells the stack. It takes signals only while it waits for this group: of an instance that comes
# later, or boots again, it wants to hear nothing.
signal() {
  local pause
  for pause in 2 8 0; do
    if within 60 aws cloudformation signal-resource --stack-name "$TORCHLIFT_STACK" --logical-resource-id "$TORCHLIFT_RESOURCE" \
      --unique-id "$id" --status "$1"; then
      say "signalled $1"
      return 0
    fi
    sleep "$pause"
  done
  say "the stack takes no signal now: normal for an instance that it did not wait for"
}

# tell LINE: one line for people, beside the containers' in the fleet's log.
tell() {
  local log=(--log-group-name "$TORCHLIFT_LOG_GROUP" --log-stream-name "$id/boot")
  say "$1" || true
  within 60 aws logs create-log-stream "${log[@]}" 2>/dev/null || true
  within 60 aws logs put-log-events "${log[@]}" --log-events "$(LINE="torchlift: $1" python3 -c '
import json, os, time
print(json.dumps([{"timestamp": int(time.time() * 1000), "message": os.environ["LINE"][:2000]}]))')" >/dev/null || true
}

# give_up REASON: the only way out of a boot that failed. The alarm on the fleet's log looks for its line.
give_up() {
  trap - EXIT TERM
  tell "FAILURE: $1"
  within 120 systemctl stop torchlift-nginx.service || true
  signal FAILURE
  exit 1
}
# Of this shell alone: what fails in a subshell fails here too, and is told once.
trap 'give_up "$step failed"' EXIT
# A host that is shut down says nothing: the next boot does all again.
trap 'trap - EXIT; exit 0' TERM

left() {
  local seconds="$((DEADLINE - SECONDS))"
  echo "$((seconds > 1 ? seconds : 1))"
}
# bounded COMMAND...: nothing may hang for longer than the host has.
bounded() { within "$(left)" "$@"; }

install -d -m 0700 "$RUN"
# By hand, beside the unit: one after the other.
exec 9<"$RUN"
flock --timeout "$(left)" 9
id="${TORCHLIFT_INSTANCE_ID:-$(metadata instance-id)}" || give_up "the instance metadata service does not answer"
echo "$id" >"$RUN/instance"

last="/dev/neuron$(((TORCHLIFT_CORES - 1) / TORCHLIFT_CORES_PER_DEVICE))"
[ -e "$ROOT$last" ] || give_up "there is no $last: $TORCHLIFT_CORES cores need it; has the AMI the Neuron driver?"

# pull IMAGE: from its registry, again when that fails, until the deadline.
pull() {
  local registry="${1%%/*}" region pause
  region="${registry#*.dkr.ecr.}"
  for pause in 5 15 45 60 0; do
    if bounded aws ecr get-login-password --region "${region%%.*}" |
      bounded docker login --username AWS --password-stdin "$registry" && bounded docker pull --quiet "$1"; then
      return 0
    fi
    [ "$(left)" -gt "$pause" ] || return 1
    sleep "$pause"
  done
  return 1
}
for image in "$TORCHLIFT_SERVING_IMAGE" "$TORCHLIFT_NGINX_IMAGE" "$TORCHLIFT_MONITOR_IMAGE"; do
  # The tag is immutable: what is here is what would come.
  bounded docker image inspect "$image" >/dev/null 2>&1 || pull "$image" || give_up "the image $image cannot be pulled"
done

step="reading the token"
if [ -n "${TORCHLIFT_TOKEN_SECRET:-}" ]; then
  (
    umask 077
    bounded aws secretsmanager get-secret-value --secret-id "$TORCHLIFT_TOKEN_SECRET" --query SecretString --output text \
      >"$RUN/token.new"
  ) || give_up "the secret $TORCHLIFT_TOKEN_SECRET cannot be read"
  [ -s "$RUN/token.new" ] || give_up "the secret $TORCHLIFT_TOKEN_SECRET is empty"
  chown "$RUN_AS" "$RUN/token.new"
  mv "$RUN/token.new" "$RUN/token"
fi

step="configuring nginx"
python3 "$HOST/nginx_config.py" --cores "$TORCHLIFT_CORES" --listen "$LISTEN" --max-body-bytes "${TORCHLIFT_MAX_BODY_BYTES:-1000000}" \
  --max-timeout-ms "${TORCHLIFT_MAX_TIMEOUT_MS:-60000}" >"$ROOT/etc/torchlift/nginx.conf.new"
chmod 0644 "$ROOT/etc/torchlift/nginx.conf.new"
mv "$ROOT/etc/torchlift/nginx.conf.new" "$ROOT/etc/torchlift/nginx.conf"
install -d -m 0755 -o "$RUN_AS" -g "$RUN_AS" "$ROOT/var/lib/torchlift/models"

step="starting the servers"
units=()
for ((core = 0; core < TORCHLIFT_CORES; core++)); do units+=("torchlift-server@$core.service"); done
bounded systemctl start --no-block "${units[@]}" torchlift-nginx.service torchlift-monitor.service torchlift-watch.service

step="asking the cores"
token=()
[ ! -e "$RUN/token" ] || token=(--token-file "$RUN/token")
if ! wrong="$(python3 "$HOST/check.py" --address "127.0.0.1:$LISTEN" --cores "$TORCHLIFT_CORES" --seconds "$(left)" "${token[@]}" 2>&1)"; then
  # What the server itself said; its full log is in the stream <instance>/server-<core>.
  [[ ! "$wrong" =~ core\ ([0-9]+): ]] ||
    wrong+="; $(timeout 30 journalctl --unit "torchlift-server@${BASH_REMATCH[1]}" --output cat --no-pager 2>/dev/null |
      tail -n 3)" || true
  give_up "not every core answers: ${wrong//$'\n'/ }"
fi
tell "$TORCHLIFT_CORES cores answer"
# The load balancer looks every few seconds: an update ends an old host when this one has signalled.
sleep "${TORCHLIFT_SETTLE_SECONDS:-0}"
trap - EXIT TERM
signal SUCCESS
