"""Nothing that a person or a provider says makes this server ask somebody else (SSRF)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay import now_rfc3339
from relay.config import ModelConfig
from relay.dialects import DIALECTS
from relay.errors import ErrorKind
from relay.request import GenerationRequest
from tests.relay.upstream.hearing import hear
from tests.scripted import Done, Say, ScriptedUpstream, Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.upstream import Upstream


@pytest.fixture
async def trap() -> AsyncIterator[ScriptedUpstream]:
    """A server that nobody has configured; whoever asks it was led there."""
    async with ScriptedUpstream() as server:
        server.script("hi", Say("secret"), Done())
        yield server


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
async def test_redirects_are_not_followed(
    provider: ScriptedUpstream, upstream: Upstream, trap: ScriptedUpstream, status: int
) -> None:
    """They would take the key along, to an address that no operator chose."""
    url = trap.model_config().base_url
    provider.script("hi", Status(status, b"", {"Location": f"{url}/chat/completions"}))
    heard = await hear(upstream, "hi", provider.model_config())
    assert heard.kind is ErrorKind.PROTOCOL
    assert heard.text == ""
    assert trap.requests == []


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic"])
async def test_addresses_in_a_question_are_passed_on_and_not_asked(
    provider: ScriptedUpstream, upstream: Upstream, trap: ScriptedUpstream, dialect: str
) -> None:
    url = trap.model_config().base_url
    provider.script("hi", Say("a"), Done())
    picture = {"type": "image_url", "image_url": {"url": f"{url}/picture.png"}}
    request = GenerationRequest(
        response_id="resp_0_" + "0" * 32,
        model="scripted",
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}, picture]}],
        created_at=now_rfc3339(),
        instructions=url,
        stop=[url],
        tools=[{"type": "function", "function": {"name": "fetch", "description": url}}],
    )
    model = provider.model_config(dialect=dialect)
    async with upstream.open(request, model) as call:
        assert [batch async for batch in call]
    assert len(provider.requests) == 1
    assert f"{url}/picture.png" in str(provider.requests[0].body)
    assert trap.requests == []


@pytest.mark.parametrize("name", DIALECTS)
def test_an_address_is_the_configured_one_and_a_fixed_path(name: str) -> None:
    """What is asked for is not even at hand where the path is chosen."""
    model = ModelConfig(
        name="m", dialect=name, base_url="http://a.example/v1", upstream_model="../../x?y#z"
    )
    path = DIALECTS[name].path_of(model)
    assert path.startswith("/")
    assert "x?y" not in path
