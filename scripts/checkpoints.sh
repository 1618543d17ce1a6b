#!/bin/bash
# checkpoints.sh save|restore|clear: keeps a job's checkpoints in S3, so that a new host can resume.
#
# Each folder in $TORCHLIFT_WORK/checkpoints is one checkpoint, whole from the moment that it has its name: hidden ones
# are not finished. Names that end in a number are in order of it. A checkpoint is published like a result (manifest
# last), so one that was cut off while uploading is never resumed from. Only the newest is saved: the older ones would
# delay it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

: "${TORCHLIFT_CHECKPOINTS:?}"
folder="${TORCHLIFT_WORK:-/opt/torchlift/work}/checkpoints"
saved="${TORCHLIFT_WORK:-/opt/torchlift/work}/saved_checkpoints"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
KEEP=2
s3_parts "$TORCHLIFT_CHECKPOINTS"
mkdir -p "$folder" "$saved"
# One at a time.
exec 7<"$saved"
flock 7

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
  local name names kept=0
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
    # One that was cut off counts for nothing, however new: what was just saved may be older, and must stay.
    if [ "$kept" -lt "$KEEP" ] && result_exists "$TORCHLIFT_CHECKPOINTS$name/"; then
      kept=$((kept + 1))
    else
      aws s3 rm --only-show-errors --recursive "$TORCHLIFT_CHECKPOINTS$name/"
    fi
  done
}

restore() {
  local name names status pause
  # What a crash left here may be half written; what is in S3 is complete.
  find "$folder" "$saved" -mindepth 1 -delete
  names="$(stored)"
  for name in $names; do
    for pause in 5 30 0; do
      status=0
      bash "$here/fetch.sh" "$TORCHLIFT_CHECKPOINTS$name/" "$folder/$name" || status=$?
      case "$status" in 0 | 3) break ;; esac
      sleep "$pause"
    done
    case "$status" in
      0)
        touch "$saved/$name"
        say "resumes from $name"
        return
        ;;
      3) say "$name is not whole: passed over" ;;
      # To go on without it would be to do its work again.
      *) die "$name cannot be fetched" ;;
    esac
  done
  say "no checkpoint to resume from"
}

case "${1:-}" in
  save) save ;;
  restore) restore ;;
  clear) aws s3 rm --only-show-errors --recursive "$TORCHLIFT_CHECKPOINTS" ;;
  *) die "usage: checkpoints.sh save|restore|clear" ;;
esac
