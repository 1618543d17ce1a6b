#!/usr/bin/env bash
# run.sh PROGRAM ARGUMENTS...: runs a program in this image, which a build pulls by $TORCHLIFT_IMAGE, on the job's work
# folder (the current one). It needs no network: what it reads was fetched before.
set -euo pipefail
: "${TORCHLIFT_IMAGE:?}"
registry="${TORCHLIFT_IMAGE%%/*}"
region="${registry#*.dkr.ecr.}"
aws ecr get-login-password --region "${region%%.*}" | docker login --username AWS --password-stdin "$registry"
docker pull --quiet "$TORCHLIFT_IMAGE"
exec docker run --rm --network none --user "$(id -u):$(id -g)" --env HOME=/tmp \
  --volume "$PWD:/opt/torchlift/work" --entrypoint "$1" "$TORCHLIFT_IMAGE" "${@:2}"
