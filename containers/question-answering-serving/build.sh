#!/usr/bin/env bash
# Build and push this image. Environment: BASE_IMAGE, TORCHLIFT_PLATFORM (linux/amd64), TORCHLIFT_RESULT
# (ecr://registry/repository:tag), TORCHLIFT_HOME (the source bundle, or a checkout), and TORCHLIFT_TRACE_HASH: the traced
# model, which lies in the work folder's inputs/model, becomes /opt/torchlift/models/<that hash> of the image.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${TORCHLIFT_TRACE_HASH:?}"
model="${TORCHLIFT_WORK:-$PWD}/inputs/model"
[ -f "$model/model.json" ] || {
  echo "torchlift: $model has no model.json: it is no traced model" >&2
  exit 1
}
home=${TORCHLIFT_HOME:-$(cd "$here/../.." && pwd)}
export TORCHLIFT_IMAGE_DIR=${TORCHLIFT_IMAGE_DIR:-containers/$(basename "$here")}
# A build context of its own: nothing is written where the source lies, which may be a checkout.
TORCHLIFT_HOME=$(mktemp -d)
export TORCHLIFT_HOME
trap 'rm -rf "$TORCHLIFT_HOME"' EXIT
mkdir -p "$TORCHLIFT_HOME/$TORCHLIFT_IMAGE_DIR" "$TORCHLIFT_HOME/models"
cp -R "$home/$TORCHLIFT_IMAGE_DIR/." "$TORCHLIFT_HOME/$TORCHLIFT_IMAGE_DIR"
cp -R "$home/model_code" "$TORCHLIFT_HOME"
cp -R "$model" "$TORCHLIFT_HOME/models/$TORCHLIFT_TRACE_HASH"
# The fleet's user is nobody of this machine.
chmod -R a+rX "$TORCHLIFT_HOME/models"
bash "$here/../../scripts/build_image.sh" "$@"
