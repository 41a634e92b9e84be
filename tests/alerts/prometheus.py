"""A real Prometheus beside a real site: scrapes every process each second, evaluates as often."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx

from tests.alerts.rules import PATH, shortened, tool
from tests.ports import free_port
from tests.site import Proc
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: unbroken
    static_configs: [{{targets: [{targets}]}}]
"""


class Prometheus:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.fired: dict[str, float] = {}
        """Alerts that have fired so far, and when, by time.monotonic."""

    async def value(self, query: str) -> float:
        """Of one number; NaN where there is none."""
        reply = await self._client.get("/api/v1/query", params={"query": query})
        if reply.status_code == 503:  # it is still starting
            return float("nan")
        result: Any = reply.raise_for_status().json()["data"]["result"]
        return float(result[0]["value"][1]) if result else float("nan")

    async def watch(self) -> None:
        """Until cancelled: note what fires."""
        while True:
            with suppress(httpx.TransportError):
                reply = await self._client.get("/api/v1/alerts")
                alerts: Any = reply.json()["data"]["alerts"] if reply.is_success else []
                for alert in alerts:
                    if alert["state"] == "firing":
                        self.fired.setdefault(alert["labels"]["alertname"], time.monotonic())
            await asyncio.sleep(0.25)


@asynccontextmanager
async def prometheus(folder: Path, ports: Sequence[int]) -> AsyncIterator[Prometheus]:
    """Returns when every port has been scraped."""
    here = folder / "prometheus"
    here.mkdir()
    targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    (here / "prometheus.yml").write_text(CONFIG.format(targets=targets))
    (here / "alerts.yml").write_text(shortened(PATH.read_text()))
    port = free_port()
    argv = [
        tool("prometheus"),
        f"--config.file={here / 'prometheus.yml'}",
        f"--storage.tsdb.path={here / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    proc = Proc("prometheus", argv, {"PATH": "/usr/bin:/bin"}, folder / "prometheus.log")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
        made = Prometheus(client)

        async def scraped() -> bool:
            assert proc.alive, proc.log
            with suppress(httpx.TransportError):
                return await made.value("sum(up)") == len(ports)
            return False

        watching = asyncio.create_task(made.watch())
        try:
            await wait_until(scraped, "all processes to be scraped", timeout=30)
            yield made
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            proc.kill()
