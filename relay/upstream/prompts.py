"""The prompt, for engines that want one: as text or as token ids.

An engine that knows its model's chat template is asked to write the text; that (`/apply-template`
of llama.cpp) costs a round trip and saves every installation a copy of the template that may be
another one. Ids are made here, with the template and the tokenizer that the models file names.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from relay.dialects.engine_request import text_messages
from relay.errors import ErrorKind, UpstreamError
from relay.upstream.call import LOST
from relay.upstream.chat_template import ChatTemplateUnusable, rendered
from relay.upstream.tokenizer import TokenizerUnusable
from relay.upstream.vocabulary import tokenizer_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.dialects.dialect import Asked, Template

logger = logging.getLogger(__name__)

MAX_PROMPT_BYTES: Final = 16 * 1024 * 1024
"""Of the engine's answer: `max_input_bytes` is 1 MiB, and JSON may take six bytes a character."""


async def read_prompt(template: Template, chunks: AsyncIterator[bytes]) -> str:
    """The prompt in the engine's answer. Raises UpstreamError connection or protocol."""
    body = bytearray()
    try:
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_PROMPT_BYTES:
                break
    except LOST as error:
        raise UpstreamError(
            ErrorKind.CONNECTION, "The connection to the engine was lost before it had the prompt."
        ) from error
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    return template.prompt_in(value)


async def with_ids(asked: Asked) -> Asked:
    """With the prompt as token ids and the vocabulary to read the answer with.

    Raises UpstreamError invalid_request for a conversation that cannot be said so, and internal if
    the model's files cannot be used.
    """
    messages = text_messages(asked)
    try:
        return await asyncio.to_thread(_encoded, asked, messages)
    except (TokenizerUnusable, ChatTemplateUnusable) as error:
        # The sentence names a file of ours: for the log, not for whoever asked.
        logger.error("model %s cannot be asked: %s", asked.model.name, error)
        raise UpstreamError(
            ErrorKind.INTERNAL, "This model's tokenizer or chat template cannot be used."
        ) from error


def _encoded(asked: Asked, messages: list[dict[str, Any]]) -> Asked:
    model = asked.model
    tokenizer = tokenizer_of(model.tokenizer or "")
    if tokenizer.encode is None:
        raise TokenizerUnusable(
            f"{model.tokenizer} can read ids, not make them: use tokenizer.json"
        )
    options = model.extra_body.get("chat_template_kwargs") or {}
    text = rendered(model.chat_template or "", messages, tokenizer.names, options)
    return replace(asked, prompt=tokenizer.encode(text), vocabulary=tokenizer.vocabulary)
