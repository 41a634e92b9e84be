"""For whoever runs this: is the process alive, and can it answer people?"""

from __future__ import annotations

import sys

from django.db import Error, connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from chatapp import runtime
from chatapp.api.failures import AWAY, RETRY_AFTER_S, note_away
from chatapp.metrics import WORKER_SEEN_S, exposition, may_read
from chatapp.middleware.problems import ERROR_ID, error_id
from chatapp.middleware.threads import on_database_thread
from relay import StoreUnavailable


def failed(request: HttpRequest) -> HttpResponse:
    """Django's handler500, called where the exception is being handled. No query, no context: what
    failed may be the database."""
    away = isinstance(error := sys.exc_info()[1], AWAY)
    note_away(error)
    page = loader.get_template("503.html" if away else "500.html")
    made = error_id(request)
    headers = {ERROR_ID: made} | ({"Retry-After": str(RETRY_AFTER_S)} if away else {})
    return HttpResponse(
        page.render({"error_id": made}), status=503 if away else 500, headers=headers
    )


async def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


async def readyz(request: HttpRequest) -> HttpResponse:
    """Database, Redis, somebody who takes jobs, and no wish to stop; 503 names what is missing."""
    staying = not runtime.hub().leaving
    parts = {"database": await _database(), **await _store(), "staying": staying}
    missing = [name for name, ready in parts.items() if not ready]
    return JsonResponse(
        {"ready": not missing, "missing": missing, "parts": parts}, status=503 if missing else 200
    )


async def metrics(request: HttpRequest) -> HttpResponse:
    """This process's own series, for whoever METRICS_TOKEN and METRICS_FROM let in; to everybody
    else there is nothing here."""
    if not may_read(
        authorization=request.headers.get("Authorization", ""),
        address=request.META.get("REMOTE_ADDR", ""),
        forwarded="X-Forwarded-For" in request.headers or "Forwarded" in request.headers,
    ):
        raise Http404
    body, content_type = await exposition(request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)


async def _store() -> dict[str, bool]:
    store = runtime.store()
    try:
        await store.ping()
        shards = range(runtime.config().shards)
        workers = [await store.workers(shard, WORKER_SEEN_S) for shard in shards]
    except StoreUnavailable:
        return {"redis": False, "workers": False}
    return {"redis": True, "workers": all(workers)}


@on_database_thread
def _database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return False
    return True
