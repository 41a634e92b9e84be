"""The prompt, for engines that want one: the engine itself is asked to write it.

An engine knows its model's chat template; asking for it (`/apply-template` of llama.cpp) costs a
round trip and saves every installation a copy of the template that may be another one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from relay.errors import ErrorKind, UpstreamError
from relay.upstream.call import LOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.dialects.dialect import Template

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
