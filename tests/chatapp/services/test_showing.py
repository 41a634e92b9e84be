"""Pictures from a message to the provider: kept once, told with the conversation, gone with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chatapp import services
from chatapp.finalize import Records, just_asked
from chatapp.models import Chat, Message, Picture, Response, User
from chatapp.pictures import data_url, read_picture
from chatapp.services import BadInput, TooLarge
from chatapp.shown import GONE, UNSEEN
from relay import GenerationRequest
from tests.chatapp.conftest import MODELS, is_problem
from tests.chatapp.drawings import gif, jpeg, png
from tests.chatapp.services.test_double_text import answer

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.conftest import Api
    from tests.chatapp.pages import Browser

pytestmark = pytest.mark.usefixtures("store")
SEEING = '\n[models.eyes]\ndialect = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
SEEING += 'upstream_model = "eyes-1"\nsupports = ["images"]\ncontext_tokens = 8000\n'
URL = data_url("image/png", read_picture(png()).data)


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, settings: Any, _site_settings: None) -> None:
    path = tmp_path / "seeing.toml"
    path.write_text(MODELS + SEEING)
    settings.RELAY_MODELS = str(path)


async def say(chat: Chat, text: str, *images: bytes, model: str = "eyes", **more: Any) -> Response:
    user = await User.objects.aget(pk=chat.user_id)
    sent = await services.send_message(
        user=user, chat=chat, text=text, images=images, model=model, **more
    )
    return sent.response


async def told(response: Response) -> list[Any]:
    """What a worker hands to the provider."""
    just_asked.take(response.pk)
    record = await Records().load(response.pk)
    assert record.request is not None
    return [message["content"] for message in record.request.messages]


async def test_a_provider_is_shown_the_picture_and_the_row_only_names_it(
    chat: Chat, store: MemoryStore
) -> None:
    first = await say(chat, "What is this?", png())
    shown = {"type": "image_url", "image_url": {"url": URL}}
    words = {"type": "text", "text": "What is this?"}
    assert await told(first) == [[shown, words]]
    await first.arefresh_from_db()
    assert "base64" not in first.request
    await answer(store, first, "red")
    second = await say(chat, "Sure?")
    assert await told(second) == [[shown, words], "red", "Sure?"]
    assert await Picture.objects.acount() == 1


async def test_who_has_just_asked_is_shown_it_too(chat: Chat) -> None:
    response = await say(chat, "", png(), gif())
    just_asked.put(GenerationRequest.from_json(response.request))
    record = await Records().load(response.pk)
    assert record.request is not None
    kinds = [part["type"] for part in record.request.messages[0]["content"]]
    assert kinds == ["image_url", "image_url"], "and a text that is empty is left out"


async def test_the_same_message_twice_is_one_and_another_picture_is_another(chat: Chat) -> None:
    first = await say(chat, "hi", png(), idempotency_key="k")
    again = await say(chat, "hi", png(), idempotency_key="k")
    assert first.pk == again.pk
    assert await Picture.objects.acount() == 1
    with pytest.raises(services.KeyReused):
        await say(chat, "hi", gif(), idempotency_key="k")


async def test_a_model_that_sees_nothing_is_told_that_there_was_something(
    chat: Chat, store: MemoryStore
) -> None:
    await answer(store, await say(chat, "What is this?", png()), "red")
    blind = await say(chat, "And now?", model="fast")
    assert await told(blind) == [f"{UNSEEN}\n\nWhat is this?", "red", "And now?"]


async def test_what_cannot_be_shown_is_refused_with_a_sentence(chat: Chat, settings: Any) -> None:
    with pytest.raises(BadInput, match="'fast' does not see pictures"):
        await say(chat, "hi", png(), model="fast")
    with pytest.raises(BadInput, match="Picture 2 cannot be read"):
        await say(chat, "hi", png(), b"<svg/>")
    with pytest.raises(BadInput, match="4 pictures at most"):
        await say(chat, "hi", *[png()] * 5)
    with pytest.raises(BadInput, match="the text is empty"):
        await say(chat, " ")
    settings.RELAY = dataclasses.replace(settings.RELAY, max_image_bytes=50)
    with pytest.raises(BadInput, match="at most 50 are taken"):
        await say(chat, "hi", jpeg())
    settings.RELAY = dataclasses.replace(settings.RELAY, max_image_bytes=0, max_input_bytes=300)
    with pytest.raises(TooLarge):
        await say(chat, "x" * 250, png(20, 20))
    assert not await Message.objects.aexists()
    assert not await Picture.objects.aexists()


async def test_what_is_said_otherwise_still_shows_them(chat: Chat, store: MemoryStore) -> None:
    await answer(store, await say(chat, "What is this?", png()), "red")
    question = await Message.objects.select_related("chat", "response").aget(role="user")
    user = await User.objects.aget(pk=chat.user_id)
    sent = await services.edit_message(message=question, by=user, text="Which?", model="eyes")
    assert [len(content) for content in await told(sent.response)] == [2]
    assert await Picture.objects.acount() == 1


async def test_pictures_take_room_of_a_long_conversation(chat: Chat, store: MemoryStore) -> None:
    for n in range(4):
        await answer(store, await say(chat, f"{n}", png(1600, 1600)), "seen")
    last = await say(chat, "and?", png(1600, 1600))
    await last.arefresh_from_db()
    assert last.left_out == 4, "6,000 tokens are three such pictures and their words"


async def test_they_go_with_their_chat_and_to_nobody_else(
    chat: Chat, user: User, stranger: User, ann: Browser
) -> None:
    response = await say(chat, "hi", png())
    picture = await Picture.objects.aget()
    other = await Chat.objects.acreate(user=stranger, model="eyes", updated_at=chat.updated_at)
    await Response.objects.filter(pk=response.pk).aupdate(chat=other)
    assert await told(response) == [
        [{"type": "text", "text": GONE}, {"type": "text", "text": "hi"}]
    ]
    await Response.objects.filter(pk=response.pk).aupdate(chat=chat)
    await services.delete_chat(chat=chat, by=user)
    assert not await Picture.objects.aexists()
    assert (await ann.get(f"/pictures/{picture.pk}")).status == 404


async def test_its_address_answers_with_nothing_but_a_picture(ann: Browser, chat: Chat) -> None:
    await say(chat, "hi", png())
    picture = await Picture.objects.aget()
    page = await ann.get(f"/chats/{chat.pk}/")
    assert f'<img src="/pictures/{picture.pk}" width="3" height="2"' in page.html
    reply: Any = await ann.client.get(f"/pictures/{picture.pk}")
    assert reply.content == read_picture(png()).data
    assert reply.headers["Content-Type"] == "image/png"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    name = f'inline; filename="picture-{picture.pk}.png"'
    assert reply.headers["Content-Disposition"] == name
    assert reply.headers["Cache-Control"] == "private, no-cache"
    etag = reply.headers["ETag"]
    again: Any = await ann.client.get(f"/pictures/{picture.pk}", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_form_without_scripts_carries_them(ann: Browser, chat: Chat) -> None:
    from django.core.files.uploadedfile import SimpleUploadedFile

    await ann.get("/")
    file = SimpleUploadedFile("holiday.exe", png(), content_type="application/x-msdownload")
    fields = {"text": "", "model": "eyes", "key": "k", "images": file}
    reply: Any = await ann.client.post(f"/chats/{chat.pk}/send", fields)
    assert reply.status_code == 302
    assert (await Picture.objects.aget()).media_type == "image/png"
    await chat.arefresh_from_db()
    assert chat.title == "Picture"


async def test_the_api_takes_data_urls_in_chats_and_outside(api: Api, chat: Chat) -> None:
    path = f"/api/chats/{chat.pk}/messages"
    body = {"text": "What is this?", "images": [URL], "model": "eyes"}
    assert (await api.post(path, body)).status_code == 202
    listed = (await api.get(path)).json()["data"]
    picture = await Picture.objects.aget()
    assert listed[0]["images"] == [f"/pictures/{picture.pk}"]
    wrong = await api.post(path, body | {"images": ["https://example.org/a.png"]})
    assert "data URLs" in is_problem(wrong, 422)["detail"]
    part = {"type": "image_url", "image_url": {"url": URL}}
    asked = {"model": "eyes", "input": [{"role": "user", "content": [part]}]}
    assert (await api.post("/api/responses", asked)).status_code == 202
    blind = is_problem(await api.post("/api/responses", asked | {"model": "fast"}), 422)
    assert "does not see pictures" in blind["detail"]
    forged = [{"role": "user", "content": [{"type": "picture", "id": picture.pk}]}]
    is_problem(await api.post("/api/responses", {"model": "eyes", "input": forged}), 422)


async def test_exports_have_them(chat: Chat) -> None:
    await say(chat, "hi", png())
    assert "*A picture, 3 by 2 pixels.*" in await services.as_markdown(chat=chat)
    assert URL in await services.as_json(chat=chat)
