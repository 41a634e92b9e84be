"""The models file: read once, checked whole, and wrong in words that help."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from chatapp import catalog
from chatapp.catalog import CatalogError, parse

GOOD = """
[models.fast]
dialect = "openai-chat"
base_url = "http://127.0.0.1:8091/v1"
upstream_model = "smollm2"
api_key_env = "FAST_KEY"
fallback = ["other"]
context_tokens = 8192
max_output_tokens = 2048
read_s = 60
supports = ["tools", "images"]
input_price_per_mtok = 0.5
output_price_per_mtok = 1.5
extra_body = { return_progress = true }

[models.other]
dialect = "openai-chat"
base_url = "https://api.example/v1"
upstream_model = "o"
"""


def test_a_whole_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-1")
    found = parse(tomllib.loads(GOOD))
    fast = found.models["fast"]
    assert (fast.name, fast.upstream_model, fast.api_key) == ("fast", "smollm2", "sk-1")
    assert (fast.fallback, fast.supports) == (("other",), frozenset({"tools", "images"}))
    assert (fast.context_tokens, fast.read_s) == (8192, 60)
    assert fast.extra_body == {"return_progress": True}
    assert found.models["other"].api_key is None
    assert found.key_variables == {"fast": "FAST_KEY"}
    assert (found.default, found.warnings) == ("fast", ())
    assert "sk-1" not in repr(fast)


def test_an_engine_that_is_asked_with_a_prompt_is_shown_no_pictures() -> None:
    """So a picture is refused in the box, and not by the worker (chatapp/services/limits.py)."""
    local = GOOD + 'supports = ["images", "json_schema"]\n'
    content = tomllib.loads(local)
    content["models"]["other"]["dialect"] = "llamacpp"
    found = parse(content)
    assert found.models["other"].supports == {"json_schema"}
    (warning,) = [text for text in found.warnings if "models.other" in text]
    assert "images" in warning
    assert "llamacpp" in warning
    assert "json_schema" not in warning


def test_a_default_may_be_named() -> None:
    assert parse(tomllib.loads('default = "other"\n' + GOOD)).default == "other"


def test_a_key_that_is_not_set_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAST_KEY", raising=False)
    (warning,) = parse(tomllib.loads(GOOD)).warnings
    assert "models.fast" in warning
    assert "FAST_KEY" in warning


def test_what_a_dialect_does_not_use_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-1")
    content = tomllib.loads(GOOD)
    content["models"]["other"]["chat_template"] = "t.jinja"
    (warning,) = parse(content).warnings
    assert "chat_template has no effect on dialect openai-chat" in warning


def test_a_dialect_of_token_ids_has_its_two_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-1")
    files = {"tokenizer": str(tmp_path / "t.json"), "chat_template": str(tmp_path / "c.jinja")}
    for dialect in ("vllm-tokens", "sglang-tokens"):
        with pytest.raises(CatalogError, match=r"models\.other: tokenizer names .* is no file"):
            parse(other(dialect=dialect, **files))
    for path in files.values():
        Path(path).touch()
    found = parse(other(dialect="vllm-tokens", **files))
    model = found.models["other"]
    assert {"tokenizer": model.tokenizer, "chat_template": model.chat_template} == files
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("given", "missing"),
    [("input_price_per_mtok", "output_price_per_mtok"), ("output_price_per_mtok", "input_price_")],
)
def test_one_price_of_two_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, given: str, missing: str
) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-1")
    (warning,) = parse(other(**{given: 2})).warnings
    assert warning.startswith(f"models.other: {missing}")
    free = {"input_price_per_mtok": 0, "output_price_per_mtok": 3}
    assert parse(other(**free)).warnings == ()  # said, so meant


def priced(tmp_path: Path, settings: Any, prices: str) -> None:
    path = tmp_path / "priced.toml"
    path.write_text(f"{GOOD}{prices}")
    settings.RELAY_MODELS = str(path)


def test_an_answer_costs_what_its_tokens_do(tmp_path: Path, settings: Any) -> None:
    priced(tmp_path, settings, "input_price_per_mtok = 0.15\noutput_price_per_mtok = 0.6\n")
    cost = catalog.cost("other", input_tokens=1, output_tokens=3)
    assert cost == Decimal("0.00000195")
    assert catalog.cost("other", input_tokens=0, output_tokens=0) == 0


@pytest.mark.parametrize(
    ("prices", "name", "input_tokens"),
    [
        ("", "other", 1),
        ("input_price_per_mtok = 0.0\noutput_price_per_mtok = 0.0\n", "other", 1),
        ("input_price_per_mtok = 0.1\noutput_price_per_mtok = 0.1\n", "gone", 1),
        ("input_price_per_mtok = 0.1\noutput_price_per_mtok = 0.1\n", "other", None),
        ("[models.x]\n", "other", 1),
    ],
)
def test_what_an_answer_costs_may_be_unknown(
    tmp_path: Path, settings: Any, prices: str, name: str, input_tokens: int | None
) -> None:
    priced(tmp_path, settings, prices)
    assert catalog.cost(name, input_tokens=input_tokens, output_tokens=3) is None


def test_tokens_that_cost_nothing_need_no_count(tmp_path: Path, settings: Any) -> None:
    priced(tmp_path, settings, "output_price_per_mtok = 2\n")
    assert catalog.cost("other", input_tokens=None, output_tokens=500_000) == 1


def test_think_tags_reach_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-1")
    found = parse(other(think_tags=["<think>", "</think>"], start_in_reasoning=True))
    model = found.models["other"]
    assert (model.think_tags, model.start_in_reasoning) == (("<think>", "</think>"), True)
    assert found.warnings == ()


def other(**changes: Any) -> dict[str, Any]:
    """The good file with one entry changed; None removes it."""
    content: dict[str, Any] = tomllib.loads(GOOD)
    entry = content["models"]["other"] | changes
    content["models"]["other"] = {key: value for key, value in entry.items() if value is not None}
    return content


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (other(dialect="morse"), "models.other: unknown dialect 'morse'; known: anthropic,"),
        (other(dialect=None), "models.other: dialect is missing"),
        (other(base_url=None, upstream_model=""), "base_url, upstream_model is missing"),
        (other(base_url="api.example"), "base_url must begin with http"),
        (other(speed=3), "models.other: unknown key speed; known: api_key_env"),
        (other(read_s="long"), "models.other.read_s must be int or float, not str"),
        (other(context_tokens=True), "models.other.context_tokens must be int, not bool"),
        (other(think_tags=["<think>"]), "think_tags must be two texts"),
        (other(think_tags=["<think>", ""]), "think_tags must be two texts"),
        (other(think_tags=[1, 2]), "think_tags must be two texts"),
        (other(start_in_reasoning=True), "start_in_reasoning needs think_tags"),
        (other(dialect="vllm-tokens"), "dialect vllm-tokens needs chat_template, tokenizer"),
        (other(dialect="sglang-tokens", tokenizer="t"), "needs chat_template"),
        (other(fallback=["none"]), "models.other: fallback names none, not declared"),
        ({"models": {"fast": 3}}, "models.fast must be a table"),
        ({"models": []}, "`models` must be a table of tables"),
        ({"model": {}}, "unknown key model"),
        (tomllib.loads('default = "none"\n' + GOOD), "default names 'none'"),
    ],
)
def test_what_is_wrong_is_named(content: dict[str, Any], says: str) -> None:
    with pytest.raises(CatalogError) as refused:
        parse(content)
    assert says in str(refused.value)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("[models")
    settings.RELAY_MODELS = str(path)
    with pytest.raises(CatalogError, match=r"broken\.toml"):
        catalog.models()
    settings.RELAY_MODELS = str(tmp_path / "missing.toml")
    with pytest.raises(CatalogError, match=r"missing\.toml"):
        catalog.models()
    path.write_text("[models.x]\n")
    settings.RELAY_MODELS = str(path)
    with pytest.raises(CatalogError, match=r"broken\.toml: models\.x: .* is missing"):
        catalog.models()


def test_without_a_file_there_are_no_models(settings: Any) -> None:
    settings.RELAY_MODELS = ""
    assert (dict(catalog.models()), catalog.default_model()) == ({}, None)


def test_the_file_of_the_site_is_read() -> None:
    assert list(catalog.models()) == ["fast", "other"]
    assert catalog.default_model() == "fast"


def test_the_example_can_be_used_as_it_is() -> None:
    path = Path(__file__).parents[2] / "deploy" / "models.example.toml"
    found = parse(tomllib.loads(path.read_text()))
    assert found.default == "fast"
    # Nothing but keys that this machine does not have.
    assert all("which is not set" in warning for warning in found.warnings)
