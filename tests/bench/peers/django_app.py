"""Baseline: Django's own async StreamingHttpResponse + httpx under uvicorn, no store, no resume."""

from __future__ import annotations

import json
import os

import django
import httpx
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

settings.configure(
    ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="bench", DEBUG=False, MIDDLEWARE=[]
)
django.setup()

UPSTREAM = os.environ["BENCH_UPSTREAM"] + "/v1/chat/completions"
client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


async def events(body):
    async with client.stream("POST", UPSTREAM, json=body) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            data = line[6:]
            if data == "[DONE]":
                break
            delta = json.loads(data)["choices"][0]["delta"].get("content")
            if delta:
                yield "data: " + json.dumps({"delta": delta}) + "\n\n"
    yield "data: [DONE]\n\n"


@csrf_exempt
async def chat(request):
    return StreamingHttpResponse(events(json.loads(request.body)), content_type="text/event-stream")


async def health(request):
    return HttpResponse("ok")


urlpatterns = [path("chat", chat), path("health", health)]
app = get_asgi_application()
