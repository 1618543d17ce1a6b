#!/bin/bash
# Ends a server whose process runs but does not work, so that its unit starts another; what torchlift-watch.service runs.
#
# systemd sees processes that end. This sees an inference thread that died or hangs: /healthz is 503, or silent.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PAUSE="${TORCHLIFT_WATCH_SECONDS:-5}"
ALLOWED=3
declare -A failures=()

# look CORE: whether its server works. A closed port is one that starts or has ended, which is its unit's business.
look() {
  local status=0
  curl --silent --fail --max-time 5 --output /dev/null "http://127.0.0.1:$((8081 + $1))/healthz" || status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 7 ]
}

while true; do
  for ((core = 0; core < TORCHLIFT_CORES; core++)); do
    if look "$core"; then
      failures[$core]=0
    else
      failures[$core]=$((${failures[$core]:-0} + 1))
      if [ "${failures[$core]}" -ge "$ALLOWED" ]; then
        say "the server of core $core does not work: it is ended, and its unit starts another"
        docker kill "torchlift-server-$core" >/dev/null || true
        failures[$core]=0
      fi
    fi
  done
  sleep "$PAUSE"
done
