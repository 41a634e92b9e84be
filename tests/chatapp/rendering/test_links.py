"""Where links may lead, and which texts are not believed."""

from __future__ import annotations

import pytest

from chatapp.rendering.links import host_of, is_link, misleads


@pytest.mark.parametrize(
    ("href", "host"),
    [
        ("https://example.org", "example.org"),
        ("HTTP://Example.ORG:8080/a?b#c", "example.org"),
        ("https://[2001:db8::1]/", "[2001:db8::1]"),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com"),
        ("mailto:a@example.org?subject=x", "a@example.org"),
    ],
)
def test_places_a_link_may_lead_to(href: str, host: str) -> None:
    assert is_link(href)
    assert host_of(href) == host


@pytest.mark.parametrize(
    "href",
    [
        *(
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///x",
        ),
        *("/relative", "//example.org", "?q", "#here", "", "ftp://example.org", "blob:https://a/b"),
        *("https:example.org", "https:///example.org", "https:\\\\example.org", "https://"),
        *(
            "https://google.com@evil.example/",
            "https://%65vil.example",
            "https://a b/",
            "https://-",
        ),
    ],
)
def test_places_no_link_leads_to(href: str) -> None:
    assert not is_link(href)


@pytest.mark.parametrize(
    ("text", "href", "wanted"),
    [
        ("the docs", "https://example.org/docs", False),
        ("https://example.org/docs", "https://example.org/docs", False),
        ("www.example.org", "https://example.org/", False),
        ("example.org/a", "https://www.example.org/a", False),
        ("google.com", "https://evil.example/", True),
        ("https://google.com", "https://google.com.evil.example/", True),
        ("example.org.uk", "https://example.org", True),
        ("paypal", "https://xn--pypal-4ve.com/", True),
        ("a@example.org", "mailto:a@example.org", False),
        ("a@example.org", "mailto:b@example.org", True),
    ],
)
def test_a_text_that_names_another_place_misleads(text: str, href: str, wanted: bool) -> None:
    assert misleads(text, href) is wanted
