"""What a deployment got wrong is said at start."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

from chatapp import checks
from chatapp.settings import TEMPORARY_KEY_PREFIX
from relay import ModelConfig


def ids(*, deploy: bool = False) -> list[str]:
    found = run_checks(include_deployment_checks=deploy)
    return [check.id for check in found if check.id and check.id.startswith("chatapp")]


def test_a_good_site_has_nothing_to_say() -> None:
    assert run_checks() == []


def test_a_broken_models_file_is_an_error(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "m.toml"
    path.write_text("[models.x]\ndialect = 'morse'\n")
    settings.RELAY_MODELS = str(path)
    assert ids() == ["chatapp.E001"]


def test_a_missing_key_is_a_warning(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    path = tmp_path / "m.toml"
    lines = ['dialect = "openai-chat"', 'base_url = "http://x"', 'upstream_model = "m"']
    path.write_text("\n".join(["[models.x]", *lines, 'api_key_env = "NO_SUCH_KEY"']))
    settings.RELAY_MODELS = str(path)
    assert ids() == ["chatapp.W001"]


def test_fallbacks_that_lead_back_are_a_warning() -> None:
    def said(**fallbacks: list[str]) -> list[str]:
        models = {
            name: ModelConfig(
                name=name,
                dialect="openai-chat",
                base_url="http://x",
                upstream_model="m",
                fallback=tuple(names),
            )
            for name, names in fallbacks.items()
        }
        return checks.odd_fallbacks(models)

    assert said(a=["b", "c"], b=["c"], c=[]) == []
    (itself,) = said(a=["a"])
    assert "models.a: it is its own fallback" in itself
    (twice,) = said(a=["b", "b"], b=[])
    assert "models.a: fallback names a model twice" in twice
    (circle,) = said(x=[], a=["x", "b"], b=["c"], c=["a"])
    assert any(way in circle for way in ("(a → b → c → a)", "(b → c → a → b)", "(c → a → b → c)"))


def test_a_fallback_to_itself_is_told_by_the_check(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "m.toml"
    lines = ['dialect = "openai-chat"', 'base_url = "http://x"', 'upstream_model = "m"']
    path.write_text("\n".join(["[models.x]", *lines, 'fallback = ["x"]']))
    settings.RELAY_MODELS = str(path)
    assert ids() == ["chatapp.W002"]


def test_a_lease_that_one_lost_renewal_ends_is_an_error(settings: Any) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, lease_s=5, renew_s=3)
    assert ids() == ["chatapp.E002"]


def test_a_made_up_secret_is_for_tools_and_not_for_servers(settings: Any) -> None:
    checks.require_secret_key()
    settings.SECRET_KEY = TEMPORARY_KEY_PREFIX + "x"
    assert ids() == []
    assert "chatapp.E003" in ids(deploy=True)  # with those of security/test_deploy.py
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
        checks.require_secret_key()
    settings.DEBUG = True
    checks.require_secret_key()
