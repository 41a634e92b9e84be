"""The HTML of answers that have ended, made once, at first sight.

Not in finalize: what an answer costs at its end is measured, and most are never looked at again.
It goes with its message. A change of the rules, or of the words in the HTML, makes it anew.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from django.db import DatabaseError, transaction
from django.utils.safestring import SafeString, mark_safe

from chatapp.middleware.threads import on_database_thread
from chatapp.models import Message, MessageHtml
from chatapp.rendering.html import to_html
from chatapp.templatetags.words import table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RULES: Final = 3
"""Raise it whenever the same text becomes other HTML."""


@cache
def version() -> str:
    """Of the rules and the words in the HTML."""
    said = json.dumps([RULES, table()["prose"]])
    return sha256(said.encode()).hexdigest()[:16]


async def html_of(texts: Mapping[int, str], final: Collection[int]) -> dict[int, SafeString]:
    """The HTML of these messages, by their keys.

    That of `final` ones, whose texts will not change any more, is kept. What is not kept yet is
    made on a thread of its own. A kept one is nothing but a copy: where it cannot be stored, the
    page is shown all the same.
    """
    html = {key: "" for key, text in texts.items() if not text}
    wanted = [key for key in final if key not in html]
    html |= await _found(wanted) if wanted else {}
    missing = {key: text for key, text in texts.items() if key not in html}
    if missing:
        made = await asyncio.to_thread(_make, missing)
        await _keep({key: text for key, text in made.items() if key in final})
        html |= made
    return {key: mark_safe(text) for key, text in html.items()}  # noqa: S308 - to_html's


def _make(texts: Mapping[int, str]) -> dict[int, str]:
    return {key: to_html(text) for key, text in texts.items()}


@on_database_thread
def _found(keys: list[int]) -> dict[int, str]:
    rows = MessageHtml.objects.filter(message__in=keys, version=version())
    return dict(rows.values_list("message_id", "html"))


@on_database_thread
def _keep(made: dict[int, str]) -> None:
    if not made:
        return
    try:
        with transaction.atomic():
            # Locked: a text that was dropped since it was read must not come back as its HTML.
            there = Message.objects.select_for_update().filter(pk__in=made).exclude(text="")
            rows = [
                MessageHtml(message_id=key, version=version(), html=made[key])
                for key in there.order_by("pk").values_list("pk", flat=True)
            ]
            MessageHtml.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=["message"],
                update_fields=["version", "html"],
            )
    except DatabaseError:
        return  # the chat was deleted meanwhile, or somebody else writes
