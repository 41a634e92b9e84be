"""`manage.py create_api_key`: the key, alone, once."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from chatapp.auth import by_key
from chatapp.models import ApiKey, User

if TYPE_CHECKING:
    from chatapp.auth import Principal


def run(*args: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("create_api_key", *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def owner(key: str) -> Principal:
    found = by_key(key.strip())
    assert found is not None
    return found


def test_the_key_alone_is_on_stdout(user: User) -> None:
    out, err = run("ann", "--name", "script")
    assert out.count("\n") == 1
    assert owner(out).user == user
    assert (err, ApiKey.objects.get().name) == ("", "script")


def test_a_missing_user_is_made_when_asked_for(transactional_db: None) -> None:
    with pytest.raises(CommandError, match="--create-user"):
        run("carl")
    out, err = run("carl", "--create-user")
    assert owner(out).user.username == "carl"
    assert "carl" in err
    assert not User.objects.get(username="carl").has_usable_password()
    assert owner(run("carl", "--create-user")[0]).user.username == "carl"
    assert User.objects.count() == 1


def test_an_inactive_user_gets_none(user: User) -> None:
    User.objects.update(is_active=False)
    with pytest.raises(CommandError, match="not active"):
        run("ann")
