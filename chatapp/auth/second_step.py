"""The second step of signing in: a code from a phone, or one of ten recovery codes.

allauth's (https://docs.allauth.org, mfa): time-based codes, counted attempts, the step between
password and session. Here: what this site decides, and the trail of who turned it on and off.

Secrets are stored as they are: whoever reads the table also reads the sessions beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from django.utils.html import format_html
from qrcode.main import QRCode

from chatapp import audit

if TYPE_CHECKING:
    from django.utils.safestring import SafeString


class SecondStepAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth is untyped
    def build_totp_svg(self, url: str) -> SafeString:
        """Part of the page: the site's policy refuses the `data:` picture that allauth has."""
        code: Any = QRCode(border=2)
        code.add_data(url)
        rows = code.get_matrix()
        path = "".join(
            f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark
        )
        return format_html(
            '<svg viewBox="0 0 {0} {0}" role="img" aria-label="{1}" shape-rendering="crispEdges">'
            '<path d="{2}"/></svg>',
            len(rows),
            "QR",
            path,
        )


def has_second_step(user: Any) -> bool:
    found: bool = Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()
    return found


def recovery_codes_left(user: Any) -> int:
    kept = Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).first()
    return len(kept.wrap().get_unused_codes()) if kept else 0


def forget_second_step(user: Any, *, actor: str) -> bool:
    """For somebody who has lost phone and codes. False if there was nothing to forget."""
    gone, _ = Authenticator.objects.filter(user=user).delete()
    if gone:
        audit.second_step_changed(user.get_username(), actor=actor, action="codes turned off")
    return bool(gone)


def keep_trail() -> None:
    """Call once, when all apps are there."""
    for signal, action in (
        (authenticator_added, "codes turned on"),
        (authenticator_removed, "codes turned off"),
        (authenticator_reset, "recovery codes made"),
    ):
        signal.connect(_noting(action), weak=False, dispatch_uid=f"chatapp {action}")


def _noting(action: str) -> Any:
    def note(sender: Any, user: Any, authenticator: Any, **_: Any) -> None:
        # Recovery codes come and go with the codes from the phone: one entry is enough.
        codes = authenticator.type == Authenticator.Type.RECOVERY_CODES
        if codes == (action == "recovery codes made"):
            name = user.get_username()
            audit.second_step_changed(name, actor=name, action=action)

    return note
