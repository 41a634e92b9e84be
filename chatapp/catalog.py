"""Which models there are: the TOML file that RELAY_MODELS names, read once and checked whole.

Keys are not in the file: `api_key_env` names a variable, and `settings.model_key` reads it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings

from chatapp.settings import model_key
from relay import DIALECTS, ModelConfig

if TYPE_CHECKING:
    from collections.abc import Mapping


class CatalogError(Exception):
    """The models file cannot be used; the text names the file, the model and the key."""


@dataclass(frozen=True, slots=True)
class Catalog:
    models: Mapping[str, ModelConfig]
    default: str | None
    """The model of a chat when nobody chose: `default = "name"` in the file, else its first one."""
    key_variables: Mapping[str, str] = field(default_factory=dict)
    """By model: the variable that is to hold its key, as `api_key_env` names it."""
    warnings: tuple[str, ...] = ()
    """What works, but perhaps not as the file's author thinks."""


# What an entry may say, and as which types. `api_key_env` is ours; the rest are ModelConfig's.
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "dialect": (str,),
    "base_url": (str,),
    "upstream_model": (str,),
    "api_key_env": (str,),
    "fallback": (list,),
    "context_tokens": (int,),
    "max_output_tokens": (int,),
    "connect_s": (int, float),
    "first_byte_s": (int, float),
    "read_s": (int, float),
    "total_s": (int, float),
    "supports": (list,),
    "input_price_per_mtok": (int, float),
    "output_price_per_mtok": (int, float),
    "extra_body": (dict,),
    "think_tags": (list,),
    "start_in_reasoning": (bool,),
    "tokenizer": (str,),
    "chat_template": (str,),
}
PROMPT_LACKS: Final = frozenset({"images", "tools"})
_FILES: Final = ("tokenizer", "chat_template")
_REQUIRED: Final = ("dialect", "base_url", "upstream_model")


def models() -> Mapping[str, ModelConfig]:
    """Every declared model by name. Raises CatalogError."""
    return catalog().models


def cost(
    name: str,
    *,
    input_tokens: int | None,
    output_tokens: int | None,
    plan: tuple[Decimal | None, Decimal | None] = (None, None),
) -> Decimal | None:
    """What an answer of this model costs now, in the currency of its prices.

    `plan`: prices per million input and output tokens that stand for the model's
    own. None where that is unknown: the model is not declared (any more), has no prices, or tokens
    that have a price were not counted.
    """
    try:
        model = models().get(name)
    except CatalogError:  # the file was broken meanwhile: an end is recorded all the same
        return None
    if model is None:
        return None
    total = Decimal(0)
    input_price, output_price = plan
    parts = (
        (model.input_price_per_mtok if input_price is None else input_price, input_tokens),
        (model.output_price_per_mtok if output_price is None else output_price, output_tokens),
    )
    if not any(price for price, _ in parts):
        return None
    for price, tokens in parts:
        if price and tokens is None:
            return None
        # By the text of the float: 0.15 is meant, not what binary makes of it.
        total += Decimal(str(price)) * (tokens or 0) / 1_000_000
    return total


def default_model() -> str | None:
    return catalog().default


def catalog() -> Catalog:
    """Raises CatalogError."""
    return _load(settings.RELAY_MODELS)


@lru_cache(maxsize=8)  # a new file is read by a new process; 8, so that tests may have several
def _load(path: str) -> Catalog:
    if not path:
        return Catalog(MappingProxyType({}), None)
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise CatalogError(f"RELAY_MODELS names {path}, which cannot be read: {exc}") from exc
    try:
        return parse(content)
    except CatalogError as exc:
        raise CatalogError(f"{path}: {exc}") from exc


def parse(content: Mapping[str, Any]) -> Catalog:
    """Check a whole models file. Raises CatalogError for the first thing that is wrong."""
    tables = content.get("models", {})
    if not isinstance(tables, dict):
        raise CatalogError("`models` must be a table of tables, as in [models.fast]")
    if unknown := set(content) - {"models", "default"}:
        raise CatalogError(f"unknown key {_names(unknown)}; models are declared as [models.<name>]")
    warnings: list[str] = []
    found = {name: _model(name, table, warnings) for name, table in tables.items()}
    for model in found.values():
        if missing := set(model.fallback) - set(found):
            raise CatalogError(
                f"models.{model.name}: fallback names {_names(missing)}, not declared"
            )
    default = content.get("default", next(iter(found), None))
    if default is not None and default not in found:
        raise CatalogError(f"default names {default!r}, which is not declared")
    variables = {
        name: table["api_key_env"] for name, table in tables.items() if table.get("api_key_env")
    }
    return Catalog(MappingProxyType(found), default, MappingProxyType(variables), tuple(warnings))


def _model(name: str, table: Any, warnings: list[str]) -> ModelConfig:
    where = f"models.{name}"
    if not isinstance(table, dict):
        raise CatalogError(f"{where} must be a table")
    if unknown := set(table) - set(_TYPES):
        raise CatalogError(f"{where}: unknown key {_names(unknown)}; known: {_names(_TYPES)}")
    for key, value in table.items():
        if not isinstance(value, _TYPES[key]) or (
            isinstance(value, bool) and bool not in _TYPES[key]
        ):
            wanted = " or ".join(kind.__name__ for kind in _TYPES[key])
            raise CatalogError(f"{where}.{key} must be {wanted}, not {type(value).__name__}")
    if missing := [key for key in _REQUIRED if not table.get(key)]:
        raise CatalogError(f"{where}: {_names(missing)} is missing")
    if table["dialect"] not in DIALECTS:
        raise CatalogError(
            f"{where}: unknown dialect {table['dialect']!r}; known: {_names(DIALECTS)}"
        )
    if not table["base_url"].startswith(("http://", "https://")):
        raise CatalogError(f"{where}: base_url must begin with http:// or https://")
    tags = table.get("think_tags")
    if tags is not None and not (len(tags) == 2 and all(isinstance(t, str) and t for t in tags)):
        raise CatalogError(f'{where}: think_tags must be two texts, as in ["<think>", "</think>"]')
    if table.get("start_in_reasoning") and tags is None:
        raise CatalogError(f"{where}: start_in_reasoning needs think_tags, to know where it ends")
    _check_files(where, table)
    prices = ("input_price_per_mtok", "output_price_per_mtok")
    if any(table.get(price) for price in prices):
        warnings += [
            f"{where}: {price} is missing, so its tokens cost nothing"
            for price in prices
            if price not in table
        ]
    return ModelConfig(
        name=name, api_key=_key(where, table, warnings), **_values(where, table, warnings)
    )


def _check_files(where: str, table: dict[str, Any]) -> None:
    """A dialect of token ids needs two files, and all may have a tokenizer to count with.

    Whichever is used must be there.
    """
    used: tuple[str, ...] = tuple({"tokenizer"} & set(table))
    if DIALECTS[table["dialect"]].prompt_ids:
        used = _FILES
        if missing := [key for key in _FILES if not table.get(key)]:
            raise CatalogError(f"{where}: dialect {table['dialect']} needs {_names(missing)}")
    for key in used:
        if not Path(table[key]).is_file():
            raise CatalogError(f"{where}: {key} names {table[key]}, which is no file")


def _key(where: str, table: dict[str, Any], warnings: list[str]) -> str | None:
    variable = table.get("api_key_env")
    key = model_key(variable) if variable else None
    if variable and key is None:
        warnings.append(f"{where}: api_key_env names {variable}, which is not set")
    return key


def _values(where: str, table: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
    """What ModelConfig takes, with lists as the immutable kinds it wants."""
    kinds: dict[str, type] = {"fallback": tuple, "supports": frozenset, "think_tags": tuple}
    values = dict(table)
    if (lost := _takes_text_alone(table)) and (claimed := lost & {*table.get("supports", ())}):
        values["supports"] = [what for what in table["supports"] if what not in lost]
        warnings.append(
            f"{where}: supports names {_names(claimed)}, but dialect {table['dialect']} asks with "
            "a bare prompt: it takes nothing but text"
        )
    if "chat_template" in table and not DIALECTS[table["dialect"]].prompt_ids:
        warnings.append(f"{where}: chat_template has no effect on dialect {table['dialect']}")
    return {
        key: kinds[key](value) if key in kinds else value
        for key, value in values.items()
        if key != "api_key_env"
    }


def _takes_text_alone(table: dict[str, Any]) -> frozenset[str]:
    """What an engine that is asked with a prompt cannot be given, whatever its model could."""
    return PROMPT_LACKS if DIALECTS[table["dialect"]].by_prompt else frozenset()


def _names(names: Any) -> str:
    return ", ".join(sorted(names))
