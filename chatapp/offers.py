"""The models that a person may choose, with what each of them can do, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatapp import catalog, services
from chatapp.numerals import grouped, plain
from chatapp.templatetags.words import table

if TYPE_CHECKING:
    from chatapp.models import User
    from relay import ModelConfig


@dataclass(frozen=True, slots=True)
class Offer:
    name: str
    sees: bool
    """It takes pictures."""
    about: str
    """Its limits and its price, as far as the models file declares them."""


def offers_of(user: User) -> list[Offer]:
    """In the order of the models file."""
    declared = catalog.models()
    return [_offer(declared[name]) for name in services.models_of(user)]


def _offer(model: ModelConfig) -> Offer:
    words = table()["models"]
    about: list[str] = []
    if model.context_tokens:
        about.append(words["context"].format(tokens=grouped(model.context_tokens)))
    if model.max_output_tokens:
        about.append(words["output"].format(tokens=grouped(model.max_output_tokens)))
    about += [words[what] for what in ("images", "tools") if what in model.supports]
    if model.input_price_per_mtok or model.output_price_per_mtok:
        prices = {"in": model.input_price_per_mtok, "out": model.output_price_per_mtok}
        about.append(words["price"].format(**{name: plain(p) for name, p in prices.items()}))
    return Offer(model.name, "images" in model.supports, " · ".join(about))
