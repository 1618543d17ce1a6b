# shellcheck shell=bash
# What the job scripts share. Sourced, never run.

# The only manifest that SageMaker takes: no OCI manifest, no index.
DOCKER_SCHEMA_2=application/vnd.docker.distribution.manifest.v2+json

say() { echo "torchlift: $*"; }

die() {
  echo "torchlift: $*" >&2
  exit 1
}

# within SECONDS COMMAND...: the command ends then, and what ignores that is killed.
within() { timeout --kill-after=5 "$@"; }

# keep FILE [TEE OPTION]: shows what it reads and keeps it in FILE. Whatever becomes of that (no tee, a full disk), it
# reads to the end: nobody may die of its log.
keep() {
  local line
  trap '' PIPE # of this side of the pipe only
  tee ${2:+"$2"} "$1" || true
  while IFS= read -r line; do
    echo "$line" || true
    echo "$line" >>"$1" || true
  done
}

# s3_parts URI: sets BUCKET and KEY. A prefix ends in a slash, an object does not.
s3_parts() {
  case "$1" in
    s3://?*/?*) ;;
    *) die "'$1' is not s3://bucket/path" ;;
  esac
  local rest="${1#s3://}"
  BUCKET="${rest%%/*}"
  KEY="${rest#*/}"
}

# ecr_parts URI: sets REGISTRY, REPOSITORY, TAG, ACCOUNT and REGION of ecr://<registry>/<repository>:<tag>.
ecr_parts() {
  case "$1" in
    ecr://?*.dkr.ecr.?*/?*:?*) ;;
    *) die "'$1' is not ecr://<registry>/<repository>:<tag>" ;;
  esac
  local rest="${1#ecr://}"
  REGISTRY="${rest%%/*}"
  rest="${rest#*/}"
  REPOSITORY="${rest%:*}"
  TAG="${rest##*:}"
  ACCOUNT="${REGISTRY%%.*}"
  rest="${REGISTRY#*.dkr.ecr.}"
  REGION="${rest%%.*}"
  export BUCKET KEY REGISTRY REPOSITORY TAG ACCOUNT REGION
}

# object_size BUCKET KEY: prints the size in bytes, or nothing when there is no such object.
object_size() {
  local listing
  # A listing needs no permission to decrypt, and its failure is not taken for absence.
  listing="$(aws s3api list-objects-v2 --bucket "$1" --prefix "$2" --max-items 1 --output json)" || return 1
  python3 -c '
import json, sys
page = json.loads(sys.argv[1] or "{}")
for item in page.get("Contents") or []:
    if item["Key"] == sys.argv[2]:
        print(item["Size"])
' "$listing" "$2"
}

# image_media_type: prints the manifest media type of $REPOSITORY:$TAG, or nothing when there is no such tag.
image_media_type() {
  local answer
  answer="$(aws ecr batch-get-image --region "$REGION" --registry-id "$ACCOUNT" --repository-name "$REPOSITORY" \
    --image-ids "imageTag=$TAG" --output json)" || return 1
  python3 -c '
import json, sys
for image in json.loads(sys.argv[1]).get("images", []):
    manifest = json.loads(image["imageManifest"])
    print(manifest.get("mediaType") or image.get("imageManifestMediaType") or "unknown")
' "$answer"
}

# result_exists URI: status 0 when the result is complete, 1 when it is not; dies when that cannot be told.
result_exists() {
  local found
  case "$1" in
    s3://*/)
      s3_parts "$1"
      found="$(object_size "$BUCKET" "${KEY}manifest.json")" || die "cannot look for $1manifest.json"
      [ -n "$found" ] && [ "$found" -gt 0 ]
      ;;
    ecr://*)
      ecr_parts "$1"
      found="$(image_media_type)" || die "cannot look for $1"
      [ -n "$found" ] || return 1
      # Its tag is immutable: nothing can be pushed in its place.
      [ "$found" = "$DOCKER_SCHEMA_2" ] ||
        die "$1 has media type $found, SageMaker takes $DOCKER_SCHEMA_2 only: delete that image and deploy again"
      ;;
    *) die "'$1' is neither s3://bucket/prefix/ nor ecr://registry/repository:tag" ;;
  esac
}
