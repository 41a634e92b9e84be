"""The page: whole from the server, and usable without scripts (post, redirect, page).

Each view parses, authorises, calls one service and answers. What a page shows of an answer is its
snapshot; a running one carries it, with its cursor, for static/chat/page.js to go on from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import aget_object_or_404, redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from chatapp import rendering, services
from chatapp.middleware.admission import TooMany, visit_of
from chatapp.models import Chat, Message, Response, User
from chatapp.places import END, Place, was_left_out, will_leave_out
from chatapp.templatetags.words import End, end_of, examples, state_of, trouble
from relay import TERMINAL, Disconnect, RecordUnavailable, Snapshot, StopReason, StoreUnavailable

if TYPE_CHECKING:
    from django.http import HttpRequest

TROUBLES: Final = (services.Refused, StoreUnavailable, RecordUnavailable)
RETRY_AFTER_S: Final = 5
EMPTY: Final = SafeString()


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person has in the box. A page that tells of trouble gives it back."""

    text: str = ""
    model: str | None = None
    key: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, request: HttpRequest) -> Typed:
        text = request.POST.get("text", "").replace("\r\n", "\n")  # as forms send them
        key = request.POST.get("key", "")
        # The form's key with the text: twice the same is one message, an edited one is another.
        digest = sha256(f"{key}\n{text}".encode("utf-8", "replace")).hexdigest()
        return cls(text, request.POST.get("model") or None, digest if key else uuid4().hex)


@dataclass(frozen=True, slots=True)
class Answer:
    """A snapshot as the template shows it."""

    snapshot: Snapshot
    end: End
    state: str
    waits: bool = False
    """For the end of another answer of its chat: it can be removed."""
    html: SafeString = EMPTY
    """The text of its snapshot."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, last: bool = True, waits: bool = False) -> Answer:
        if snapshot.status not in TERMINAL:
            return cls(snapshot, End(), state_of(snapshot), waits)
        end = end_of(snapshot)
        # The conversation has gone on: only its last answer can be tried again.
        return cls(snapshot, end if last else replace(end, retry=False), "")

    @property
    def ended(self) -> bool:
        return self.snapshot.status in TERMINAL

    @property
    def stop_url(self) -> str:
        return reverse("response-stop", args=[self.snapshot.id or "RESPONSE"])

    @property
    def retry_url(self) -> str:
        return reverse("response-retry", args=[self.snapshot.id or "RESPONSE"])

    @property
    def data(self) -> Any:
        """For page.js: the same object as `GET /api/responses/{id}`."""
        return json.loads(self.snapshot.to_json())

    @property
    def data_id(self) -> str:
        return f"snapshot-{self.snapshot.id}"


@dataclass(frozen=True, slots=True)
class Turn:
    id: int
    text: str
    answer: Answer | None = None
    left_out: str = ""
    """Said before it: what stands above was not told to the model."""
    asked_model: str = ""


View = Callable[..., Coroutine[Any, Any, HttpResponse]]


def signed_in(view: View) -> View:
    """Decorator: for people who have signed in and do not have too much under way."""

    @login_required
    @wraps(view)
    async def call(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = await person(request)
        try:
            visit_of(getattr(request, "scope", {})).known_as(user.pk)
        except TooMany as exc:
            page = render(request, "429.html", {"sentence": str(exc)}, status=429)
            page.headers["Retry-After"] = str(RETRY_AFTER_S)
            return page
        return await view(request, *args, **kwargs)

    return call


@signed_in
@require_safe
@cache_control(private=True, no_cache=True)
async def home(request: HttpRequest) -> HttpResponse:
    return await _home(request, await person(request), Typed(text=request.GET.get("text", "")))


@signed_in
async def chat_start(request: HttpRequest) -> HttpResponse:
    """The first message of a new chat."""
    if request.method != "POST":
        return redirect("home")  # as below
    user, typed = await person(request), Typed.of(request)
    earlier = await Response.objects.keyed(user, typed.key).afirst()
    if earlier is not None and earlier.chat_id:
        return redirect("chat", earlier.chat_id)
    try:
        chat = await services.start_chat(user=user, model=typed.model)
        await services.send_message(
            user=user,
            chat=chat,
            text=typed.text,
            on_disconnect=_policy(user),
            idempotency_key=typed.key,
        )
    except TROUBLES as exc:
        return await _home(request, user, typed, exc)
    return redirect("chat", chat.pk)


@signed_in
@require_safe
@cache_control(private=True, no_cache=True)
async def chat(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """Its end; with `?before=` or `?at=` (positions) a part further up."""
    user = await person(request)
    place = Place.of(request)
    return await _chat(request, user, await own_chat(user, chat_id), Typed(), place=place)


@signed_in
async def chat_send(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    if request.method != "POST":
        return redirect("chat", chat_id)  # back from signing in, where the form led
    user, typed = await person(request), Typed.of(request)
    chat = await own_chat(user, chat_id)
    try:
        await services.send_message(
            user=user,
            chat=chat,
            text=typed.text,
            model=typed.model,
            on_disconnect=_policy(user),
            idempotency_key=typed.key,
        )
    except TROUBLES as exc:
        return await _chat(request, user, chat, typed, exc)
    return redirect("chat", chat.pk)


@signed_in
async def response_stop(request: HttpRequest, response_id: str) -> HttpResponse:
    user = await person(request)
    response = await _own_response(user, response_id)
    if request.method != "POST":
        return _to_chat_of(response)
    try:
        await services.cancel(response=response, by=user, reason=StopReason.USER)
    except TROUBLES as exc:
        return await _back(request, user, response, exc, "stop")
    return _to_chat_of(response)


@signed_in
async def response_retry(request: HttpRequest, response_id: str) -> HttpResponse:
    user = await person(request)
    response = await _own_response(user, response_id)
    if request.method != "POST":
        return _to_chat_of(response)
    try:
        await services.retry(response=response, by=user)
    except TROUBLES as exc:
        return await _back(request, user, response, exc, "retry")
    return _to_chat_of(response)


async def person(request: HttpRequest) -> User:
    """Whoever has signed in, behind `signed_in`."""
    user = await request.auser()
    assert isinstance(user, User)  # noqa: S101 - login_required
    return user


async def own_chat(user: User, chat_id: UUID) -> Chat:
    return await aget_object_or_404(Chat.objects.visible_to(user), pk=chat_id)


async def _own_response(user: User, response_id: str) -> Response:
    responses = Response.objects.visible_to(user).select_related("chat")
    return await aget_object_or_404(responses, pk=response_id)


def _to_chat_of(response: Response) -> HttpResponse:
    return redirect("chat", response.chat_id) if response.chat_id else redirect("home")


async def _back(
    request: HttpRequest, user: User, response: Response, exc: Exception, verb: str
) -> HttpResponse:
    """The page that the person was on, and why it did not work."""
    if response.chat is None:
        return await _home(request, user, Typed(), exc, verb)
    return await _chat(request, user, response.chat, Typed.of(request), exc, verb)


async def _home(
    request: HttpRequest, user: User, typed: Typed, exc: Exception | None = None, verb: str = "send"
) -> HttpResponse:
    page = {
        "on_disconnect": _on_disconnect(user),
        "chat_url": _pattern("chat", UUID(int=0), "CHAT"),
    }
    context = await _shared(user, typed, None) | {"page": page, "examples": examples()}
    return _answer(request, "chat/home.html", context, exc, verb)


async def _chat(
    request: HttpRequest,
    user: User,
    chat: Chat,
    typed: Typed,
    exc: Exception | None = None,
    verb: str = "send",
    place: Place = END,
) -> HttpResponse:
    shown = await services.window(chat=chat, before=place.before, at=place.at)
    turns = await _turns(shown)
    answers = [turn.answer for turn in turns if turn.answer]
    running = next((answer for answer in answers if not answer.ended), None)
    page = {
        "chat": str(chat.pk),
        "on_disconnect": _on_disconnect(user),
        "double_text": chat.double_text,
        "stop_url": reverse("response-stop", args=["RESPONSE"]),
        "retry_url": reverse("response-retry", args=["RESPONSE"]),
    }
    # What was asked for: after a fallback somebody else's name stands at the answer.
    last_model = next((turn.asked_model for turn in turns[::-1] if turn.answer), chat.model)
    context = await _shared(user, typed, last_model) | {
        "chat": chat,
        # The log knows of an end before the row does: the list must not contradict the page.
        "running_id": running.snapshot.id if running else "",
        "turns": turns,
        "window": shown,
        "will_leave_out": "" if shown.newer else await will_leave_out(chat, last_model),
        "running": running,
        "blank": Answer.of(Snapshot()),
        "page": page,
    }
    return _answer(request, "chat/chat.html", context, exc, verb)


async def frame(user: User, chat: Chat | None = None) -> dict[str, Any]:
    """What every page for people who have signed in shows beside its own things."""
    side = await services.list_chats(user=user)
    return {"user": user, "theme": user.theme, "chat": chat, "side": side}


async def _shared(user: User, typed: Typed, model: str | None) -> dict[str, Any]:
    models = services.models_of(user)
    chosen = next((name for name in (typed.model, model) if name in models), None)
    return await frame(user) | {
        "models": models,
        "model": chosen or services.default_model(user),
        "text": typed.text,
        "key": uuid4().hex,
    }


async def _turns(shown: services.Window) -> list[Turn]:
    messages, end = shown.messages, not shown.newer
    turns = [await _turn(message, last=end and message is messages[-1]) for message in messages]
    if (said := was_left_out(shown)) is not None:
        turns[said[0]] = replace(turns[said[0]], left_out=said[1])
    return await _as_html(messages, turns)


async def _as_html(messages: list[Message], turns: list[Turn]) -> list[Turn]:
    """The same turns, their answers with HTML: kept for those whose text will not change."""
    texts, final = {}, set()
    for message, turn in zip(messages, turns, strict=True):
        if turn.answer is not None and message.response is not None:
            texts[message.pk] = turn.answer.snapshot.text
            final |= {message.pk} if message.response.is_final else set()
    html = await rendering.html_of(texts, final)
    return [
        turn
        if turn.answer is None
        else replace(turn, answer=replace(turn.answer, html=html[message.pk]))
        for message, turn in zip(messages, turns, strict=True)
    ]


async def _turn(message: Message, *, last: bool) -> Turn:
    response = message.response
    if response is None:
        return Turn(message.pk, message.text)
    answer = Answer.of(await _snapshot(response), last=last, waits=response.waits)
    return Turn(message.pk, message.text, answer, asked_model=response.model)


async def _snapshot(response: Response) -> Snapshot:
    try:
        return await services.snapshot(response)
    except StoreUnavailable:
        return services.recorded(response)  # less than is known; the page goes on from there


def _answer(
    request: HttpRequest, template: str, context: dict[str, Any], exc: Exception | None, verb: str
) -> HttpResponse:
    if exc is None:
        return render(request, template, context)
    status = exc.status if isinstance(exc, services.Refused) else 503
    context["trouble"] = trouble(verb, status, str(exc))
    response = render(request, template, context, status=status)
    if status in (429, 503):
        wait_s = exc.retry_after_s if isinstance(exc, services.Refused) else None
        response.headers["Retry-After"] = str(wait_s or RETRY_AFTER_S)
    return response


def _on_disconnect(user: User) -> Any:
    """For scripts to send along: somebody watches, with the server's patience (law 8), or no
    matter who does."""
    return "continue" if user.keeps_answering else {}


def _policy(user: User) -> Disconnect | None:
    """The same for forms."""
    return Disconnect() if user.keeps_answering else None


def _pattern(name: str, example: UUID, placeholder: str) -> str:
    """An address for scripts to fill in."""
    return reverse(name, args=[example]).replace(str(example), placeholder)
