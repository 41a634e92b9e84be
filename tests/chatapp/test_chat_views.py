"""The list of chats, looking for words, settings, deleting and files, all without scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp import services
from chatapp.models import Chat, Message, Response, User
from chatapp.services.finding import AROUND_CHARS, excerpt
from chatapp.templatetags.words import table
from relay import Snapshot, Status
from relay.generate import End
from relay.states import StopReason
from tests.chatapp.conftest import MODELS
from tests.chatapp.pages import Browser, asked, finished

if TYPE_CHECKING:
    from relay import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = MODELS.replace("[models.other]", "context_tokens = 400\n\n[models.other]")


@pytest.fixture
def ann(user: User, store: MemoryStore) -> Browser:
    return Browser(user)


def converse(chat: Chat, texts: list[str]) -> list[Message]:
    """Questions and answers in turn, as one path."""
    said: list[Message] = []
    for n, text in enumerate(texts):
        response = None
        if n % 2:
            response = Response.objects.create(
                id=f"{chat.pk.hex[:20]}{n:08}",
                user=chat.user,
                chat=chat,
                model="fast",
                status="completed",
                created_at=timezone.now(),
                ended_at=timezone.now(),
                fold=Snapshot(status=Status.COMPLETED, text=text).to_json().decode(),
            )
        said.append(
            Message.objects.create(
                chat=chat,
                role=("user", "assistant")[n % 2],
                text=text,
                position=n + 1,
                parent=said[-1] if said else None,
                response=response,
            )
        )
    chat.current, chat.title = said[-1], chat.title or texts[0][:60]
    chat.save()
    return said


def make(user: User, *texts: str, title: str = "") -> Chat:
    chat = Chat.objects.create(user=user, model="fast", title=title, updated_at=timezone.now())
    converse(chat, list(texts))
    return chat


def titles(html: str) -> list[str]:
    """Of the list in the page's own part."""
    main = html[html.index("<main") :]
    return re.findall(r'data-part="title">(.*?)<', main)


async def test_the_list_comes_in_pages_with_pinned_chats_first(ann: Browser, user: User) -> None:
    for n in range(53):
        await Chat.objects.acreate(user=user, model="fast", title=str(n), updated_at=timezone.now())
    oldest = await Chat.objects.aget(title="0")
    await ann.post(f"/chats/{oldest.pk}/pin", next="/chats/")
    page = await ann.get("/chats/")
    assert titles(page.html) == ["0", *(str(n) for n in range(52, 2, -1))]
    more = re.findall(r'data-part="more" href="([^"]+)"', page.html)
    rest = await ann.get(more[0])
    assert titles(rest.html) == ["2", "1"]
    assert 'data-part="more"' not in rest.html[rest.html.index("<main") :]
    await ann.post(f"/chats/{oldest.pk}/pin")
    assert titles((await ann.get("/chats/")).html)[0] == "52"


@pytest.mark.parametrize("after", ["nonsense", "6f0c3a52-0a34-4c5e-9d0f-0f3a3a3a3a3a"])
async def test_a_list_after_nothing_is_not_there(ann: Browser, after: str) -> None:
    assert (await ann.get(f"/chats/?after={after}")).status == 404


async def test_words_are_found_in_titles_and_texts_and_marked_at_their_place(
    ann: Browser, user: User, stranger: User
) -> None:
    tides = await sync_to_async(make)(user, "How do tides work?", "The moon pulls the SEA.", "ok")
    await sync_to_async(make)(user, "Soup", "Boil it. <b>moon</b>", title="Moon recipes")
    await sync_to_async(make)(stranger, "The moon and the sea are mine")
    page = await ann.get("/chats/?q=moon+sea")
    main = page.html[page.html.index("<main") :]
    assert main.count('class="chat-title"') == 1
    said = await Message.objects.aget(chat=tides, position=2)
    assert f'href="/chats/{tides.pk}/?at=2#message-{said.pk}"' in main
    assert "The <mark>moon</mark> pulls the <mark>SEA</mark>." in main
    page = await ann.get("/chats/?q=MOON")
    main = page.html[page.html.index("<main") :]
    assert "<mark>Moon</mark> recipes" in main
    assert "&lt;b&gt;<mark>moon</mark>&lt;/b&gt;" in main
    assert "mine" not in main
    page = await ann.get("/chats/?q=.*")
    assert table()["chats"]["nothing_found"] in page.text
    at = await ann.get(f"/chats/{tides.pk}/?at=2")
    assert f'id="message-{said.pk}"' in at.html


def test_a_search_costs_three_queries(user: User) -> None:
    make(user, "one two", "three", "four")
    with CaptureQueriesContext(connection) as queries:
        (found,) = async_to_sync(services.search)(user=user, query="three")
    assert found.position == 2
    assert len([query for query in queries if "chatapp" in query["sql"]]) == 3


async def test_a_search_knows_letters_beyond_english(user: User) -> None:
    await sync_to_async(make)(user, "Wie heißt der ÄLTESTE Baum?")
    words = ["älteste"] if connection.vendor == "sqlite" else ["ÄLTESTE"]  # "C" knows no case
    (found,) = await services.search(user=user, query=words[0])
    assert [piece.text for piece in found.place if piece.marked] == ["ÄLTESTE"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a moon", "a moon"),
        ("moon " * 60, "moon " * 23 + "moon …"),
        ("word " * 30 + "moon", "… " + "word " * 12 + "moon"),
        ("語" * 300, None),
    ],
)
def test_the_place_is_a_line_or_two_around_the_word(text: str, place: str | None) -> None:
    said = "".join(piece.text for piece in excerpt(text, ["moon"]))
    assert said == place if place else len(said) == 2 * AROUND_CHARS + 2


async def test_settings_are_saved_by_a_form_and_refused_with_a_sentence(
    ann: Browser, user: User
) -> None:
    chat = await sync_to_async(make)(user, "hello", "hi")
    url = f"/chats/{chat.pk}/settings"
    fields = {"title": "Mine", "model": "other", "system_prompt": "Be\r\nbrief."}
    page = await ann.post(url, **fields, temperature="0.5", max_output_tokens="64")
    assert page.status == 200
    assert table()["chats"]["changed"] in page.text
    await chat.arefresh_from_db()
    assert (chat.title, chat.titled_by, chat.model) == ("Mine", "person", "other")
    assert (chat.system_prompt, chat.temperature, chat.max_output_tokens) == ("Be\nbrief.", 0.5, 64)
    page = await ann.post(url, **fields, temperature="hot", max_output_tokens="")
    assert page.status == 422
    assert "The temperature must be a number" in page.text
    assert 'value="hot"' in page.html
    await ann.post(url, **fields, temperature="", max_output_tokens="")
    await chat.arefresh_from_db()
    assert (chat.temperature, chat.max_output_tokens) == (None, None)


async def test_a_deleted_chat_can_be_brought_back_from_any_page(ann: Browser, user: User) -> None:
    chat = await sync_to_async(make)(user, "hello", "hi")
    page = await ann.post(f"/chats/{chat.pk}/delete", next=f"/chats/{chat.pk}/")
    assert "“hello” was deleted." in page.text
    assert f'href="/chats/{chat.pk}/"' not in page.html
    assert (await ann.get(f"/chats/{chat.pk}/")).status == 404
    assert "“hello” was deleted." in (await ann.get("/chats/")).text, "also after a reload"
    page = await ann.post(f"/chats/{chat.pk}/restore")
    assert page.status == 200
    assert f'href="/chats/{chat.pk}/" aria-current="page"' in page.html
    await ann.post(f"/chats/{chat.pk}/delete")
    await Chat.objects.aupdate(deleted_at=timezone.now() - services.GRACE)
    page = await ann.post(f"/chats/{chat.pk}/restore")
    assert table()["chats"]["gone"] in page.text
    assert "was deleted" not in page.text


async def test_a_form_leads_nowhere_else(ann: Browser, user: User) -> None:
    chat = await sync_to_async(make)(user, "hello")
    await ann.get("/")
    for bad in ("https://evil.example/", "//evil.example", "javascript:alert(1)"):
        reply: Any = await ann.client.post(f"/chats/{chat.pk}/pin", {"next": bad})
        assert reply.headers["Location"] == f"/chats/{chat.pk}/"


async def test_a_long_chat_is_shown_from_its_end_and_in_pages(ann: Browser, user: User) -> None:
    texts = [f"said-{n:03}" for n in range(1, 102)]
    chat = await sync_to_async(make)(user, *texts)
    url = f"/chats/{chat.pk}/"
    seen: list[str] = []
    page = await ann.get(url)
    assert 'id="composer"' in page.html
    while True:
        seen = re.findall(r"<p>(said-\d{3})", page.html[page.html.index("<ol id=") :]) + seen
        older = re.search(r'data-part="older" href="(\?before=\d+)"', page.html)
        if older is None:
            break
        page = await ann.get(url + older[1])
        assert 'id="composer"' not in page.html, "a part further up is for reading"
        assert table()["chats"]["part"] in page.text
    assert seen == texts
    around = await ann.get(f"{url}?at=50")
    assert "said-050" in around.html
    assert "said-101" not in around.html[around.html.index("<ol id=") :]
    assert (await ann.get(f"{url}?before=zwölf&at=99999999999999999999")).status == 200


ONCE_A_SECOND = ("chatapp_modelswitch", "chatapp_banner", "chatapp_workerdrain")
"""Tables of what operators have switched: read by the process, not by the page."""


def test_a_page_costs_the_same_queries_however_long_its_chat_and_list_are(user: User) -> None:
    client = Client()
    client.force_login(user)
    counts = []
    for size in (3, 101):
        chat = make(user, *["word"] * size)
        for _ in range(size):
            Chat.objects.create(user=user, model="fast", title="x", updated_at=timezone.now())
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/chats/{chat.pk}/").status_code == 200
        selects = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
        counts.append([sql for sql in selects if not any(table in sql for table in ONCE_A_SECOND)])
    assert len(counts[0]) == len(counts[1]) <= 12, counts[1]


async def test_the_page_says_what_was_and_what_will_be_left_out(
    ann: Browser, user: User, store: MemoryStore, tmp_path: Path, settings: Any
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    settings.RELAY_MODELS = str(path)
    chat = await sync_to_async(make)(user, *["x" * 350] * 6)
    will = table()["context"]["will"]["many"].format(count=4, model="fast")
    assert will in (await ann.get(f"/chats/{chat.pk}/")).text
    page = await ann.post(f"/chats/{chat.pk}/send", text="and now?")
    was = table()["context"]["was"]["many"].format(count=4, model="fast")
    html = page.html
    fifth = await Message.objects.aget(chat=chat, position=5)
    fourth = await Message.objects.aget(chat=chat, position=4)
    place = html.index(was)
    assert html.index(f'id="message-{fourth.pk}"') < place < html.index(f'id="message-{fifth.pk}"')


async def test_a_chat_is_exported_for_readers_and_for_programs(
    ann: Browser, user: User, store: MemoryStore
) -> None:
    chat = await Chat.objects.acreate(user=user, model="fast", updated_at=timezone.now())
    response = await asked(ann, chat, "How do “tides” work? / *why*")
    await finished(store, response, End.cancelled(StopReason.USER), "The ", "moon.")
    chat.system_prompt = "Be brief."
    await chat.asave(update_fields=["system_prompt"])
    page = await ann.get(f"/chats/{chat.pk}/export.md")
    assert page.headers["Content-Type"] == "text/markdown; charset=utf-8"
    name = page.headers["Content-Disposition"]
    assert name == 'attachment; filename="How-do-tides-work-why.md"'
    parts = ["# How do", "Be brief.", "## You", "## fast", "The moon.", "cancelled (user)"]
    places = [page.html.index(part) for part in parts]
    assert places == sorted(places)
    page = await ann.get(f"/chats/{chat.pk}/export.json")
    said = json.loads(page.html)["messages"]
    assert [message["text"] for message in said] == ["How do “tides” work? / *why*", "The moon."]
    assert said[1]["parent"] == said[0]["id"]
    assert (said[1]["status"], said[1]["reason"], said[1]["model"]) == ("cancelled", "user", "fast")
    assert (await ann.get(f"/chats/{chat.pk}/export.exe")).status == 404


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("../../etc/passwd", "etc-passwd.md"),
        ('a"\r\nX: y', "a-X-y.md"),
        ("…", "chat.md"),
        ("Gezeiten für Ämter", "Gezeiten-für-Ämter.md"),
        ("x" * 200, "x" * 60 + ".md"),
    ],
)
async def test_a_files_name_is_safe(ann: Browser, user: User, title: str, name: str) -> None:
    chat = await sync_to_async(make)(user, "hello", title=title)
    page = await ann.get(f"/chats/{chat.pk}/export.md")
    found = re.search(r"filename(?:\*=utf-8''|=\")([^\"]+)", page.headers["Content-Disposition"])
    assert found
    assert unquote(found[1]) == name
