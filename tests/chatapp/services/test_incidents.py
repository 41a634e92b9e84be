"""A model that is switched is not asked, from the next question and job on; people read why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asgiref.sync import sync_to_async

from chatapp import switches
from chatapp.finalize import Records
from chatapp.models import AuditEvent, ModelSwitch
from chatapp.services import incidents
from chatapp.services.errors import ModelOff
from chatapp.services.limits import usable_model
from tests.chatapp.conftest import is_problem

if TYPE_CHECKING:
    from chatapp.models import User
    from relay import MemoryStore
    from tests.chatapp.conftest import Api
    from tests.chatapp.pages import Browser

switch = sync_to_async(incidents.switch)


@pytest.mark.usefixtures("with_fallback")
async def test_a_model_that_is_off_is_refused_with_a_sentence(user: User, api: Api) -> None:
    await switch("fast", state="off", text="Back at noon.", by="root")
    problem = is_problem(await api.post("/api/responses", {"model": "fast", "input": "x"}), 503)
    assert problem["detail"] == (
        "The model 'fast' is switched off for now. Nothing was sent. Back at noon."
    )
    assert (await api.post("/api/responses", {"model": "other", "input": "x"})).status_code == 202
    await switch("fast", state="on", text="", by="root")
    await api.ask()


@pytest.mark.usefixtures("with_fallback")
async def test_a_job_that_waited_meets_the_switch(user: User, api: Api, store: MemoryStore) -> None:
    rid = await api.ask()
    for state, fallback in (("fallback", ("other",)), ("off", ())):
        await switch("fast", state=state, text="", by="root")
        await Records().load(rid)  # what a worker does before it asks for the models
        model = switches.models()["fast"]
        assert (model.resting, model.fallback) == (True, fallback)
        assert not switches.models()["other"].resting


async def test_what_another_process_switched_is_known_within_a_second(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("chatapp.switches.time.monotonic", lambda: now_s[0])
    await usable_model("fast", user)
    await sync_to_async(switch_elsewhere)()
    await usable_model("fast", user)  # not asked again at once
    now_s[0] += switches.FRESH_S
    with pytest.raises(ModelOff):
        await usable_model("fast", user)


def switch_elsewhere() -> None:
    from django.utils import timezone

    ModelSwitch.objects.create(name="fast", state="off", by="root", at=timezone.now())


@pytest.mark.usefixtures("with_fallback")
async def test_nonsense_is_not_switched(user: User) -> None:
    with pytest.raises(KeyError):
        await switch("nope", state="off", text="", by="root")
    with pytest.raises(ValueError, match="odd"):
        await switch("fast", state="odd", text="", by="root")
    with pytest.raises(incidents.NoFallback):
        await switch("other", state="fallback", text="", by="root")
    assert not await AuditEvent.objects.filter(action="model switched").aexists()


async def test_people_read_the_status_and_banners_and_dismiss_them(ann: Browser) -> None:
    await switch("fast", state="off", text="Back <b>soon</b>.", by="root")
    put_up = sync_to_async(incidents.put_up)
    banner = await put_up(text="We are <i>slow</i> today.", language="", by="root")
    await put_up(text="Heute langsam.", language="de", by="root")
    page = (await ann.get("/status/")).html
    assert "Switched off for now." in page
    assert "Back &lt;b&gt;soon&lt;/b&gt;." in page
    home = (await ann.get("/")).html
    assert "We are &lt;i&gt;slow&lt;/i&gt; today." in home
    assert "Heute langsam." not in home
    url = f"/banners/{banner.pk}/dismiss"
    reply = await ann.client.post(url, {"next": "/status/"})
    assert (reply.status_code, reply["Location"]) == (302, "/status/")
    assert "We are" not in (await ann.get("/")).html
    away = await ann.client.post(url, {"next": "https://elsewhere.example/"})
    assert away["Location"] == "/"
    await sync_to_async(incidents.take_down)(banner.pk, by="root")
    actions = [entry.action async for entry in AuditEvent.objects.order_by("id")]
    assert actions == ["model switched", *["banner changed"] * 3]
