#!/usr/bin/env bash
# Serve Unbroken behind a reverse proxy: one process, event loop and HTTP parser in C.
#
#   DATABASE_URL=… REDIS_URL=… SECRET_KEY=… ALLOWED_HOSTS=… RELAY_MODELS=… deploy/uvicorn.sh
#
# Put a proxy in front, for TLS and for limits per address: deploy/nginx.conf and its like.
# HOST and PORT choose the address (127.0.0.1:8000); with PREPARE=0 tables and static files are left as
# they are, for whoever prepares once for many (images, deploy/systemd). Jobs are taken by `manage.py
# relay_worker`, or inside this process with RELAY_EMBEDDED=1. Further arguments go to uvicorn.
set -euo pipefail
cd "$(dirname "$0")/.."

for name in DATABASE_URL REDIS_URL SECRET_KEY RELAY_MODELS; do
  if [ -z "${!name:-}" ]; then
    echo "deploy/uvicorn.sh: $name is not set (the README lists all settings)" >&2
    exit 2
  fi
done

python=.venv/bin/python
if [ "${PREPARE:-1}" != 0 ]; then
  "$python" manage.py migrate --no-input
  "$python" manage.py collectstatic --no-input --verbosity 0
fi

# Whose X-Forwarded-For is believed is said by TRUSTED_PROXIES, not by the server.
# At a stop viewers get 5 s to be let go; they come back to another process and miss nothing.
exec "$python" -m uvicorn chatapp.asgi:application \
  --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" \
  --loop uvloop --http chatapp.middleware.heads:BoundedHttp --lifespan on --no-access-log --no-proxy-headers \
  --timeout-graceful-shutdown 5 "$@"
