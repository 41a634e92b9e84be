"""What may be asked at all: checks that need no database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatapp import catalog, pictures, quotas, runtime, switches
from chatapp.numerals import grouped_later
from chatapp.services import showing
from chatapp.services.errors import BadInput, ModelOff, NotInPlan, TooLarge, UnknownModel
from chatapp.shown import KIND
from relay import COUNTERS, IMAGE_PARTS, Disconnect, ModelConfig, estimated_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_stubs_ext import StrPromise

    from chatapp.models import User
    from chatapp.pictures import Drawing

MAX_TEMPERATURE: Final = 2
"""OpenAI's bound; Anthropic's is 1, and it says so by itself."""
CONTINUE: Final = Disconnect()
CANCEL: Final = Disconnect(cancel_after_s=0, leave_after_s=0)


def patience() -> Disconnect:
    """Law 8's default for somebody who watches: the page, and a POST that streams."""
    relay = runtime.config()
    return Disconnect(cancel_after_s=relay.cancel_after_s, leave_after_s=relay.leave_after_s)


def policy(wanted: Disconnect | None, *, watching: bool) -> Disconnect:
    """What the absence of viewers means, with law 8's default."""
    if wanted is not None:
        return wanted
    return patience() if watching else CONTINUE


def models_of(user: User) -> list[str]:
    """What this person may ask, in the order of the models file."""
    terms = quotas.terms_of(user)
    return [name for name in catalog.models() if terms.allows(name)]


def default_model(user: User) -> str | None:
    """Where a plan does not include the site's default: the first that it includes."""
    wanted, mine = catalog.default_model(), models_of(user)
    return wanted if wanted in mine else next(iter(mine), wanted)


def require_model(name: str | None, user: User) -> ModelConfig:
    """Raises UnknownModel, which names the models there are, or NotInPlan."""
    known = catalog.models()
    wanted = name or default_model(user)
    if wanted is None or wanted not in known:
        raise UnknownModel(wanted, known)
    if not quotas.terms_of(user).allows(wanted):
        COUNTERS.refusals.add(NotInPlan.kind)
        raise NotInPlan(wanted, models_of(user))
    return known[wanted]


async def usable_model(name: str | None, user: User) -> ModelConfig:
    """As `require_model`, for a question that is asked now. Raises ModelOff, too."""
    await switches.refresh()
    model = require_model(name, user)
    if switches.is_off(model.name):
        switch = switches.of(model.name)
        raise ModelOff(model.name, switch.text if switch else "")
    return model


def check_settings(
    model: ModelConfig | None,
    *,
    system_prompt: str = "",
    temperature: float | None = None,
    max_output_tokens: int | None = None,
) -> None:
    """What a chat asks of its model. Raises BadInput for what the model cannot do."""
    if temperature is not None and not 0 <= temperature <= MAX_TEMPERATURE:
        raise BadInput(
            format_lazy(_("The temperature must be between 0 and {most}."), most=MAX_TEMPERATURE)
        )
    if max_output_tokens is not None:
        most = model.max_output_tokens if model else None
        if max_output_tokens < 1 or (most is not None and max_output_tokens > most):
            raise BadInput(_token_limit(model.name if model else "", most))
    if system_prompt:
        _check_size(_bytes(system_prompt))
        context = model.context_tokens if model else None
        if context is not None and estimated_tokens(system_prompt) > context // 2:
            too_long = _(
                "The system prompt takes more than half of the {limit} tokens that '{model}' can "
                "read. Shorten it, or choose another model."
            )
            name = model.name if model else ""
            raise BadInput(format_lazy(too_long, limit=grouped_later(context), model=name))


def _token_limit(model: str, most: int | None) -> StrPromise:
    if most is None:
        return _("The limit of an answer must be at least 1 token.")
    upto = _("The limit of an answer of '{model}' must be between 1 and {most} tokens.")
    return format_lazy(upto, model=model, most=grouped_later(most))


def check_text(text: str) -> None:
    """Raises BadInput for nothing to answer, TooLarge beyond max_input_bytes of UTF-8."""
    if not text.strip():
        raise BadInput(_("There is nothing to answer: the text is empty."))
    _check_size(_bytes(text))


def read_pictures(model: ModelConfig, images: Sequence[bytes], text: str) -> tuple[Drawing, ...]:
    """What was attached to a message with this text. Raises BadInput, TooLarge."""
    if not images:
        return ()
    relay = runtime.config()
    if not showing.sees(model):
        raise _unseen(model)
    if len(images) > relay.max_images:
        detail = _("A message takes {count} pictures at most.")
        raise BadInput(format_lazy(detail, count=relay.max_images))
    drawings = tuple(_read_picture(n, data) for n, data in enumerate(images, start=1))
    _check_size(_bytes(text) + sum(len(drawing.data) for drawing in drawings))
    return drawings


def _read_picture(number: int, data: bytes) -> Drawing:
    limit = runtime.config().max_image_bytes
    try:
        drawing = pictures.read_picture(data)
    except pictures.NotAPicture as exc:
        detail = _("Picture {number} cannot be read: PNG, JPEG, WebP and GIF are taken.")
        raise BadInput(format_lazy(detail, number=number)) from exc
    if limit and len(drawing.data) > limit:
        detail = _("Picture {number} has {size} bytes; at most {limit} are taken.")
        size, most = grouped_later(len(drawing.data)), grouped_later(limit)
        raise BadInput(format_lazy(detail, number=number, size=size, limit=most))
    return drawing


def decoded(images: Sequence[str]) -> list[bytes]:
    """Of data URLs. Raises BadInput."""
    try:
        return [pictures.from_data_url(url) for url in images]
    except pictures.NotAPicture as exc:
        raise BadInput(_("`images` must be data URLs in base64.")) from exc


def _unseen(model: ModelConfig) -> BadInput:
    detail = _("The model '{name}' does not see pictures. Choose one that does, or take them out.")
    return BadInput(format_lazy(detail, name=model.name))


def check_parts(model: ModelConfig, messages: Sequence[dict[str, Any]]) -> None:
    """Of what a client sent itself. Raises BadInput for pictures that nobody would see."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type")
            if kind == KIND:  # a reference is ours to write
                raise BadInput(_("A part of the type `picture` is not known; send `image_url`."))
            if kind in IMAGE_PARTS and not showing.sees(model):
                raise _unseen(model)


def check_messages(messages: Sequence[dict[str, Any]], instructions: str | None) -> None:
    if not any(_says_something(message) for message in messages):
        raise BadInput(_("There is nothing to answer: `input` is empty."))
    texts = (value for message in messages for key, value in message.items() if key != "role")
    size = sum(map(_bytes, texts))
    _check_size(size + _bytes(instructions or ""))


def check_encodable(*values: Any) -> None:
    """Raises BadInput for a text that is not one: half of a surrogate pair, anywhere inside."""
    for value in values:
        _bytes(value)


def _says_something(message: dict[str, Any]) -> bool:
    content = message.get("content") or message.get("output")
    return bool(content.strip() if isinstance(content, str) else content)


def _check_size(size_bytes: int) -> None:
    limit_bytes = runtime.config().max_input_bytes
    if limit_bytes and size_bytes > limit_bytes:
        raise TooLarge(size_bytes, limit_bytes)


def _bytes(value: Any) -> int:
    try:
        return len(value.encode() if isinstance(value, str) else msgspec.json.encode(value))
    except UnicodeEncodeError as exc:
        raise BadInput(
            _("The text contains half of a surrogate pair, which is no character.")
        ) from exc
