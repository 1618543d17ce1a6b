#!/bin/bash
# Metrics of the cores and servers, for CloudWatch; what torchlift-monitor.service runs.
#
# neuron-monitor is the host's: it belongs to the driver, and only there it sees the processes of all containers. What
# it prints is read in a container, which needs no device for that.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PATH="$PATH:/opt/aws/neuron/bin"
instance="$(cat "$RUN/instance")"
options=(
  --interactive --memory 256m --memory-swap 256m
  --env "TORCHLIFT_INSTANCE_ID=$instance" --env TORCHLIFT_DEPLOYMENT --env TORCHLIFT_CORES
)
if [ -e "$RUN/token" ]; then
  options+=(--volume "$RUN/token:/run/torchlift/token:ro" --env TORCHLIFT_TOKEN_FILE=/run/torchlift/token)
fi
if command -v neuron-monitor >/dev/null; then
  neuron-monitor -c "$HOST/neuron_monitor.json" | container torchlift-monitor "${options[@]}" "$TORCHLIFT_MONITOR_IMAGE"
else
  say "this AMI has no neuron-monitor: there are no metrics of the cores, only of the servers" >&2
  container torchlift-monitor "${options[@]}" "$TORCHLIFT_MONITOR_IMAGE" </dev/null
fi
