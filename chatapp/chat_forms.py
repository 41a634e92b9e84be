"""How the model of a chat is asked, as forms have it: texts. On the chat's own page of settings,
and beside the box, where it is sent with a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from django.utils.translation import gettext as _

from chatapp import services
from chatapp.models import Chat

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest

    from chatapp.services import Settings

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Form:
    title: str = ""
    model: str = ""
    system_prompt: str = ""
    temperature: str = ""
    max_output_tokens: str = ""
    double_text: str = Chat.DoubleText.QUEUE
    """What a page begins chats with: nobody writes into it to be refused."""

    @classmethod
    def of(cls, chat: Chat) -> Form:
        temperature = "" if chat.temperature is None else f"{chat.temperature:g}"
        tokens = "" if chat.max_output_tokens is None else str(chat.max_output_tokens)
        return cls(
            chat.title, chat.model, chat.system_prompt, temperature, tokens, chat.double_text
        )

    @classmethod
    def sent(cls, request: HttpRequest, before: Form) -> Form:
        """What a form does not have stays as it was."""

        def field(name: str) -> str:
            value = request.POST.get(name)
            kept: str = getattr(before, name)
            return kept if value is None else value.replace("\r\n", "\n").strip()

        rule = field("double_text")
        return cls(
            field("title"),
            field("model"),
            field("system_prompt"),
            field("temperature"),
            field("max_output_tokens"),
            rule if rule in Chat.DoubleText else before.double_text,
        )

    def changed(self, before: Form) -> Settings:
        """What differs. Raises BadInput for what is no number."""
        changed: Settings = {}
        if self.title != before.title:
            changed["title"] = self.title
        if self.model and self.model != before.model:
            changed["model"] = self.model
        if self.system_prompt != before.system_prompt:
            changed["system_prompt"] = self.system_prompt
        if self.temperature != before.temperature:
            trouble = _("The temperature must be a number, or empty.")
            changed["temperature"] = _number(self.temperature, float, trouble)
        if self.max_output_tokens != before.max_output_tokens:
            trouble = _("The limit of an answer must be a whole number, or empty.")
            changed["max_output_tokens"] = _number(self.max_output_tokens, int, trouble)
        if self.double_text != before.double_text:
            changed["double_text"] = self.double_text
        return changed


def _number(text: str, kind: Callable[[str], N], trouble: str) -> N | None:
    if not text:
        return None
    try:
        return kind(text)
    except ValueError as exc:
        raise services.BadInput(trouble) from exc
