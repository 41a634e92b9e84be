"""The page: whole from the server, and usable without scripts (post, redirect, page).

Each view parses, authorises, calls one service and answers. What a page shows of an answer is its
snapshot; a running one carries it, with its cursor, for static/chat/page.js to go on from.
"""

from __future__ import annotations

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
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from chatapp import runtime, services, switches
from chatapp.chat_forms import Form
from chatapp.middleware.admission import TooMany, visit_of
from chatapp.models import Chat, Response, User
from chatapp.offers import offers_of
from chatapp.places import END, Place, will_leave_out
from chatapp.templatetags.words import examples, next_rules, trouble
from chatapp.turns import Answer, elsewhere, turns_of
from relay import Disconnect, RecordUnavailable, Snapshot, StopReason, StoreUnavailable

if TYPE_CHECKING:
    from django.http import HttpRequest

TROUBLES: Final = (services.Refused, StoreUnavailable, RecordUnavailable)
RETRY_AFTER_S: Final = 5
MAX_FILES: Final = 64
"""Of one form that are looked at; a message takes fewer."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person has in the box. A page that tells of trouble gives it back, but for pictures,
    which no page can put into a form."""

    text: str = ""
    model: str | None = None
    key: str = field(default_factory=lambda: uuid4().hex)
    images: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, request: HttpRequest) -> Typed:
        text = request.POST.get("text", "").replace("\r\n", "\n")  # as forms send them
        key = request.POST.get("key", "")
        # The form's key with the text: twice the same is one message, an edited one is another.
        files = request.FILES.getlist("images")[:MAX_FILES]
        most = runtime.config().max_input_bytes or None  # more is refused in any case
        images = tuple(file.read(most and most + 1) for file in files if file.size)
        said = sha256(f"{key}\n{text}".encode("utf-8", "replace"))
        for image in images:
            said.update(image)
        model = request.POST.get("model") or None
        return cls(text, model, said.hexdigest() if key else uuid4().hex, images)

    def key_for(self, verb: str, message_id: int) -> str:
        """Of a form at one message: the page's key is in many of them."""
        return sha256(f"{self.key}\n{verb}\n{message_id}".encode()).hexdigest()


View = Callable[..., Coroutine[Any, Any, HttpResponse]]


def signed_in(view: View) -> View:
    """Decorator: for people who have signed in and do not have too much under way.

    Of whoever has not, a text that came along is given back: to them, and to nobody who signs in.
    """

    @wraps(view)
    async def call(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        written = request.method == "POST" and request.POST.get("text", "").strip()
        if written and not (await request.auser()).is_authenticated:
            return render(request, "account/kept.html", status=403)
        return await inside(request, *args, **kwargs)

    @login_required
    @wraps(view)
    async def inside(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
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
        form = replace(Form.sent(request, Form()), title="", model="")
        settings = form.changed(Form(double_text=""))
        chat = await services.start_chat(user=user, **settings | {"model": typed.model})
        await services.send_message(
            user=user,
            chat=chat,
            text=typed.text,
            images=typed.images,
            on_disconnect=policy_of(user, request),
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
    return await chat_page(request, user, await own_chat(user, chat_id), Typed(), place=place)


@signed_in
async def chat_send(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    if request.method != "POST":
        return redirect("chat", chat_id)  # back from signing in, where the form led
    user, typed = await person(request), Typed.of(request)
    chat = await own_chat(user, chat_id)
    before = Form.of(chat)
    form = replace(Form.sent(request, before), title=before.title, model=before.model)
    try:
        if settings := form.changed(before):
            await services.update_chat(chat=chat, **settings)
        await services.send_message(
            user=user,
            chat=chat,
            text=typed.text,
            images=typed.images,
            model=typed.model,
            on_disconnect=policy_of(user, request),
            idempotency_key=typed.key,
        )
    except TROUBLES as exc:
        return await chat_page(request, user, chat, typed, exc)
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
    return await chat_page(request, user, response.chat, Typed.of(request), exc, verb)


async def _home(
    request: HttpRequest, user: User, typed: Typed, exc: Exception | None = None, verb: str = "send"
) -> HttpResponse:
    page = {
        "chat_url": _pattern("chat", UUID(int=0), "CHAT"),
        "limits": _limits(),
    }
    context = await _shared(user, typed, None, more=Form.sent(request, Form())) | {
        "page": page,
        "examples": examples(),
    }
    return _answer(request, "chat/home.html", context, exc, verb)


async def chat_page(
    request: HttpRequest,
    user: User,
    chat: Chat,
    typed: Typed,
    exc: Exception | None = None,
    verb: str = "send",
    place: Place = END,
    *,
    edited: tuple[int, str] | None = None,
) -> HttpResponse:
    """The page of a chat, and why something did not work. `edited`: a message and its new text."""
    shown = await services.window(chat=chat, before=place.before, at=place.at)
    turns = await turns_of(chat, shown)
    if edited is not None:
        turns = [replace(t, edited=edited[1]) if t.id == edited[0] else t for t in turns]
    answers = [turn.answer for turn in turns if turn.answer]
    running = next((answer for answer in answers if not answer.ended), None)
    page = {
        "chat": str(chat.pk),
        "announces": user.announces,
        "double_text": chat.double_text,
        "limits": _limits(),
        "stop_url": reverse("response-stop", args=["RESPONSE"]),
        "retry_url": reverse("response-retry", args=["RESPONSE"]),
    }
    # What was asked for: after a fallback somebody else's name stands at the answer.
    last_model = next((turn.asked_model for turn in turns[::-1] if turn.answer), chat.model)
    more = Form.sent(request, Form.of(chat))
    context = await _shared(user, typed, last_model, chat, more) | {
        "chat": chat,
        # The log knows of an end before the row does: the list must not contradict the page.
        "running_id": running.snapshot.id if running else "",
        "turns": turns,
        "window": shown,
        "will_leave_out": "" if shown.newer else await will_leave_out(chat, last_model),
        "running": running,
        "elsewhere": await elsewhere(chat) if running is None else None,
        "blank": Answer.of(Snapshot()),
        "next_rules": next_rules(chat.double_text),
        "page": page,
    }
    return _answer(request, "chat/chat.html", context, exc, verb)


async def frame(user: User, chat: Chat | None = None) -> dict[str, Any]:
    """What every page for people who have signed in shows beside its own things."""
    await switches.refresh()
    as_of = services.cursor(runtime.now())  # before the list is read: what changes then is told
    side = await services.list_chats(user=user)
    return {"user": user, "theme": user.theme, "chat": chat, "side": side, "as_of": as_of}


async def _shared(
    user: User,
    typed: Typed,
    model: str | None,
    chat: Chat | None = None,
    more: Form | None = None,
) -> dict[str, Any]:
    models = services.models_of(user)
    chosen = next((name for name in (typed.model, model) if name in models), None)
    return await frame(user, chat) | {
        "models": models,
        "offers": offers_of(user),
        "more": more or Form(),
        "model": chosen or services.default_model(user),
        "text": typed.text,
        "key": uuid4().hex,
    }


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


def policy_of(user: User, request: HttpRequest | None = None) -> Disconnect | None:
    """What a person's absence means to what they ask in the page: nothing, or law 8's default. The
    box says it for each message."""
    keeps = user.keeps_answering
    if request is not None and "leaving" in request.POST:
        keeps = request.POST["leaving"] == "keep"
    return Disconnect() if keeps else None


def _limits() -> dict[str, int]:
    """Of one message, for scripts to say so before it is sent."""
    relay = runtime.config()
    names = ("max_input_bytes", "max_images", "max_image_bytes")
    return {name: getattr(relay, name) for name in names}


def _pattern(name: str, example: UUID, placeholder: str) -> str:
    """An address for scripts to fill in."""
    return reverse(name, args=[example]).replace(str(example), placeholder)
