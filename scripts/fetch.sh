#!/bin/bash
# fetch.sh URI FOLDER: brings one input of a job into FOLDER, all of it or nothing.
#
#   s3://bucket/prefix/         what a job published: its manifest must be there, and sizes and SHA-256 must agree
#   s3://bucket/file.zip        an archive: unpacked; another single object: copied
#   plain+s3://bucket/prefix/   files that no job published: copied as they are, sizes compared with the listing
#
# Exit status 3: what is there is no whole result, now and later. Any other may be of this moment only.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -eq 2 ] || die "usage: fetch.sh URI FOLDER"
uri="$1"
target="${2%/}"
plain=""
case "$uri" in plain+*) plain=1 uri="${uri#plain+}" ;; esac
s3_parts "$uri"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

parent="$(dirname "$target")"
mkdir -p "$parent"
# One at a time; and what is left of one that was killed is in nobody's way.
exec 9<"$parent"
flock 9
find "$parent" -mindepth 1 -maxdepth 1 -name '.fetch-*' -exec rm -rf {} +
partial="$(mktemp -d "$parent/.fetch-XXXXXX")"
trap 'rm -rf "$partial"' EXIT
mkdir "$partial/files"

unsound() {
  say "$1" >&2
  exit 3
}

fetch_published() {
  result_exists "$uri" || unsound "$uri is no result: it has no manifest.json"
  aws s3 cp --only-show-errors --recursive "$uri" "$partial/files"
  mv "$partial/files/manifest.json" "$partial/manifest.json"
  local status=0
  python3 "$here/manifest.py" verify --prune "$partial/files" "$partial/manifest.json" || status=$?
  [ "$status" -ne 3 ] || unsound "$uri does not agree with its manifest"
  [ "$status" -eq 0 ] || die "$uri cannot be compared with its manifest"
}

fetch_plain() {
  aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$KEY" --output json >"$partial/listing.json"
  aws s3 cp --only-show-errors --recursive "$uri" "$partial/files"
  python3 "$here/manifest.py" copied "$partial/listing.json" "$KEY" "$partial/files" || die "$uri was not copied as a whole"
}

fetch_object() {
  local name="${KEY##*/}"
  aws s3 cp --only-show-errors "$uri" "$partial/$name"
  case "$name" in
    *.zip)
      # Python's zipfile never writes outside its target.
      python3 -m zipfile -e "$partial/$name" "$partial/files" || die "$uri is no sound zip file"
      ;;
    *) mv "$partial/$name" "$partial/files/$name" ;;
  esac
}

case "$uri" in
  */) if [ -n "$plain" ]; then fetch_plain; else fetch_published; fi ;;
  *) fetch_object ;;
esac
rm -rf "$target"
mv "$partial/files" "$target"
say "fetched $uri"
