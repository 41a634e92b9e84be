"""`.ci/run` and the audit: what was found fails, what could not be asked is said in one line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent.parent / ".ci" / "run"
MAKE = """#!/bin/sh
case "$*" in
  *audit*) echo "$AUDIT_SAYS"; exit "$AUDIT_STATUS" ;;
  *test*) echo TESTED ;;
esac
"""
FOUND = "Found 2 known vulnerabilities in 1 package\nName Version ID\nx 1.0 GHSA-1"


@pytest.mark.parametrize(
    ("says", "status", "exits", "said"),
    [
        ("No known vulnerabilities found", 0, 0, ["TESTED"]),
        (FOUND, 1, 1, FOUND.splitlines()),
        ("Found 1 known vulnerability, ignored 1 in 1 package", 1, 1, None),
        (
            "Traceback (most recent call last):\nConnectionError: no route",
            1,
            0,
            ["NOT RUN: make audit, for want of its database", "TESTED"],
        ),
        ("ERROR: nothing is known of x", 2, 0, None),
    ],
    ids=["clean", "two found", "one found", "no network", "a mirror without data"],
)
def test_the_audit_fails_for_what_it_found_and_for_nothing_else(
    tmp_path: Path, says: str, status: int, exits: int, said: list[str] | None
) -> None:
    for name, script in {"make": MAKE, "chromium": "", "apt-get": "", "sudo": ""}.items():
        tool = tmp_path / name
        tool.write_text(script or "#!/bin/sh\n")
        tool.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "AUDIT_SAYS": says,
        "AUDIT_STATUS": str(status),
    }
    done = subprocess.run(
        [RUN], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (exits, "")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("installing:")]
    assert ("TESTED" in lines) is (exits == 0)
    assert said is None or lines == said
