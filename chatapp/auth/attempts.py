"""Where allauth counts attempts to sign in: in Redis, for all processes together.

Without Redis each process counts for itself: an operator must be able to sign in just then, and
whoever tries passwords gains no more than a factor of the number of processes.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis import RedisError

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 1.0
"""Of connecting and of a reply: a page waits for it."""


class Json:
    """Times and flags need no more. Django's pickle would run what somebody wrote into Redis."""

    def dumps(self, value: Any) -> str:
        return json.dumps(value)

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class Attempts(RedisCache):
    """What allauth's rate limits use of a cache: add, get, set, delete."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {"serializer": Json, "socket_timeout": TIMEOUT_S}
        options |= {"socket_connect_timeout": TIMEOUT_S}
        super().__init__(server, params | {"OPTIONS": options})
        self._alone = LocMemCache("attempts", {})

    def add(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._either("add", args, kwargs))

    def get(self, *args: Any, **kwargs: Any) -> Any:
        return self._either("get", args, kwargs)

    def set(self, *args: Any, **kwargs: Any) -> None:
        self._either("set", args, kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._either("delete", args, kwargs))

    def _either(self, name: str, args: Any, kwargs: Any) -> Any:
        try:
            return getattr(super(), name)(*args, **kwargs)
        except RedisError as exc:
            logger.warning("attempts to sign in are counted by this process alone: %s", exc)
            return getattr(self._alone, name)(*args, **kwargs)
