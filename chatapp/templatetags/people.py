"""What templates of accounts ask: is sign-up open, which device was that."""

from __future__ import annotations

from typing import Final

from django import template
from django.conf import settings
from django.utils.translation import gettext as _

register = template.Library()

# In this order: each of the later ones is also claimed by an earlier one's user agent.
BROWSERS: Final = (
    *(("Edg", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser", "Samsung Internet")),
    *(("Firefox/", "Firefox"), ("FxiOS", "Firefox"), ("CriOS", "Chrome"), ("Chrome/", "Chrome")),
    ("Safari/", "Safari"),
)
SYSTEMS: Final = (
    *(("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows")),
    *(("Mac OS X", "Mac"), ("CrOS", "Chromebook"), ("Linux", "Linux")),
)


@register.filter
def device(user_agent: str) -> str:
    """`Firefox on Windows`, as far as it can be told. A library with thousands of patterns would
    know television sets; here a person has to recognise their own two devices."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), _("A browser"))
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    if not system:
        return browser
    return _("{browser} on {system}").format(browser=browser, system=system)


@register.simple_tag
def sign_up_open() -> bool:
    return settings.SIGN_UP
