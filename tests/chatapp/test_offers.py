"""What a page says of each model is what the models file declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatapp.offers import offers_of
from tests.chatapp.conftest import MODELS

if TYPE_CHECKING:
    from pathlib import Path

    from chatapp.models import User
    from tests.chatapp.pages import Browser

FULL = """
[models.full]
dialect = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
upstream_model = "full-1"
context_tokens = 128000
max_output_tokens = 8192
supports = ["tools", "images"]
input_price_per_mtok = 0.15
output_price_per_mtok = 0.6
"""


async def test_limits_abilities_and_prices_are_told_where_they_are_known(
    user: User, ann: Browser, tmp_path: Path, settings: Any
) -> None:
    path = tmp_path / "offers.toml"
    path.write_text(MODELS + FULL)
    settings.RELAY_MODELS = str(path)
    offers = {offer.name: offer for offer in offers_of(user)}
    about = (
        "reads 128,000 tokens · writes up to 8,192 · sees pictures · calls tools · "
        "a million tokens: 0.15 in, 0.6 out"
    )
    assert (offers["full"].about, offers["full"].sees) == (about, True)
    assert (offers["fast"].about, offers["fast"].sees) == ("", False)
    page = await ann.get("/")
    assert f'<option value="full" data-about="{about}" data-sees>' in page.html
