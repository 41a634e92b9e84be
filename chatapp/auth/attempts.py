"""Where allauth counts attempts to sign in: in Redis, for all processes together.

Without Redis each process counts for itself: an operator must be able to sign in just then, and
whoever tries passwords gains no more than a factor of the number of processes.
"""

from __future__ import annotations

import json
import logging
from threading import Lock
from typing import Any, Final

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis import RedisError
from redis.exceptions import RedisClusterException

from chatapp.redis_clients import connect

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 1.0
"""Of connecting and of a reply: a page waits for it."""


class Json:
    """Times and flags need no more. Django's pickle would run what somebody wrote into Redis."""

    def dumps(self, value: Any) -> str:
        return json.dumps(value)

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class _Client(RedisCacheClient):
    """Django's, on whatever REDIS_URL may name."""

    def __init__(self, servers: list[str], **options: Any) -> None:
        super().__init__(servers, **options)
        self._url = servers[0]
        self._making = Lock()
        self._made: Any = None

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        with self._making:
            if self._made is None:
                self._made = connect(self._url, TIMEOUT_S)
        return self._made


class Attempts(RedisCache):
    """What allauth's rate limits use of a cache: add, get, set, delete."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        # A list: of a text Django would make several servers, at each comma.
        super().__init__([server], params | {"OPTIONS": {"serializer": Json}})
        self._class = _Client
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
        except (RedisError, RedisClusterException) as exc:
            logger.warning("attempts to sign in are counted by this process alone: %s", exc)
            return getattr(self._alone, name)(*args, **kwargs)
