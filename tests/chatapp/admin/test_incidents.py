"""The page on which models are switched and banners put up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatapp.models import Banner, ModelSwitch

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

URL = "/admin/incidents/"


def test_one_click_switches_a_model(staff: Callable[[str], Client]) -> None:
    browser = staff("admin")
    assert "Switch it off" in browser.get(URL).content.decode()
    reply = browser.post(URL, {"model": "fast", "state": "off", "text": "soon"}, follow=True)
    page = reply.content.decode()
    assert "Switched: fast. All processes know within a second." in page
    switch = ModelSwitch.objects.get()
    assert (switch.name, switch.state, switch.by) == ("fast", "off", "admin-person")
    for given in ({"model": "nope", "state": "off"}, {"model": "fast", "state": "odd"}):
        told = browser.post(URL, given, follow=True).content.decode()
        assert "There is no model" in told
    told = browser.post(URL, {"model": "fast", "state": "fallback"}, follow=True).content.decode()
    assert "There is no fallback of fast in the models file." in told


def test_banners_go_up_and_come_down(staff: Callable[[str], Client]) -> None:
    browser = staff("admin")
    browser.post(URL, {"banner": "slow today", "language": "de"})
    browser.post(URL, {"banner": "  "})
    banner = Banner.objects.get()
    assert (banner.text, banner.language) == ("slow today", "de")
    assert "slow today" in browser.get(URL).content.decode()
    for given in ("nonsense", str(banner.pk), str(banner.pk)):
        browser.post(URL, {"remove": given})
    assert not Banner.objects.exists()


def test_who_may_only_look_switches_nothing(staff: Callable[[str], Client]) -> None:
    for group in ("support", "auditor"):
        browser = staff(group)
        assert "Switch it off" not in browser.get(URL).content.decode()
        assert browser.post(URL, {"model": "fast", "state": "off"}).status_code == 403
    assert not ModelSwitch.objects.exists()
