"""The page on which people take their data along, or have it erased, as they meet it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESK, PASSWORD, PHONE

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize(("look", "size"), [("light", DESK), ("dark", PHONE)])
async def test_a_person_takes_everything_along_and_is_erased(
    new_person: NewPerson, tmp_path: Path, look: str, size: dict[str, int]
) -> None:
    person = await new_person(color_scheme=look, viewport=size)
    page = person.page
    await page.goto("/")
    await person.ask("say:5")
    await person.answer.until_status("completed")
    await page.goto("/account/")
    await page.get_by_role("link", name="Your data").click()
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Go on").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Your data")
    await person.shot(f"own-data-{look}")
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="Download").click()
    path = tmp_path / "mine.zip"
    await (await coming.value).save_as(path)
    with zipfile.ZipFile(path) as file:
        assert b"word5" in file.read("answers.jsonl")
    name = await page.locator("label[for=name]").inner_text()
    await page.locator("#name").fill("somebody else")
    await page.get_by_role("button", name="Erase for good").click()
    await expect(page.get_by_role("alert")).to_contain_text("Nothing was erased")
    await person.shot(f"own-data-refused-{look}")
    await page.locator("#name").fill(name.split(",")[1].strip())
    await page.get_by_role("button", name="Erase for good").click()
    await expect(page.locator("body")).to_contain_text("is erased")
    await person.shot(f"own-data-erased-{look}")
    await page.goto("/")
    assert "/account/login/" in page.url
