"""What every test may ask for, and what CI refuses to overlook."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import settings

from tests.valkey import PrivateValkey

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
IN_CI = bool(os.environ.get("CI"))
WAITING = ("process", "chaos", "browser")
"""Folders whose tests mostly wait for real processes."""

# A machine that is busy with other things is no bug of ours. CI repeats the same examples, so that
# it judges a change and not its luck; everybody else's runs go on looking for new ones.
settings.register_profile("house", deadline=None, derandomize=IN_CI)
settings.load_profile("house")

_not_run = pytest.StashKey[int]()
_skipped = pytest.StashKey[set[str]]()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[PrivateValkey]:
    """The server behind `redis_url`. A test that kills or pauses one starts its own instead."""
    server = PrivateValkey()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="session")
def redis_url(valkey_server: PrivateValkey) -> str:
    """A Valkey of this test run's own, empty at the start of each test."""
    return valkey_server.url


@pytest.fixture(autouse=True)
def _empty_redis(request: pytest.FixtureRequest) -> None:
    if "redis_url" in request.fixturenames:
        url: str = request.getfixturevalue("redis_url")
        with redis.Redis.from_url(url) as client:
            client.flushall()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser for Playwright's `executable_path`; needs the mark `browser`."""
    assert CHROMIUM is not None, "browser tests need Chromium: apt-get install chromium"
    return CHROMIUM


@pytest.fixture(scope="session")
def light_chromium(chromium: str) -> str:
    """The same without windows, where it is installed: a third of the CPU for each new context, and
    a third less for the tests. It has no cache of pages to go back to: that needs the whole one."""
    return shutil.which("chromium-headless-shell") or chromium


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_not_run] = 0
    config.stash[_skipped] = set[str]()


@pytest.hookimpl(trylast=True)  # after -k and -m have had their say
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What waits for processes comes first: with several workers (`make pytest`) the short ones are
    # then left to fill what remains.
    items.sort(key=lambda item: item.path.parent.name not in WAITING)
    # CI leaves them in: without Chromium each says by failing that it did not run.
    if CHROMIUM is None and not IN_CI:
        browser = [item for item in items if item.get_closest_marker("browser")]
        items[:] = [item for item in items if not item.get_closest_marker("browser")]
        config.hook.pytest_deselected(items=browser)
        config.stash[_not_run] = len(browser)


class _SkipsAreFailures:
    """Under CI a skipped test is a test that did not run, so the run has failed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._config.stash[_skipped].add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # importorskip, or a module that skips itself
            self._config.stash[_skipped].add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if IN_CI:
        session.config.pluginmanager.register(_SkipsAreFailures(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist is done: only workers collect, and so know of what is not run."""
    told: dict[str, Any] = getattr(node, "workeroutput", {})
    node.config.stash[_not_run] = told.get("not_run", 0)
    node.config.stash[_skipped].update(told.get("skipped", ()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    skipped = config.stash[_skipped]
    if hasattr(config, "workeroutput"):  # this is a worker
        config.workeroutput["not_run"] = config.stash[_not_run]
        config.workeroutput["skipped"] = sorted(skipped)
    elif skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not_run := config.stash[_not_run]:
        terminalreporter.write_line(
            f"NOT RUN: {not_run} browser tests, for want of Chromium: apt-get install chromium",
            yellow=True,
        )
    if skipped := config.stash[_skipped]:
        terminalreporter.write_line(
            f"FAILED: under CI no test may be skipped: {', '.join(sorted(skipped))}", red=True
        )
