# shellcheck shell=bash
# What the host's scripts share: the fleet's environment, and how they speak. Sourced, never run.

# A test may put all files below another root.
ROOT="${TORCHLIFT_ROOT:-}"
set -a
# shellcheck source=/dev/null
. "$ROOT/etc/torchlift/fleet.env"
set +a
# shellcheck disable=SC2034 # for the scripts that source this
HOST="$ROOT/opt/torchlift/hosts/inferentia"
# In memory, and only for root: the token must not survive on a disk.
RUN="$ROOT/run/torchlift"
# The user of our images.
RUN_AS="${TORCHLIFT_RUN_AS:-10003}"

say() { echo "torchlift: $*"; }

die() {
  say "$*" >&2
  exit 1
}

# within SECONDS COMMAND...: the command ends then, and what ignores that is killed.
within() { timeout --kill-after=5 "$@"; }

# metadata PATH: one value of the instance metadata service.
metadata() {
  local base=http://169.254.169.254/latest token
  token="$(curl -sf --max-time 10 --retry 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$base/api/token")" &&
    curl -sf --max-time 10 --retry 5 -H "X-aws-ec2-metadata-token: $token" "$base/meta-data/$1"
}

# container NAME OPTIONS... IMAGE ARGUMENTS...: becomes `docker run` of a container of this host, which ends with it.
# What a container prints goes to CloudWatch by Docker's driver; a full buffer must never stop a server.
container() {
  local name="$1" instance
  shift
  instance="$(cat "$RUN/instance")"
  # What an earlier `docker run` that was killed may have left.
  within 60 docker rm --force "$name" >/dev/null 2>&1 || true
  exec docker run --rm --name "$name" --network host --user "$RUN_AS:$RUN_AS" \
    --read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 2048 \
    --log-driver awslogs --log-opt "awslogs-region=$AWS_REGION" --log-opt "awslogs-group=$TORCHLIFT_LOG_GROUP" \
    --log-opt "awslogs-stream=$instance/${name#torchlift-}" \
    --log-opt mode=non-blocking --log-opt max-buffer-size=4m "$@"
}
