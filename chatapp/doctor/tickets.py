"""Tickets for the stream door's probes: signed, short-lived, and good for nothing else.

Whoever has the server's SECRET_KEY (`manage.py stream_doctor`, the page in Django admin) makes one;
so a machine without an account on the site can examine the way to it.
"""

from __future__ import annotations

import secrets
from typing import Final

from django.core import signing
from django.utils.translation import gettext_lazy as _

TICKET_AGE_S: Final = 900
"""Longer than any examination; what has leaked into a log is soon worth nothing."""
_SALT: Final = "chatapp.doctor"
_MARK: Final = "probe."
"""Tells a ticket from an API key, which comes in the same header."""


class TicketRefused(Exception):
    """Its argument is a sentence for whoever sent it, in whichever language is spoken then."""


def make_ticket() -> str:
    """Sent as `Authorization: Bearer …`; good for a quarter of an hour."""
    return _MARK + signing.dumps(secrets.token_hex(8), salt=_SALT)


def is_ticket(token: str) -> bool:
    return token.startswith(_MARK)


def read_ticket(token: str) -> str:
    """The ticket's name, under which its streams are counted. Raises TicketRefused."""
    try:
        name = signing.loads(token.removeprefix(_MARK), salt=_SALT, max_age=TICKET_AGE_S)
    except signing.SignatureExpired as exc:
        raise TicketRefused(_("This ticket is more than a quarter of an hour old.")) from exc
    except signing.BadSignature as exc:
        detail = _("This ticket was made with another SECRET_KEY than this server's.")
        raise TicketRefused(detail) from exc
    return str(name)
