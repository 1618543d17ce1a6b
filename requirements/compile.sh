#!/usr/bin/env bash
# Resolves each *.in here into exact pins. Pins name neither a registry nor a local build of torch.
set -euo pipefail
cd "$(dirname "$0")/.."
for set in synth operations serving demo dev torchserve triton checkov; do
  echo "requirements/$set.txt"
  pip-compile --quiet --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
    --no-header --annotation-style=line "requirements/$set.in" --output-file "requirements/$set.txt" >/dev/null
  sed -i -E 's/^(torch==[0-9.]+)\+[a-z0-9]+/\1/; /^(WARNING|#)/d' "requirements/$set.txt"
done
