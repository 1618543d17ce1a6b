#!/bin/bash
# checkpoints.sh save|restore|clear: keeps a job's checkpoints in S3, so that a new host can resume.
#
# Each folder in $TORCHLIFT_WORK/checkpoints is one checkpoint, whole from the moment that it has its name: hidden ones
# are not finished. Names that end in a number are in order of it. A checkpoint is published like a result (manifest last), so one that was cut off while uploading
# is never resumed from. Only the newest is saved: the older ones would delay it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

: "${TORCHLIFT_CHECKPOINTS:?}"
folder="${TORCHLIFT_WORK:-/opt/torchlift/work}/checkpoints"
saved="${TORCHLIFT_WORK:-/opt/torchlift/work}/saved_checkpoints"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
KEEP=2
s3_parts "$TORCHLIFT_CHECKPOINTS"

# stored: prints the names of all checkpoints in S3, newest first, complete or not.
stored() {
  aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$KEY" --delimiter / --output json | python3 -c '
import json, sys
text = sys.stdin.read()
for item in (json.loads(text) if text.strip() else {}).get("CommonPrefixes") or []:
    print(item["Prefix"].rstrip("/").rsplit("/", 1)[-1])
' | sort --version-sort --reverse
}

save() {
  local name names position=0
  mkdir -p "$folder" "$saved"
  names="$(find "$folder" -mindepth 1 -maxdepth 1 -type d -name '[A-Za-z0-9]*' -printf '%f\n' | sort --version-sort --reverse)"
  for name in $names; do
    [ ! -e "$saved/$name" ] || return 0
    # The job may remove it meanwhile: links keep the files.
    rm -rf "$saved/.held"
    cp -al "$folder/$name" "$saved/.held"
    bash "$here/publish.sh" "$saved/.held" "$TORCHLIFT_CHECKPOINTS$name/"
    rm -rf "$saved/.held"
    touch "$saved/$name"
    break
  done
  names="$(stored)"
  for name in $names; do
    position=$((position + 1))
    [ "$position" -le "$KEEP" ] || aws s3 rm --only-show-errors --recursive "$TORCHLIFT_CHECKPOINTS$name/"
  done
}

restore() {
  local name names
  # What a crash left here may be half written; what is in S3 is complete.
  rm -rf "$folder" "$saved"
  mkdir -p "$folder" "$saved"
  names="$(stored)"
  for name in $names; do
    if bash "$here/fetch.sh" "$TORCHLIFT_CHECKPOINTS$name/" "$folder/$name"; then
      touch "$saved/$name"
      say "resumes from $name"
      return
    fi
  done
  say "no checkpoint to resume from"
}

case "${1:-}" in
  save) save ;;
  restore) restore ;;
  clear) aws s3 rm --only-show-errors --recursive "$TORCHLIFT_CHECKPOINTS" ;;
  *) die "usage: checkpoints.sh save|restore|clear" ;;
esac
