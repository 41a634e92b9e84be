#!/usr/bin/env bash
# `make bench`: install what is missing, measure, print the tables and the verdict, write JSON.
#
#   MODE=quick (default)   one round against the peers that store nothing, about six minutes
#   MODE=full              three rounds, medians, every peer the bars name, about half an hour
#   MODE=setup             only install
#
# Everything goes to .bench/ in the checkout, which keeps itself out of git: peers' environments in
# .bench/env, results and logs in .bench/out. The settings of run_peers.sh (BENCH_TARGETS,
# BENCH_ROUNDS, BENCH_NICE, …) work here too. BENCH_ROWS chooses the rows measured after the table:
# any of "ttft stops viewers". Only 127.0.0.1 is used, and everything that is started is ended.
# The exit status tells whether the measuring worked, not whether every bar was passed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
mode=${1:-${MODE:-quick}}
export BENCH_ENV=${BENCH_ENV:-$root/.bench/env} BENCH_OUT=${BENCH_OUT:-$root/.bench/out}
export BENCH_PEERS=${BENCH_PEERS-}
stamp=$(date +%Y%m%d-%H%M%S)
mkdir -p "$BENCH_OUT"

case $mode in
  setup) exec "$here/run_peers.sh" setup ;;
  full)
    export BENCH_TARGETS=${BENCH_TARGETS:-fastapi,django,nchan-redis,resumable-py,floor,ours.json}
    export BENCH_ROUNDS=${BENCH_ROUNDS:-3}
    ;;
  quick) export BENCH_TARGETS=${BENCH_TARGETS:-fastapi,django,floor,ours.json} ;;
  *)
    echo "usage: MODE=quick|full|setup $0" >&2
    exit 2
    ;;
esac
[ -x "$root/.venv/bin/python" ] || { echo "run 'make setup' first" >&2; exit 2; }

export BENCH_RESULT=${BENCH_RESULT:-$BENCH_OUT/$mode-$stamp.json}
"$here/run_peers.sh" "$mode"
python=$BENCH_ENV/harness/bin/python
echo
"$python" "$here/verdict.py" "$BENCH_RESULT" --json "${BENCH_RESULT%.json}-verdict.json" || true

few=$([ "$mode" = full ] || echo yes)
for row in ${BENCH_ROWS-ttft stops viewers}; do
  json=${BENCH_RESULT%.json}-$row.json
  printf '\n%s\n' "$row"
  case $row in
    ttft) "$python" "$here/ttft_parts.py" ${few:+--count 40} --json "$json" ;;
    stops) "$python" "$here/stops.py" ${few:+--count 60} --json "$json" ;;
    viewers) "$python" "$here/viewers.py" --json "$json" ;;
    *)
      echo "no such row: $row" >&2
      exit 2
      ;;
  esac || { echo "$row could not be measured" >&2; failed=yes; }
done
[ -z "${failed:-}" ]
