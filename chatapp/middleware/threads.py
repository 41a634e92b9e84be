"""A few long-lived threads for everything that touches the database.

Django gives every request a thread of its own, and with it a new database connection. Here requests
share a small pool: each borrows one thread for its synchronous parts, connections stay open, and a
stream borrows one only while it is authenticated.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Self, TypeVar

from asgiref.sync import AsyncToSync, ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.exception import convert_exception_to_response
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from django.urls import set_script_prefix
from django.utils.module_loading import import_string

from chatapp.middleware.admission import refuse
from chatapp.middleware.group_commit import GroupCommit, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from chatapp.middleware.asgi_types import Message, Receive, Scope, Send

P = ParamSpec("P")
T = TypeVar("T")

# SQLite has one writer, and a request holds its thread for about a millisecond: with four, a slow
# admin page leaves three. Each costs one database connection per process.
POOL_SIZE: Final = 4
CONNECTION_CHECK_S: Final = 1.0
"""How often a thread lets Django look whether its connection is still good: twice per request, as
Django has it, is two queries more."""


class DatabaseThread(ThreadPoolExecutor):
    """One thread, whose database connection is looked after before and after what it runs."""

    def __init__(self, name: str) -> None:
        super().__init__(max_workers=1, thread_name_prefix=name)
        self._checked_s = 0.0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return super().submit(partial(self._run, partial(fn, *args, **kwargs)))

    def _run(self, work: Callable[[], T]) -> T:
        now_s = time.monotonic()
        if now_s - self._checked_s > CONNECTION_CHECK_S:
            self._checked_s = now_s
            close_old_connections()
        try:
            return work()
        except BaseException:
            close_old_connections()  # it may be the connection that failed
            raise


_borrowed: Final[ContextVar[DatabaseThread | None]] = ContextVar("borrowed", default=None)


def on_database_thread(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorator: a coroutine function that runs `function` where it may use the database.

    On the borrowed thread if there is one, or on the one for background tasks of a process that
    serves: 0.1 ms cheaper than asgiref's general way, which is for all others (a command, a test)
    and inside `async_to_sync`.
    """
    elsewhere = database_sync_to_async(function)

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        thread = _borrowed.get() or DatabaseThreads.background
        # A view on this very thread may be waiting for us: then asgiref knows the way back to it.
        if thread is None or getattr(AsyncToSync.executors, "current", None) is not None:
            return await elsewhere(*args, **kwargs)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(thread, partial(function, *args, **kwargs))

    return call


async def transact(work: Callable[[], T]) -> T:
    """Call `work` inside a transaction, together with what others write at this moment.

    It may be called twice, and raises what it raised, or a DatabaseError of the commit.
    """
    writer = DatabaseThreads.writer
    if writer is not None and writer.loop is asyncio.get_running_loop():
        return await writer.run(work)
    alone: T = await _transact_alone(work)
    return alone


@on_database_thread
def _transact_alone(work: Callable[[], Any]) -> Any:
    (outcome,) = commit([work])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class DatabaseThreads:
    """Threads that live as long as the process. `busy` counts borrowers per thread."""

    background: ClassVar[DatabaseThread | None] = None
    """For what runs outside requests, in order: jobs of the supervisor and the sweep."""
    writer: ClassVar[GroupCommit | None] = None
    """For what every question and every end writes."""

    def __init__(self, size: int = POOL_SIZE) -> None:
        self._executors = [DatabaseThread(f"database-{n}") for n in range(size)]
        self._own: list[DatabaseThread] = []
        self.busy = [0] * size

    def __repr__(self) -> str:
        return f"<DatabaseThreads busy={self.busy}>"

    def start(self) -> None:
        """This process serves: background tasks and writers get threads of their own."""
        # Connections are looked after by their threads. The loop's thread has none, and looking for
        # them there at both ends of every request costs 0.1 ms.
        request_started.disconnect(close_old_connections)
        request_finished.disconnect(close_old_connections)
        self._own = [DatabaseThread("database-background"), DatabaseThread("database-writer")]
        DatabaseThreads.background = self._own[0]
        DatabaseThreads.writer = GroupCommit(self._own[1])

    def lend(self) -> Loan:
        return Loan(self)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the database, outside any request."""
        async with self.lend():
            return await on_database_thread(function)(*args, **kwargs)

    def executor(self, number: int) -> DatabaseThread:
        return self._executors[number]

    async def aclose(self) -> None:
        """Close every thread's connection and end the threads."""
        loop = asyncio.get_running_loop()
        DatabaseThreads.background = DatabaseThreads.writer = None
        for executor in (*self._executors, *self._own):
            await loop.run_in_executor(executor, connections.close_all)
            executor.shutdown()


CUT_SHORT: Final = (
    "This server is going away and did not finish your request. Ask again; "
    "with an Idempotency-Key nothing happens twice."
)


class Loan:
    """While entered, `sync_to_async` of this task and its children uses the least busy thread."""

    def __init__(self, threads: DatabaseThreads) -> None:
        self._threads = threads

    async def __aenter__(self) -> Self:
        busy = self._threads.busy
        self._number = busy.index(min(busy))
        busy[self._number] += 1
        executor = self._threads.executor(self._number)
        self._token = _borrowed.set(executor)
        # Django enters a context of its own per request; inside this one that changes nothing.
        self._context = ThreadSensitiveContext(executor=executor)
        await self._context.__aenter__()  # type: ignore[no-untyped-call]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.busy[self._number] -= 1
        _borrowed.reset(self._token)
        await self._context.__aexit__(kind, error, traceback)  # type: ignore[no-untyped-call]


class SiteHandler(ASGIHandler):
    """ASGI: Django, on a borrowed thread, with a bounded body, and finished once begun.

    A client that vanishes does not cut its request short: a response that is in the database must
    also reach the store, whoever is listening (design: disconnect is not stop). That is also why
    this is shorter than Django's own `handle`, which spends two tasks on waiting for a disconnect
    and two thread hops on its signals, 0.4 ms per request.
    """

    def __init__(self, threads: DatabaseThreads, *, max_body_bytes: int) -> None:
        super().__init__()
        self._threads = threads
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Body(receive, self._max_body_bytes)
        async with self._threads.lend():
            await self.handle(scope, body.receive, send)
        if body.refusal:
            await refuse(send, *body.refusal)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body_file = await self.read_body(receive)
        except RequestAborted:
            return
        with body_file:
            set_script_prefix(get_script_prefix(scope))
            request_started.send(sender=self.__class__, scope=scope)
            request, refusal = self.create_request(scope, body_file)
            try:
                response = refusal if request is None else await self.run_get_response(request)
            except asyncio.CancelledError:
                # A server that was told to stop cancels what outlasts its grace, and says 500.
                await refuse(send, 503, CUT_SHORT, retry_after="1")
                raise
            assert response is not None  # noqa: S101 - there is a request or a refusal
            await self.send_response(response, send)
            # Sends `request_finished`. What both signals are for, fresh connections, is done where
            # connections are used: DatabaseThread.
            response.close()


class ApiHandler(SiteHandler):
    """The same for /api/, through `settings.API_MIDDLEWARE`.

    The API knows its callers by itself (auth/identify.py, CSRF included) and answers JSON: what
    serves pages there (sessions, messages, static files …) would be a fifth of Django's part.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        view: Any = getattr(self, "_get_response_async")  # noqa: B009 - Django's stubs do not know it
        handler = convert_exception_to_response(view)
        for name in reversed(settings.API_MIDDLEWARE):
            handler = convert_exception_to_response(import_string(name)(handler))
        self._middleware_chain = handler


class Body:
    """What a client sends, up to a limit: Django would spool any amount of it to the disk.

    And within a time: a byte now and then would keep a place and a thread's turn for ever.
    """

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._size = 0
        self._deadline_s = asyncio.get_running_loop().time() + settings.BODY_TIMEOUT_S
        self.refusal: tuple[int, str] | None = None
        """Django was told that the client has gone, and has answered nothing."""

    async def receive(self) -> Message:
        try:
            async with asyncio.timeout_at(self._deadline_s):
                message = await self._receive()
        except TimeoutError:
            detail = (
                f"The body did not come within {settings.BODY_TIMEOUT_S:g} s. Nothing was done."
            )
            return self._refuse(408, detail)
        self._size += len(message.get("body", b""))
        if self._size > self._max_bytes:
            return self._refuse(413, f"The request is larger than {self._max_bytes} bytes.")
        return message

    def _refuse(self, status: int, detail: str) -> Message:
        self.refusal = (status, detail)
        return {"type": "http.disconnect"}
