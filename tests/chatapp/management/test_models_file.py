"""The models file that `manage.py dev` writes means what was put in."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.management.models_file import (
    OPENAI_BASE_URL,
    OPENAI_MODEL,
    BadModelsFile,
    embedded_model,
    openai_model,
    read_models,
    to_toml,
)

texts = st.text(max_size=12)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, st.dictionaries(texts, values, max_size=4), min_size=1, max_size=3))
def test_toml_reads_back_as_it_was_written(models: dict[str, dict[str, object]]) -> None:
    assert tomllib.loads(to_toml(models)) == {"models": models}


def test_the_order_of_the_models_is_kept() -> None:
    models = {**embedded_model("http://127.0.0.1:1"), **openai_model({"OPENAI_API_KEY": "k"})}
    assert list(tomllib.loads(to_toml(models))["models"]) == ["smollm2", OPENAI_MODEL]


def test_the_embedded_model_asks_for_progress() -> None:
    entry = embedded_model("http://127.0.0.1:4711")["smollm2"]
    assert entry["base_url"] == "http://127.0.0.1:4711/v1"
    assert entry["extra_body"] == {"return_progress": True}


def test_without_a_key_there_is_no_openai_model() -> None:
    assert openai_model({"OPENAI_MODEL": "x", "OPENAI_API_KEY": ""}) == {}


def test_the_key_itself_is_never_written() -> None:
    models = openai_model({"OPENAI_API_KEY": "sk-secret"})
    assert models[OPENAI_MODEL]["base_url"] == OPENAI_BASE_URL
    assert models[OPENAI_MODEL]["api_key_env"] == "OPENAI_API_KEY"
    assert "sk-secret" not in to_toml(models)


def test_openai_model_and_address_can_be_chosen() -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m", "OPENAI_BASE_URL": "http://h/v1"}
    assert openai_model(environ)["m"]["base_url"] == "http://h/v1"


def test_the_default_of_your_own_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('default = "mine"\n[models.mine]\ndialect = "openai-chat"\n')
    models, default = read_models(path)
    written = tomllib.loads(to_toml({**embedded_model("http://127.0.0.1:1"), **models}, default))
    assert written["default"] == "mine"
    assert list(written["models"]) == ["smollm2", "mine"]


@pytest.mark.parametrize(
    "text", ["[models", "models = 3", "[models]\nfast = 1", "[model.fast]\nx = 1"]
)
def test_a_bad_models_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(BadModelsFile, match=r"models\.toml"):
        read_models(path)


def test_a_models_file_without_models_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text("")
    assert read_models(path) == ({}, None)
