"""What every test may ask for, and what CI refuses to overlook."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
import redis
from hypothesis import settings

from tests.valkey import PrivateValkey

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
IN_CI = bool(os.environ.get("CI"))

# A machine that is busy with other things is no bug of ours. CI repeats the same examples, so that
# it judges a change and not its luck; everybody else's runs go on looking for new ones.
settings.register_profile("house", deadline=None, derandomize=IN_CI)
settings.load_profile("house")

_not_run = pytest.StashKey[int]()
_skipped = pytest.StashKey[list[str]]()


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
    assert CHROMIUM is not None, "mark this test `browser`"
    return CHROMIUM


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_not_run] = 0
    config.stash[_skipped] = []


@pytest.hookimpl(trylast=True)  # after -k and -m have had their say
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_not_run] = 0
    if CHROMIUM is not None:
        return
    browser = [item for item in items if item.get_closest_marker("browser")]
    if browser and IN_CI:
        raise pytest.UsageError(
            f"{len(browser)} browser tests need Chromium: apt-get install chromium"
        )
    if browser:
        items[:] = [item for item in items if not item.get_closest_marker("browser")]
        config.hook.pytest_deselected(items=browser)
        config.stash[_not_run] = len(browser)


class _SkipsAreFailures:
    """Under CI a skipped test is a test that did not run, so the run has failed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._config.stash[_skipped].append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # importorskip, or a module that skips itself
            self._config.stash[_skipped].append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if IN_CI:
        session.config.pluginmanager.register(_SkipsAreFailures(session.config))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[_skipped] and session.exitstatus == pytest.ExitCode.OK:
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
            f"FAILED: under CI no test may be skipped: {', '.join(skipped)}", red=True
        )
