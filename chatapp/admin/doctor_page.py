"""The stream doctor for admins: their own browser asks, over the way that it really has.

What it saw is judged here, by the rules of `manage.py stream_doctor`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
from django.http import JsonResponse

from chatapp import runtime
from chatapp.doctor import Level, Report, judge, make_ticket
from chatapp.doctor.plan import MARGIN, SILENCE_S

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def page(request: HttpRequest) -> dict[str, Any] | HttpResponse:
    """The page; for a POST of what a browser saw (a Report in JSON) the findings."""
    if request.method == "POST":
        try:
            report = msgspec.json.decode(request.body, type=Report)
            findings = judge(report)
        except (msgspec.DecodeError, ArithmeticError, ValueError) as exc:
            return JsonResponse({"error": f"This is no report of the page's: {exc}"}, status=400)
        fine = all(finding.level is not Level.FAULT for finding in findings)
        return JsonResponse({"fine": fine, "findings": [asdict(one) for one in findings]})
    return {
        "site": f"{request.scheme}://{request.get_host()}",
        "ticket": make_ticket(),
        "heartbeat_s": f"{runtime.config().heartbeat_s:g}",
        "longest_s": f"{SILENCE_S[1] / MARGIN:g}",
        "margin": f"{MARGIN:g}",
    }
