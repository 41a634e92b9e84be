"""The models file that `manage.py dev` writes: its own engine, OpenAI's if there is a key, yours.

The order is the order in which the page offers them, so the embedded model is the default unless
your file says `default = "name"`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EMBEDDED_NAME = "smollm2"
EMBEDDED_CONTEXT_TOKENS = 2048  # n_ctx 8192 shared by 4 slots, see engine.py
OPENAI_BASE_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-4o-mini"

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

Models = dict[str, dict[str, Any]]


class BadModelsFile(Exception):
    """The person's own models file cannot be used; the text says why."""


def embedded_model(engine_url: str) -> Models:
    return {
        EMBEDDED_NAME: {
            "dialect": "openai-chat",
            "base_url": f"{engine_url}/v1",
            "upstream_model": EMBEDDED_NAME,
            "context_tokens": EMBEDDED_CONTEXT_TOKENS,
            # Besides the notice on the page: a stop while the engine still reads a long prompt
            # frees its slot after 0.8 s with it and 12 s without (design §9).
            "extra_body": {"return_progress": True},
        }
    }


def openai_model(environ: Mapping[str, str]) -> Models:
    """One entry if the environment has a key; OPENAI_MODEL and OPENAI_BASE_URL refine it."""
    if not environ.get("OPENAI_API_KEY"):
        return {}
    name = environ.get("OPENAI_MODEL") or OPENAI_MODEL
    return {
        name: {
            "dialect": "openai-chat",
            "base_url": environ.get("OPENAI_BASE_URL") or OPENAI_BASE_URL,
            "upstream_model": name,
            "api_key_env": "OPENAI_API_KEY",
        }
    }


def read_models(path: Path) -> tuple[Models, str | None]:
    """Entries and default of a file. Raises BadModelsFile, which names the file."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise BadModelsFile(f"RELAY_MODELS names {path}, which cannot be read: {exc}") from exc
    models: object = content.get("models", {})
    if not isinstance(models, dict) or not all(isinstance(m, dict) for m in models.values()):
        raise BadModelsFile(f"{path}: each model is a table, as in [models.fast]")
    if unknown := set(content) - {"models", "default"}:
        raise BadModelsFile(f"{path}: unknown key {', '.join(sorted(unknown))}")
    return models, content.get("default")


def to_toml(models: Models, default: str | None = None) -> str:
    """Write the subset of TOML that a models file needs."""
    parts = ["# Written by `manage.py dev` at every start; put your own models in RELAY_MODELS.\n"]
    if default is not None:
        parts.append(f"default = {_value(default)}\n")
    for name, entry in models.items():
        lines = [f"{_key(key)} = {_value(value)}\n" for key, value in entry.items()]
        parts.append(f"\n[models.{_key(name)}]\n" + "".join(lines))
    return "".join(parts)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _string(name)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case list():
            return "[" + ", ".join(_value(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
        case str():
            return _string(value)
        case _:
            raise BadModelsFile(f"a models file has no use for {value!r}")


def _string(text: str) -> str:
    # JSON's string is TOML's basic string, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
