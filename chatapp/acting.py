"""Who acts here: whom the trail names where only a signal tells of a change, without a request.

Apart from everything that needs tables, which are not known yet where admin's site is made.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_actor: Final[ContextVar[str]] = ContextVar("actor", default="")


def actor() -> str:
    """A user name; empty for the server's operator, at a shell or by a command."""
    return _actor.get()


@contextmanager
def acting(username: str) -> Iterator[None]:
    token = _actor.set(username)
    try:
        yield
    finally:
        _actor.reset(token)
