#!/bin/bash
# publish.sh FOLDER URI: makes FOLDER the result at URI, as a whole or not at all.
#
# For s3://bucket/prefix/: upload to a temporary prefix, read back and compare, copy into place, manifest.json last. A
# prefix without manifest.json is no result, so whatever happens in between leaves none. $TORCHLIFT_COPIES, entries
# `folder/=s3://bucket/prefix/`, names folders of the result whose files go to a prefix of their own too, before that.
# For ecr://…: build_image.sh has pushed; this only proves that the tag is there, in the one format SageMaker takes.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -eq 2 ] || die "usage: publish.sh FOLDER URI"
folder="${1%/}"
uri="$2"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

case "$uri" in
  ecr://*)
    ecr_parts "$uri"
    found="$(image_media_type)"
    [ -n "$found" ] || die "$uri was not pushed"
    [ "$found" = "$DOCKER_SCHEMA_2" ] || die "$uri has media type $found: SageMaker takes $DOCKER_SCHEMA_2 only"
    say "published $uri"
    exit 0
    ;;
  s3://*/) s3_parts "$uri" ;;
  *) die "'$uri' is neither s3://bucket/prefix/ nor ecr://registry/repository:tag" ;;
esac

[ -d "$folder" ] || die "'$folder' is not a folder"
if result_exists "$uri"; then
  say "$uri is there already: nothing to publish"
  exit 0
fi

scratch="$(mktemp -d)"
attempt="$(date -u +%Y%m%dT%H%M%SZ)-$$-$RANDOM"
temporary="s3://$BUCKET/tmp/$KEY$attempt/"
cleanup() {
  # What is published stays so, whatever is left behind.
  rm -rf "$scratch" || say "left behind: $scratch"
  aws s3 rm --only-show-errors --recursive "$temporary" || say "left behind: $temporary"
}
trap cleanup EXIT

python3 "$here/manifest.py" make "$folder" "$scratch/manifest.json" || die "'$folder' cannot be published"
aws s3 cp --only-show-errors --recursive "$folder" "$temporary"
mkdir "$scratch/read-back"
aws s3 cp --only-show-errors --recursive "$temporary" "$scratch/read-back"
python3 "$here/manifest.py" verify --exact "$scratch/read-back" "$scratch/manifest.json" ||
  die "the upload does not agree with '$folder'"
rm -rf "$scratch/read-back"

# What an earlier attempt left in place, without a manifest, is no part of this result.
aws s3 rm --only-show-errors --recursive "$uri"
aws s3 cp --only-show-errors --recursive "$temporary" "$uri"
aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$KEY" --output json >"$scratch/placed.json"
python3 "$here/manifest.py" listed "$scratch/placed.json" "$KEY" "$scratch/manifest.json" ||
  die "the copy into place is not complete"
for copy in ${TORCHLIFT_COPIES:-}; do
  [ -d "$folder/${copy%%=*}" ] || die "'$folder' has no ${copy%%=*}, which has a place of its own"
  # Whatever else lies there is somebody else's.
  aws s3 cp --only-show-errors --recursive "$uri${copy%%=*}" "${copy#*=}"
done
aws s3 cp --only-show-errors --content-type application/json "$scratch/manifest.json" "${uri}manifest.json"
say "published $uri"
