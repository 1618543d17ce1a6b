#!/bin/bash
# signal.sh SUCCESS|FAILURE [REASON]: reports the job's end to the wait condition of its stack.
#
# $TORCHLIFT_HANDLE is a presigned URL. The request may carry no Content-Type: it would not fit the signature (403).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

status="${1:-}"
reason="${2:-}"
case "$status" in SUCCESS | FAILURE) ;; *) die "usage: signal.sh SUCCESS|FAILURE [REASON]" ;; esac
[ -n "${TORCHLIFT_HANDLE:-}" ] || die "TORCHLIFT_HANDLE is not set: nobody waits for this job"

body="$(
  STATUS="$status" REASON="$reason" python3 -c '
import json, os
reason = os.environb[b"REASON"][:1000].decode("utf-8", "ignore")
print(json.dumps({
    "Status": os.environ["STATUS"],
    "Reason": reason or os.environ["STATUS"].lower(),
    "UniqueId": os.environ.get("TORCHLIFT_HASH") or "job",
    "Data": "",
}))'
)"
# --retry-all-errors is younger than some hosts: so the loop.
for pause in 1 2 4 8 16 0; do
  if curl --silent --show-error --fail --max-time 30 -X PUT -H 'Content-Type:' --data-binary "$body" \
    --output /dev/null "$TORCHLIFT_HANDLE"; then
    say "signalled $status"
    exit 0
  fi
  sleep "$pause"
done
die "the signal could not be delivered"
