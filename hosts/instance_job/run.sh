#!/bin/bash
# What torchlift-job.service runs at every boot of a job's instance: resume, run the job in its container, save
# checkpoints meanwhile, signal, and end the instance, whether the job succeeded or failed.
#
# A host that is shut down or reclaimed says nothing to the stack: the group replaces it, and the next one resumes.
set -euo pipefail
# Until the environment is there, nobody can be told; an instance that is off counts as lost, and costs nothing.
trap 'systemctl poweroff' EXIT

set -a
# shellcheck source=/dev/null
. "${TORCHLIFT_ENV_FILE:-/etc/torchlift/job.env}"
TORCHLIFT_HOME="${TORCHLIFT_HOME:-/opt/torchlift}"
TORCHLIFT_WORK="${TORCHLIFT_WORK:-/opt/torchlift/work}"
set +a
scripts="$TORCHLIFT_HOME/scripts"
# shellcheck source=/dev/null
. "$scripts/common.sh"
CONTAINER=torchlift-job
SAVE_EVERY_SECONDS="${TORCHLIFT_SAVE_EVERY_SECONDS:-60}"
# One save may last that long: some 100 GB over one connection, and a job that has ended waits for it.
SAVE_SECONDS="${TORCHLIFT_SAVE_SECONDS:-1800}"
RUN_AS="${TORCHLIFT_RUN_AS:-1000:1000}"
mkdir -p "$TORCHLIFT_WORK"
log="$TORCHLIFT_WORK/host.log"
exec > >(keep "$log" -a) 2>&1

instance_id() {
  local token
  if [ -n "${TORCHLIFT_INSTANCE_ID:-}" ]; then
    echo "$TORCHLIFT_INSTANCE_ID"
    return
  fi
  token="$(curl -sf --max-time 10 --retry 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' http://169.254.169.254/latest/api/token)"
  curl -sf --max-time 10 --retry 5 -H "X-aws-ec2-metadata-token: $token" http://169.254.169.254/latest/meta-data/instance-id
}
# send_log: the host's own lines, beside the container's, which its log driver sends as they come.
send_log() {
  local stream="$TORCHLIFT_JOB/$TORCHLIFT_HASH/$TORCHLIFT_INSTANCE_ID"
  within 60 aws logs create-log-stream --log-group-name "$TORCHLIFT_LOG_GROUP" --log-stream-name "$stream/host" || true
  tail -n 200 "$log" | python3 -c '
import json, sys, time
now = int(time.time() * 1000)
lines = sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
# A metric that is sent twice counts twice: the container has sent its own.
lines = [line[:2000] for line in lines if line.strip() and not line.startswith("{\"_aws\"")]
json.dump([{"timestamp": now, "message": line} for line in lines], sys.stdout)
' >"$TORCHLIFT_WORK/events.json"
  within 60 aws logs put-log-events --log-group-name "$TORCHLIFT_LOG_GROUP" --log-stream-name "$stream/host" \
    --log-events "file://$TORCHLIFT_WORK/events.json" >/dev/null || true
}

# finish SUCCESS|FAILURE REASON: the only way out of a job that has ended.
finish() {
  trap - EXIT TERM
  say "$1: $2"
  stop_saving
  bash "$scripts/signal.sh" "$1" "$TORCHLIFT_JOB on ${TORCHLIFT_INSTANCE_ID:-an unknown instance}: $2" ||
    say "the signal is lost; the event of this instance's end makes up for it"
  [ "$1" = FAILURE ] || within 600 bash "$scripts/checkpoints.sh" clear || true
  [ -z "${TORCHLIFT_INSTANCE_ID:-}" ] || end_instance
  say "this instance cannot be taken out of its group: shutting down"
  systemctl poweroff
  exit 1
}

# end_instance: sends the log and takes the instance out of its group; returns only when that fails.
end_instance() {
  local pause
  send_log || say "the log is not sent"
  for pause in 2 10 30 0; do
    # With the decrement the group lets it go; without, it would start a replacement.
    if within 60 aws autoscaling terminate-instance-in-auto-scaling-group --instance-id "$TORCHLIFT_INSTANCE_ID" \
      --should-decrement-desired-capacity >/dev/null; then
      exit 0
    fi
    sleep "$pause"
  done
}

saver="" watcher=""
save_meanwhile() {
  local pause="" stop=""
  trap 'stop=1; kill "$pause" 2>/dev/null || true' TERM
  while [ -z "$stop" ]; do
    sleep "$SAVE_EVERY_SECONDS" &
    pause=$!
    wait "$pause" || true
    [ -n "$stop" ] || within "$SAVE_SECONDS" bash "$scripts/checkpoints.sh" save || say "checkpoints could not be saved this time"
  done
}
# stop_saving: a save under way is finished first, or it would get in the way of what follows.
stop_saving() {
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
  [ -n "$saver" ] || return 0
  kill "$saver" 2>/dev/null || true
  wait "$saver" || true
  saver=""
}

# The host goes down (reboot, interruption): keep what there is, and leave the rest to the next boot or host.
# shellcheck disable=SC2329 # called by the trap
on_shutdown() {
  trap - EXIT TERM
  say "the host is being shut down"
  stop_saving
  # The training saves itself when it is asked to stop.
  docker stop --time 40 "$CONTAINER" >/dev/null 2>&1 || true
  bash "$scripts/checkpoints.sh" save || true
  exit 0
}
trap 'finish FAILURE "run.sh ended unexpectedly; see the log"' EXIT
trap on_shutdown TERM

TORCHLIFT_INSTANCE_ID="$(instance_id)" || finish FAILURE "the instance metadata service does not answer"
export TORCHLIFT_INSTANCE_ID

# remaining_seconds: what is left of the deadline, which counts from the first start of this deployment's attempt.
remaining_seconds() {
  local mark size started now
  mark="${TORCHLIFT_CHECKPOINTS}started-$(printf %s "$TORCHLIFT_HANDLE" | sha256sum | cut -c 1-16)"
  s3_parts "$mark"
  now="$(date +%s)"
  # `set -e` does not reach into a command substitution.
  size="$(object_size "$BUCKET" "$KEY")" || return 1
  if [ -n "$size" ]; then
    started="$(aws s3 cp --only-show-errors "$mark" -)" || return 1
  else
    started="$now"
    printf %s "$now" | aws s3 cp --only-show-errors - "$mark" || return 1
  fi
  echo "$((started + TORCHLIFT_DEADLINE_SECONDS - now))"
}
remaining="$(remaining_seconds)" || finish FAILURE "the time of the first start cannot be read or written"
deadline_reason="the deadline of $((TORCHLIFT_DEADLINE_SECONDS / 60)) minutes has passed"
[ "$remaining" -gt 0 ] || finish FAILURE "$deadline_reason"
ends=$((SECONDS + remaining))
left() { echo "$((ends > SECONDS ? ends - SECONDS : 1))"; }
# bounded COMMAND...: nothing may hang for longer than the job has.
bounded() { within "$(left)" "$@"; }

login_and_pull() {
  local registry="${TORCHLIFT_IMAGE%%/*}" region
  region="${registry#*.dkr.ecr.}"
  bounded aws ecr get-login-password --region "${region%%.*}" |
    bounded docker login --username AWS --password-stdin "$registry" && bounded docker pull --quiet "$TORCHLIFT_IMAGE"
}
login_and_pull || finish FAILURE "the image $TORCHLIFT_IMAGE cannot be pulled"

bounded bash "$scripts/checkpoints.sh" restore || finish FAILURE "the checkpoints cannot be read"
mkdir -p "$TORCHLIFT_WORK"/{inputs,output,checkpoints}
chown -R "$RUN_AS" "$TORCHLIFT_WORK"/{output,checkpoints}

launcher=(
  docker run --rm --name "$CONTAINER" --user "$RUN_AS" --entrypoint /usr/bin/env
  --volume "$TORCHLIFT_WORK:$TORCHLIFT_WORK" --workdir "$TORCHLIFT_WORK"
  # Data loaders and NCCL share memory; Docker's default is 64 MiB.
  --ipc host --ulimit memlock=-1 --ulimit stack=67108864
  --security-opt no-new-privileges
  --log-driver awslogs --log-opt "awslogs-region=$AWS_REGION" --log-opt "awslogs-group=$TORCHLIFT_LOG_GROUP"
  --log-opt "awslogs-stream=$TORCHLIFT_JOB/$TORCHLIFT_HASH/$TORCHLIFT_INSTANCE_ID/container-$(date +%s)"
  # A user without an entry in the image's passwd has neither.
  --env HOME=/tmp --env USER=torchlift
)
while IFS='=' read -r name _; do
  case "$name" in
    '' | *[!A-Za-z0-9_]* | TORCHLIFT_HANDLE) ;;
    *) launcher+=(--env "$name") ;;
  esac
done <"${TORCHLIFT_ENV_FILE:-/etc/torchlift/job.env}"
if command -v nvidia-smi >/dev/null; then
  # Without its GPUs a job would only fail later, or crawl until its deadline.
  nvidia-smi || finish FAILURE "nvidia-smi fails: the AMI's driver does not see the instance's GPUs"
  launcher+=(--gpus all)
fi
docker rm --force "$CONTAINER" >/dev/null 2>&1 || true

# watch_for_interruption: Spot capacity is taken back two minutes after the notice, and the shutdown itself leaves less.
watch_for_interruption() {
  local base=http://169.254.169.254/latest token=""
  while sleep "${TORCHLIFT_WATCH_SECONDS:-5}" >/dev/null 2>&1; do
    [ -n "$token" ] ||
      token="$(curl -sf --max-time 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 21600' "$base/api/token")" || continue
    # 404 while there is no notice; any other failure may be a token that has expired.
    case "$(curl -s --max-time 5 -o /dev/null -w '%{http_code}' -H "X-aws-ec2-metadata-token: $token" \
      "$base/meta-data/spot/instance-action")" in
      200) break ;;
      404) ;;
      *) token="" ;;
    esac
  done
  say "this Spot instance will be taken back: saving"
  kill -TERM $$
}

save_meanwhile &
saver=$!
watch_for_interruption &
watcher=$!
timeout --kill-after=60 "$(left)" bash "$scripts/run_job.sh" "${launcher[@]}" "$TORCHLIFT_IMAGE" &
job=$!
status=0
wait "$job" || status=$?
docker rm --force "$CONTAINER" >/dev/null 2>&1 || true

[ "$status" -ne 0 ] || finish SUCCESS "$TORCHLIFT_RESULT"
# A job that failed by itself left its reason, whatever its status; one that was ended at the deadline did not.
reason="$(cat "$TORCHLIFT_WORK/reason.txt" 2>/dev/null)" || reason=""
case "$status" in 124 | 137) reason="${reason:-$deadline_reason}" ;; esac
finish FAILURE "${reason:-exit $status: $(tail -n 5 "$log" | tr '\n' ' ')}"
