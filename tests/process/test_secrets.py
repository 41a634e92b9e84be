"""Keys, passwords and sessions are in nothing that comes out: logs, errors, pages, captures."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from tests.scripted import Done, EndBody, Reset, Say, ScriptedUpstream, Send, Status
from tests.site import Proc, Site, until_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scripted import Step

pytestmark = pytest.mark.process

SECRETS: Final[Mapping[str, str]] = {
    "provider key": "marker-provider-key-0123456789",
    "SECRET_KEY": "marker-secret-key-" + "z" * 50,
    "password": "marker-password-9876",
    "wrong password": "marker-wrong-password-1",
    "wrong key": "ub_badbadba_marker-wrong-key-0123456789",
}
MAKE_ADMIN: Final = """
from chatapp.models import User
User.objects.create_superuser("root", password=%r)
"""
REPRS: Final = """
import asyncio
from django.conf import settings
from chatapp import catalog, runtime
from chatapp.auth import by_key
from chatapp.auth.attempts import Attempts
from chatapp.models import ApiKey
async def show():
    made = runtime.current()
    print(made, made.store, made.hub)
asyncio.run(show())
print(catalog.catalog(), *catalog.models().values(), *ApiKey.objects.all(), by_key(%r))
print(Attempts(settings.REDIS_URL, {}))
"""


class Keyed(Site):
    """With a second model, whose provider wants a key."""

    provider_url = ""

    def start_web(self) -> Proc:
        with (self.folder / "models.toml").open("a") as models:
            models.write(
                "[models.keyed]\n"
                'dialect = "openai-chat"\n'
                f'base_url = "{self.provider_url}"\n'
                'upstream_model = "m"\n'
                'api_key_env = "PROVIDER_KEY"\n'
            )
        return super().start_web()


def telling(key: str) -> dict[str, list[Step]]:
    """A provider that says the key back in every way that some do."""
    told = f"Incorrect API key provided: {key}. Authorization: Bearer {key}"
    error = {"error": {"message": told, "code": "invalid_api_key", "type": key}}
    return {
        "refused": [Status(401, json.dumps(error).encode())],
        "failed": [Status(500, f"<html>{told}</html>".encode())],
        "broken": [Say("Hel"), Send(error)],
        "cut": [Say("Hel"), EndBody()],
        "lost": [Say("Hel"), Reset()],
        "led away": [Status(307, b"", {"Location": f"http://127.0.0.1:9/?key={key}"})],
        "whole": [Say("Hello"), Done()],
    }


async def test_nothing_that_comes_out_holds_a_secret(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    env = {
        "SECRET_KEY": SECRETS["SECRET_KEY"],
        "PROVIDER_KEY": SECRETS["provider key"],
        "RELAY_CAPTURE_DIR": str(captures),
        "RELAY_UPSTREAM_RETRIES": "0",
    }
    out: dict[str, str] = {}
    site = Keyed(tmp_path, env=env)
    scripts = telling(SECRETS["provider key"])
    async with ScriptedUpstream() as provider, AsyncExitStack() as running:
        site.provider_url = provider.model_config().base_url
        for text, steps in scripts.items():
            provider.script(text, *steps)
        await running.enter_async_context(site)
        client = await running.enter_async_context(site.client())
        site.manage("shell", "-c", MAKE_ADMIN % SECRETS["password"])
        for text in scripts:
            reply = await client.post("/api/responses", json={"model": "keyed", "input": text})
            out[f"asked {text}"] = reply.text
            rid = reply.json()["id"]
            body = await until_status(client, rid, "completed", "failed", "incomplete")
            out[f"answer to {text}"] = json.dumps(body)
            out[f"events of {text}"] = (await client.get(f"/api/responses/{rid}/events")).text
        async with httpx.AsyncClient(base_url=site.urls[0]) as nobody:
            bad = {"Authorization": f"Bearer {SECRETS['wrong key']}"}
            for path in ("/api/chats", "/api/responses/x/events", "/api/nothing"):
                out[f"wrong key at {path}"] = _all(await nobody.get(path, headers=bad))
            long = {"Authorization": f"Bearer {site.key}", "Cookie": "sessionid=" + "s" * 4000}
            out["long cookie"] = _all(await nobody.get("/api/chats", headers=long))
            page = await nobody.get("/account/login/")
            token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
            assert token is not None
            cookie = page.headers["set-cookie"].split(";")[0]
            form = {"login": "root", "csrfmiddlewaretoken": token[1]}
            wrong = form | {"password": SECRETS["wrong password"]}
            sent: dict[str, Any] = {"headers": {"Cookie": cookie}}
            out["wrong password"] = (await nobody.post("/account/login/", data=wrong, **sent)).text
            form |= {"password": SECRETS["password"]}
            done = await nobody.post("/account/login/", data=form, **sent)
            assert done.status_code == 302
            session = re.search(r"sessionid=(\w+)", str(done.headers))
            assert session is not None
            signed_in = {"Cookie": f"sessionid={session[1]}"}
            for page_ in (
                *("response/", "apikey/", "auditevent/", "user/", "user/1/change/", "chat/"),
                *("apikey/1/change/", "plan/"),
            ):
                shown = await nobody.get(f"/admin/chatapp/{page_}", headers=signed_in)
                assert shown.status_code == 200, page_
                out[f"admin {page_}"] = shown.text
            models_page = await nobody.get("/admin/models/", headers=signed_in)
            assert "PROVIDER_KEY" in models_page.text
            out["admin models"] = models_page.text
        out["reprs"] = site.manage("shell", "-c", REPRS % site.key)
        out["check"] = site.manage("check", "--deploy")
        site.valkey.kill()
        reply = await client.post("/api/responses", json={"model": "keyed", "input": "away"})
        out["Redis away"] = reply.text
        assert all(SECRETS["provider key"] in str(request.headers) for request in provider.requests)
        secrets = {**SECRETS, "our key": site.key, "session": session[1]}
    out |= written(tmp_path, "*.log") | written(captures, "*.json")
    assert any(name.startswith("capture-") for name in out)
    assert any(name.startswith("web") for name in out)
    found = [
        f"{name} in {where}"
        for where, text in out.items()
        for name, secret in secrets.items()
        if secret in text
    ]
    assert found == []
    print(f"{len(out)} outputs, {sum(map(len, out.values()))} characters, {len(secrets)} secrets")


SAID: Final[Mapping[str, str]] = {
    name: f"marker-{name.replace(' ', '-')}-said"
    for name in ("question", "system prompt", "title", "answer", "reasoning", "argument", "error")
}


def talking() -> dict[str, list[Step]]:
    """A provider whose words are to be in no log, however its answer ends."""
    called = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}}
    arguments = json.dumps({"at": SAID["argument"]})
    delta = {"tool_calls": [called | {"function": {"name": "look", "arguments": arguments}}]}
    begin: list[Step] = [
        Send({"choices": [{"index": 0, "delta": {"reasoning_content": SAID["reasoning"]}}]}),
        Say(SAID["answer"]),
        Send({"choices": [{"index": 0, "delta": delta}]}),
    ]
    error = {"error": {"message": f"cannot say {SAID['error']}", "code": 500}}
    return {
        "whole": [*begin, Done()],
        "cut": [*begin, EndBody()],
        "lost": [*begin, Reset()],
        "broken": [*begin, Send(error)],
        "odd": [*begin, Send({"choices": SAID["error"]})],
        "refused": [Status(400, json.dumps(error).encode())],
    }


async def test_nothing_that_was_said_is_in_logs_or_metrics(tmp_path: Path) -> None:
    """Names, states and numbers are (design: never content)."""
    env = {"RELAY_UPSTREAM_RETRIES": "0", "METRICS_TOKEN": "t" * 32, "PROVIDER_KEY": "k" * 20}
    out: dict[str, str] = {}
    site = Keyed(tmp_path, env=env)
    async with ScriptedUpstream() as provider, AsyncExitStack() as running:
        site.provider_url = provider.model_config().base_url
        await running.enter_async_context(site)
        client = await running.enter_async_context(site.client())
        statuses = set()
        for text, steps in talking().items():
            asked = f"{SAID['question']} {text}"
            provider.script(asked, *steps)
            new = {"model": "keyed", "title": SAID["title"], "system_prompt": SAID["system prompt"]}
            chat = (await client.post("/api/chats", json=new)).json()["id"]
            sent = await client.post(f"/api/chats/{chat}/messages", json={"text": asked})
            assert sent.status_code == 202, sent.text
            ends = ("completed", "failed", "incomplete")
            statuses.add((await until_status(client, sent.json()["id"], *ends))["status"])
            await client.get("/api/chats", params={"q": SAID["question"]})
        assert statuses == {"completed", "failed"}
        heads = {"Authorization": f"Bearer {env['METRICS_TOKEN']}"}
        async with httpx.AsyncClient(base_url=site.urls[0]) as operator:
            metrics = await operator.get("/metrics", headers=heads)
            assert metrics.status_code == 200
            out["metrics"] = metrics.text
        out["reprs"] = site.manage("shell", "-c", REPRS % site.key)
        site.valkey.kill()
        reply = await client.post("/api/responses", json={"model": "keyed", "input": SAID["title"]})
        assert reply.status_code == 503
    # Searches are in addresses: servers that are started as shipped keep no list of those.
    listed = re.compile(r'^INFO: +[\d.]+:\d+ - ".*\n', re.MULTILINE)
    out |= {name: listed.sub("", text) for name, text in written(tmp_path, "*.log").items()}
    assert any(name.startswith("web") for name in out)
    assert "keyed" in out["metrics"]
    found = [f"{name} in {where}" for where, text in out.items() for name, said in SAID.items()
             if said in text]  # fmt: skip
    assert found == []


def written(folder: Path, names: str) -> dict[str, str]:
    return {path.name: path.read_text(errors="replace") for path in folder.glob(names)}


def _all(reply: httpx.Response) -> str:
    return f"{reply.headers} {reply.text}"
