#!/usr/bin/env bash
# Build and push this image. Environment: BASE_IMAGE, TORCHLIFT_PLATFORM (linux/amd64 or linux/arm64),
# TORCHLIFT_RESULT (ecr://registry/repository:tag), TORCHLIFT_HOME (the build context).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TORCHLIFT_HOME=${TORCHLIFT_HOME:-$(cd "$here/../.." && pwd)}
export TORCHLIFT_IMAGE_DIR=${TORCHLIFT_IMAGE_DIR:-containers/$(basename "$here")}
exec bash "$here/../../scripts/build_image.sh" "$@"
