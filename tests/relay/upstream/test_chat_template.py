"""Chat templates: programs of strangers, run with what their authors rely on and nothing more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relay.errors import ErrorKind, UpstreamError
from relay.upstream.chat_template import ChatTemplateUnusable, rendered

USER = [{"role": "user", "content": "hi"}]


def written(tmp_path: Path, source: str, **options: Any) -> str:
    path = tmp_path / f"{abs(hash(source))}.jinja"
    path.write_text(source)
    return rendered(str(path), USER, {}, options)


def test_blocks_leave_no_white_space_behind(tmp_path: Path) -> None:
    source = "a\n  {% for m in messages %}\n{{ m.content }}\n  {% endfor %}\nb"
    assert written(tmp_path, source) == "a\nhi\nb"


def test_json_in_a_template_is_not_escaped_for_html(tmp_path: Path) -> None:
    source = "{{ x | tojson }}{% for i in [1, 2] %}{% break %}{% endfor %}"
    assert written(tmp_path, source, x="<é&>") == '"<é&>"'


def test_what_a_template_says_when_it_refuses_is_passed_on(tmp_path: Path) -> None:
    for source in ("{{ raise_exception('Roles must alternate') }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}"):
        with pytest.raises(UpstreamError, match="cannot write this conversation: ") as failed:
            written(tmp_path, source)
        assert failed.value.kind is ErrorKind.INVALID_REQUEST


def test_a_template_may_look_and_not_touch(tmp_path: Path) -> None:
    for source in ("{{ messages.append(1) }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}"):
        with pytest.raises(UpstreamError):
            written(tmp_path, source)


def test_a_template_knows_the_day(tmp_path: Path) -> None:
    assert written(tmp_path, "{{ strftime_now('%Y') }}").isdigit()


def test_older_models_keep_their_template_in_json(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": "{{ messages[0].content }}!"}))
    assert rendered(str(path), USER, {}, {}) == "hi!"
    for broken in ('{"chat_template": 4}', "{}", "[", '{"chat_template": "{% if %}"}'):
        other = tmp_path / f"{len(broken)}.json"
        other.write_text(broken)
        with pytest.raises(ChatTemplateUnusable, match=other.name):
            rendered(str(other), USER, {}, {})
