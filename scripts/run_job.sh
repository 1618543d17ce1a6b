#!/bin/bash
# run_job.sh [LAUNCHER...]: one job, from inputs to published result. Every job runs through here, in CodeBuild, on an
# instance and on a developer's machine alike.
#
# The output is empty when the command begins: what an earlier try left half written is not published.
# LAUNCHER goes before the command, such as `docker run … IMAGE`. On failure the exit status is not zero (the command's
# own, if it was the command) and $TORCHLIFT_WORK/reason.txt says in at most 1 kB which step failed and how.
set -euo pipefail

: "${TORCHLIFT_JOB:?}" "${TORCHLIFT_HASH:?}" "${TORCHLIFT_RESULT:?}" "${TORCHLIFT_COMMAND:?}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
export TORCHLIFT_HOME="${TORCHLIFT_HOME:-/opt/torchlift}"
export TORCHLIFT_WORK="${TORCHLIFT_WORK:-/opt/torchlift/work}"
export PYTHONPATH="$TORCHLIFT_HOME${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$TORCHLIFT_WORK"/{inputs,output,checkpoints}
cd "$TORCHLIFT_WORK"
# Two would publish a mixture. The lock holds while anything of the job lives, and ends with it, however that ends.
exec 8<.
flock --nonblock 8 || die "another job runs in $TORCHLIFT_WORK"
rm -f reason.txt

# explain: prints why the step failed. Our programs say it in one line, which begins with the module's name, and which a
# launcher may bury under its own; of others the end of the log says why. Progress bars, colours and metrics say nothing.
explain() {
  local module
  module="$(grep -oE -- '-m [a-z_.]+' <<<"$TORCHLIFT_COMMAND" | tail -n 1)" || true
  module="${module##*[. ]}"
  if [ -n "$module" ] && grep -a "^$module: " step.log | tail -n 1 | grep .; then return; fi
  tail -n 200 step.log | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*m//g' | grep -av -e '^[[:space:]]*$' -e '^{"_aws"' |
    tail -n 15 | tail -c 850
}

# step NAME COMMAND...: runs a step, shows its output, keeps its log and, on failure, the reason and the exit status.
step() {
  local name="$1" status=0 reason
  shift
  say "$TORCHLIFT_JOB $TORCHLIFT_HASH: $name"
  "$@" 2>&1 | keep step.log || status=$?
  [ "$status" -ne 0 ] || return 0
  # Whatever is missing to explain it, it is told.
  reason="$(
    {
      echo "$name: exit $status: "
      [ "$status" -ne 137 ] || echo "killed, most likely because the machine's memory ran out: "
      explain || true
    } | python3 -c '
import sys
text = sys.stdin.buffer.read().decode("utf-8", "ignore")
sys.stdout.buffer.write(" ".join(text.split()).encode()[:1000].decode("utf-8", "ignore").encode())
'
  )" || reason="$name: exit $status"
  say "$reason" >&2
  # On a full disk there is room for it where the log was.
  printf %s "$reason" >reason.txt || { rm -f step.log && printf %s "$reason" >reason.txt; } || true
  exit "$status"
}

probe() {
  if result_exists "$TORCHLIFT_RESULT"; then echo yes; else echo no; fi >result_was_there
}

fetch_inputs() {
  local entry name
  for entry in ${TORCHLIFT_INPUTS:-}; do
    name="${entry%%=*}"
    [ "$name" != "$entry" ] || die "'$entry' is not name=uri"
    case "$name" in
      '' | *[!A-Za-z0-9_-]*) die "'$name' is no name for an input" ;;
    esac
    # A function that runs under `||` is not ended by `set -e`.
    bash "$here/fetch.sh" "${entry#*=}" "$TORCHLIFT_WORK/inputs/$name" || exit
  done
}

set -f # entries of TORCHLIFT_INPUTS are not patterns
step probe probe
read -r there <result_was_there
if [ "$there" = yes ]; then
  say "$TORCHLIFT_RESULT is there already: nothing to do"
  exit 0
fi
step fetch fetch_inputs
step clean find output -mindepth 1 -delete
step run "$@" bash -c "$TORCHLIFT_COMMAND"
step publish bash "$here/publish.sh" output "$TORCHLIFT_RESULT"
