"""`{{ text|markdown }}`: an answer's text as HTML."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString, mark_safe

from chatapp.rendering import to_html

register = template.Library()


@register.filter
def markdown(text: str) -> SafeString:
    """Some milliseconds a page of text: views that show many answers use `rendering.html_of`."""
    return mark_safe(to_html(text))  # noqa: S308 - escaped by html.py, and cleaned by nh3
