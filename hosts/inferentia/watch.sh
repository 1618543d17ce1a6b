#!/bin/bash
# Ends a server whose process runs but does not work, so that its unit starts another; what torchlift-watch.service runs.
#
# systemd sees processes that end. This sees an inference thread that died or hangs: /healthz is 503, or silent.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PAUSE="${TORCHLIFT_WATCH_SECONDS:-5}"
ALLOWED=3

# look CORE: whether its server works. An error status, silence and an answer that breaks off are a server's; a closed port
# is one that starts or has ended, which is its unit's business; and what else curl says is of curl itself.
look() {
  local status=0
  curl --silent --fail --max-time 5 --output /dev/null "http://127.0.0.1:$((8081 + $1))/healthz" || status=$?
  case "$status" in 22 | 28 | 52 | 56) return 1 ;; esac
}

while true; do
  for ((core = 0; core < TORCHLIFT_CORES; core++)); do
    if look "$core"; then
      failures[core]=0
    else
      failures[core]=$((${failures[core]:-0} + 1))
      if [ "${failures[core]}" -ge "$ALLOWED" ]; then
        say "the server of core $core does not work: it is ended, and its unit starts another"
        within 60 docker kill "torchlift-server-$core" >/dev/null || true
        failures[core]=0
      fi
    fi
  done
  sleep "$PAUSE"
done
