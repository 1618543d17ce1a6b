#!/bin/bash
# server.sh CORE: the server of one NeuronCore, in its container; what torchlift-server@CORE.service runs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

core="$1"
# The core's number counts over all devices of the instance, also in a container that is given only one of them.
device="/dev/neuron$((core / TORCHLIFT_CORES_PER_DEVICE))"
[ -e "$ROOT$device" ] || die "core $core is on $device, which this instance does not have"

# An equal share of the memory for each server, so that one that leaks is ended and not the host. A tenth and 1 GiB
# stay for the rest.
memory_kib="$(awk '$1 == "MemTotal:" { print $2 }' "${TORCHLIFT_MEMINFO:-/proc/meminfo}")"
share_mib="$(((memory_kib / 1024 - 1024) * 9 / 10 / TORCHLIFT_CORES))"

group="$(stat --format %g "$ROOT$device")"

options=(
  --device "$device" --group-add "$group"
  --memory "${share_mib}m" --memory-swap "${share_mib}m" --ulimit nofile=65536:65536
  --tmpfs "/tmp:rw,mode=1777"
  # Models from S3, once for all cores; on the disk, because memory is what the servers need.
  --volume "$ROOT/var/lib/torchlift/models:/var/lib/torchlift/models" --env TORCHLIFT_CACHE_DIR=/var/lib/torchlift/models
  # nginx knows a server only by its open port: it opens when the models have answered.
  --env TORCHLIFT_READY_TIMEOUT_SECONDS=600
  --env "NEURON_RT_VISIBLE_CORES=$core" --env "NEURON_PROCESS_TAG=core-$core"
  --env TORCHLIFT_HOST=127.0.0.1 --env "TORCHLIFT_PORT=$((8081 + core))"
  --env "AWS_DEFAULT_REGION=$AWS_REGION"
)
# Everything of the fleet's environment; the server takes what it knows.
while IFS='=' read -r name _; do
  case "$name" in
    '' | *[!A-Za-z0-9_]* | TORCHLIFT_HOST | TORCHLIFT_PORT | TORCHLIFT_CACHE_DIR | TORCHLIFT_READY_TIMEOUT_SECONDS) ;;
    *) options+=(--env "$name") ;;
  esac
done <"$ROOT/etc/torchlift/fleet.env"
if [ -e "$RUN/token" ]; then
  options+=(--volume "$RUN/token:/run/torchlift/token:ro" --env TORCHLIFT_TOKEN_FILE=/run/torchlift/token)
fi
container "torchlift-server-$core" "${options[@]}" "$TORCHLIFT_SERVING_IMAGE"
