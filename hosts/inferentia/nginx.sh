#!/bin/bash
# The proxy in front of the servers, in its container; what torchlift-nginx.service runs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

container torchlift-nginx --memory 512m --memory-swap 512m --ulimit nofile=65536:65536 --tmpfs /tmp:rw,mode=1777 \
  --volume "$ROOT/etc/torchlift/nginx.conf:/etc/torchlift/nginx.conf:ro" "$TORCHLIFT_NGINX_IMAGE"
