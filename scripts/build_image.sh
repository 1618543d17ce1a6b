#!/bin/bash
# build_image.sh [DOCKER BUILD OPTIONS...]: builds and pushes the image of an image job.
#
# SageMaker takes a single-platform Docker schema 2 manifest and refuses OCI manifests and indexes; attestations alone
# make an index. So: one platform, no attestations, the docker exporter, and the pushed manifest is read back.
# The build context is the job's source bundle ($TORCHLIFT_HOME).
set -euo pipefail

: "${TORCHLIFT_RESULT:?}" "${TORCHLIFT_HOME:?}" "${TORCHLIFT_IMAGE_DIR:?}" "${TORCHLIFT_PLATFORM:?}" "${BASE_IMAGE:?}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
ecr_parts "$TORCHLIFT_RESULT"
image="$REGISTRY/$REPOSITORY:$TAG"

# Tags are immutable: a second push would fail after a long build.
if result_exists "$TORCHLIFT_RESULT"; then
  say "$image is there already: nothing to build"
  exit 0
fi

# login REGISTRY: logs Docker in to an ECR registry; other registries are left alone.
login() {
  local region
  case "$1" in
    *.dkr.ecr.*.amazonaws.com*) region="${1#*.dkr.ecr.}" ;;
    *) return 0 ;;
  esac
  aws ecr get-login-password --region "${region%%.*}" | docker login --username AWS --password-stdin "$1"
}
login "$REGISTRY"
base_registry="${BASE_IMAGE%%/*}"
[ "$base_registry" = "$REGISTRY" ] || login "$base_registry"

arguments=(
  --platform "$TORCHLIFT_PLATFORM"
  --build-arg "BASE_IMAGE=$BASE_IMAGE"
  --file "$TORCHLIFT_HOME/$TORCHLIFT_IMAGE_DIR/Dockerfile"
  --tag "$image"
)
if docker buildx version >/dev/null 2>&1; then
  docker buildx build --provenance=false --sbom=false --output type=docker "${arguments[@]}" "$@" "$TORCHLIFT_HOME"
else
  # The classic builder makes schema 2 and knows no attestations.
  docker build "${arguments[@]}" "$@" "$TORCHLIFT_HOME"
fi
# Two builds of one tag: the second is refused, and may be content with what the first one pushed.
docker push "$image" || result_exists "$TORCHLIFT_RESULT" || die "$image cannot be pushed"
bash "$here/publish.sh" "$TORCHLIFT_HOME" "$TORCHLIFT_RESULT"
