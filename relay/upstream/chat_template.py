"""A conversation as its model's chat template writes it.

Templates are programs that come with a model, from somebody else: they run in a sandbox that lets
them look and not touch. What they may call besides Jinja is what model makers came to rely on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from relay.errors import ErrorKind, UpstreamError

MAX_MESSAGE_CHARS: Final = 300
"""Of what a template says when it refuses; most say one sentence."""


class ChatTemplateUnusable(Exception):
    """A template's file that cannot be read, or is no template."""


def rendered(
    path: str,
    messages: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    options: Mapping[str, Any],
) -> str:
    """The prompt, up to where the model's answer begins. Blocks; for threads.

    `names` are the tokenizer's special tokens, `options` whatever else the template understands.
    Raises ChatTemplateUnusable, and UpstreamError invalid_request if the template refuses the
    conversation, as many do when roles do not alternate.
    """
    template = _compiled(path)
    values = {**names, **options, "messages": messages, "add_generation_prompt": True}
    try:
        return template.render(values)
    except (
        TemplateError,
        TypeError,
        ValueError,
        LookupError,
        ArithmeticError,
        RecursionError,
    ) as e:
        said = " ".join(str(e).split())[:MAX_MESSAGE_CHARS]
        raise UpstreamError(
            ErrorKind.INVALID_REQUEST,
            f"The model's chat template cannot write this conversation: {said}",
        ) from e


@lru_cache(maxsize=16)  # as many as tokenizers
def _compiled(path: str) -> Template:
    try:
        source = Path(path).read_text(encoding="utf-8")
        if path.endswith(".json"):  # tokenizer_config.json, where older models keep it
            source = json.loads(source)["chat_template"]
        return _environment().from_string(source)
    except (OSError, ValueError, LookupError, TypeError, TemplateError) as error:
        raise ChatTemplateUnusable(f"{path} cannot be read as a chat template: {error}") from error


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    return environment


def _json(value: object, indent: int | None = None) -> str:
    # Jinja's own escapes <, > and & for HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)
