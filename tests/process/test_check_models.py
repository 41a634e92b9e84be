"""`manage.py check_models` on the real engine: its slots show whether a stop was noticed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.site import ROOT, START_S, Proc
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.process, pytest.mark.engine]


def test_the_engine_streams_counts_and_stops_by_both_dialects(tmp_path: Path) -> None:
    address = tmp_path / "address"
    argv = [sys.executable, "-m", "chatapp.management.engine", "--address-file", str(address)]
    proc = Proc("engine", argv, os.environ, tmp_path / "log")
    try:
        asyncio.run(wait_until(address.exists, "the engine to be ready", timeout=START_S))
        url = address.read_text().strip()
        models = tmp_path / "models.toml"
        models.write_text(
            f'[models.text]\ndialect = "openai-chat"\nbase_url = "{url}/v1"\n'
            'upstream_model = "smollm2"\n'
            f'[models.ids]\ndialect = "llamacpp"\nbase_url = "{url}"\nupstream_model = "smollm2"\n'
        )
        done = subprocess.run(
            [sys.executable, "manage.py", "check_models"],
            cwd=ROOT,
            env={**os.environ, "RELAY_MODELS": str(models), "DEBUG": "1"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    finally:
        proc.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    for what in ("connects", "streams", "usage"):
        assert len(re.findall(rf"^  {what} +yes", done.stdout, re.M)) == 2, done.stdout
    assert len(re.findall(r"abort +yes  the engine's slot was free", done.stdout)) == 2
    assert done.stdout.endswith("All 2 work.\n")
