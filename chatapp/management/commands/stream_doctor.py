"""`manage.py stream_doctor URL`: which hop holds streams back, packs or cuts them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand

from chatapp.doctor import Finding, Level, Path, Report, judge, make_ticket
from chatapp.doctor.probe import CannotExamine, examine

FINE: Final = 0
FINDINGS: Final = 1
NOT_RUN: Final = 2


class Command(BaseCommand):
    help = (
        "Send timed streams over the way that viewers use and say in plain words what happens to "
        "them there. The exit status is 0 if nothing needs mending, 1 if something does, 2 if "
        "nothing could be found out. It takes a little longer than a heartbeat."
    )
    requires_system_checks = []  # neither database nor Redis are needed to ask

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help="as users type it: https://chat.example.org")
        parser.add_argument(
            "--direct", metavar="URL", help="the same server past the proxy, to compare"
        )
        parser.add_argument(
            "--ticket",
            help="of the page “Stream doctor” in Django admin; by default one is made "
            "with this shell's SECRET_KEY",
        )
        parser.add_argument(
            "--heartbeat",
            type=float,
            metavar="S",
            help="silence to be outlasted; by default the server's RELAY_HEARTBEAT_S",
        )
        parser.add_argument(
            "--gap", type=int, default=100, metavar="MS", help="between frames (100)"
        )
        parser.add_argument("--insecure", action="store_true", help="take any certificate")
        parser.add_argument("--json", action="store_true", help="print one object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = asyncio.run(
                examine(
                    options["url"],
                    options["ticket"] or make_ticket(),
                    direct=options["direct"],
                    heartbeat_s=options["heartbeat"],
                    gap_ms=options["gap"],
                    verify=not options["insecure"],
                )
            )
        except (CannotExamine, ValueError) as exc:
            if options["json"]:
                self.stdout.write(json.dumps({"error": str(exc)}))
            else:
                self.stderr.write(str(exc))
            sys.exit(NOT_RUN)
        findings = judge(report)
        if options["json"]:
            self.stdout.write(json.dumps(as_json(report, findings), indent=2))
        else:
            self._say(report, findings)
        faults = any(finding.level is Level.FAULT for finding in findings)
        sys.exit(FINDINGS if faults else FINE)

    def _say(self, report: Report, findings: list[Finding]) -> None:
        for name, path in (("public", report.public), ("direct", report.direct)):
            if path is not None:
                self.stdout.write(f"{name:<7} {path.url}  {_figures(path)}")
        self.stdout.write("")
        for finding in findings:
            style = self.style.ERROR if finding.level is Level.FAULT else self.style.WARNING
            self.stdout.write(style(f"{finding.level}: {finding.hop}: ") + finding.what)
            if finding.change:
                self.stdout.write(f"       change: {finding.change}")
        if not any(finding.level is Level.FAULT for finding in findings):
            self.stdout.write(self.style.SUCCESS("Streams pass as they are sent."))


def _figures(path: Path) -> str:
    flow, parts = path.flow, []
    parts.append(flow.http_version)
    if flow.first_byte_s is not None:
        parts.append(f"first byte {flow.first_byte_s * 1000:.0f} ms")
    if path.quiet is not None:
        verb = "outlived" if path.quiet.whole else "cut in"
        parts.append(f"{verb} a silence of {path.quiet.silence_s:.1f} s")
    if path.leave is not None and path.leave.noticed_s is not None:
        parts.append(f"leaving noticed within {path.leave.noticed_s + 0.05:.1f} s")
    return ", ".join(parts)


def as_json(report: Report, findings: list[Finding]) -> dict[str, Any]:
    """Findings, and the measures behind them without each frame's."""
    return {
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "heartbeat_s": report.heartbeat_s,
        "public": _measures(report.public),
        "direct": _measures(report.direct) if report.direct else None,
    }


def _measures(path: Path) -> dict[str, Any]:
    flow = path.flow
    return {
        "url": path.url,
        "http_version": flow.http_version,
        "headers": flow.headers,
        "hello": flow.hello,
        "connected_s": flow.connected_s,
        "headers_s": flow.headers_s,
        "first_byte_s": flow.first_byte_s,
        "frames": len((path.plain or flow).arrivals),
        "quiet": dataclasses.asdict(path.quiet) if path.quiet else None,
        "tabs": dataclasses.asdict(path.tabs) if path.tabs else None,
        "leave": dataclasses.asdict(path.leave) if path.leave else None,
        "half_close": path.half_close,
    }
