#!/bin/bash
# train.sh [OPTIONS]: the deployment's training, by hand, on a development box. OPTIONS are added to its command line,
# where the last of two equal ones counts: `--epochs 1 --learning-rate 2e-5`.
#
# The code that runs is $TORCHLIFT_HOME/model_code of this box: edit it and run again. Everything of a run lies in
# $TORCHLIFT_WORK: inputs/ (fetched once), runs/<time>/output, runs/<time>/checkpoints. The output is published to
# $TORCHLIFT_BOXES<instance id>/<time>/, from where `mode = "skip"` with `weights_uri` serves it.
set -euo pipefail
: "${TORCHLIFT_HOME:?}" "${TORCHLIFT_WORK:?}" "${TORCHLIFT_IMAGE:?}" "${TORCHLIFT_COMMAND:?}" "${TORCHLIFT_BOXES:?}"
scripts="$TORCHLIFT_HOME/scripts"
# shellcheck source=/dev/null
. "$scripts/common.sh"

instance_id() {
  local token
  token="$(curl -sf --max-time 10 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' http://169.254.169.254/latest/api/token)" &&
    curl -sf --max-time 10 -H "X-aws-ec2-metadata-token: $token" http://169.254.169.254/latest/meta-data/instance-id
}
id="${TORCHLIFT_INSTANCE_ID:-$(instance_id)}" || die "the instance metadata service does not answer"

registry="${TORCHLIFT_IMAGE%%/*}" region="${TORCHLIFT_IMAGE#*.dkr.ecr.}"
aws ecr get-login-password --region "${region%%.*}" | docker login --username AWS --password-stdin "$registry" ||
  die "Docker cannot log in to $registry"
docker pull --quiet "$TORCHLIFT_IMAGE" || die "the image $TORCHLIFT_IMAGE cannot be pulled"

# One at a time: what one training reads, another must not fetch anew.
mkdir -p "$TORCHLIFT_WORK/inputs"
exec 8<"$TORCHLIFT_WORK"
flock 8
for entry in ${TORCHLIFT_INPUTS:-}; do
  folder="$TORCHLIFT_WORK/inputs/${entry%%=*}"
  [ "$(cat "$folder.uri" 2>/dev/null)" != "${entry#*=}" ] || continue
  # While it is replaced it is no whole input of either address.
  rm -f "$folder.uri"
  bash "$scripts/fetch.sh" "${entry#*=}" "$folder" || die "the input ${entry%%=*} cannot be fetched"
  echo "${entry#*=}" >"$folder.uri"
done
exec 8<&-

now="$(date -u +%Y%m%dT%H%M%SZ)"
run="$TORCHLIFT_WORK/runs/$now"
mkdir -p "$TORCHLIFT_WORK/runs"
# Two of one second would write into one another.
mkdir "$run" || die "another training began in $run this second: try again"
mkdir "$run"/{output,checkpoints}
ln -s ../../inputs "$run/inputs"
chown -R "${TORCHLIFT_RUN_AS:-1000:1000}" "$run"
gpus=()
if command -v nvidia-smi >/dev/null; then gpus=(--gpus all); fi
say "training in $run"
status=0
docker run --rm --user "${TORCHLIFT_RUN_AS:-1000:1000}" --entrypoint /usr/bin/env --workdir "$run" \
  --volume "$TORCHLIFT_WORK:$TORCHLIFT_WORK" --volume "$TORCHLIFT_HOME/model_code:/opt/torchlift/model_code:ro" \
  --ipc host --ulimit memlock=-1 --ulimit stack=67108864 --security-opt no-new-privileges \
  --env HOME=/tmp --env USER=torchlift --env TORCHLIFT_BASE_MODEL --env TORCHLIFT_DATA --env TORCHLIFT_IMAGE "${gpus[@]}" "$TORCHLIFT_IMAGE" \
  bash -c "$TORCHLIFT_COMMAND \"\$@\"" torchlift-train "$@" || status=$?
if [ "$status" -ne 0 ]; then
  say "exit $status; what there is lies in $run" >&2
  exit "$status"
fi
bash "$scripts/publish.sh" "$run/output" "$TORCHLIFT_BOXES$id/$now/" ||
  die "the training is done and not published; again: bash $scripts/publish.sh $run/output $TORCHLIFT_BOXES$id/$now/"
