"""What a picture is, told by its bytes; and that nothing but the picture is kept of it."""

from __future__ import annotations

import pytest

from chatapp.pictures import (
    NotAPicture,
    data_url,
    estimated_tokens,
    from_data_url,
    read_picture,
)
from tests.chatapp.drawings import KINDS, SECRET, exif, gif, jpeg, png, webp


@pytest.mark.parametrize("kind", KINDS)
def test_kind_and_size_are_of_the_content(kind: str) -> None:
    found = read_picture(KINDS[kind](640, 480))
    assert (found.media_type, found.width, found.height) == (kind, 640, 480)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_the_picture_is_kept_and_that_is_a_picture_again(kind: str) -> None:
    found = read_picture(KINDS[kind]())
    assert SECRET not in found.data
    again = read_picture(found.data)
    assert again == found, "cleaned twice is cleaned once"


def test_what_shows_the_picture_stays() -> None:
    assert read_picture(png()).data == png(extra=False)
    kept = read_picture(jpeg()).data
    assert b"ICC_PROFILE" in kept
    assert kept.endswith(b"compressed\xff\x00more\xff\xd9")
    assert read_picture(webp()).data[20] == 0x10, "its flags tell of no EXIF and no XMP"


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_stays_the_right_way_up(orientation: int, order: str) -> None:
    found = read_picture(jpeg(640, 480, orientation=orientation, order=order))
    assert (found.width, found.height) == ((480, 640) if orientation >= 5 else (640, 480))
    told = exif(orientation, ">")[: -len(SECRET)]
    assert (told in found.data) is (orientation != 1)
    assert read_picture(found.data) == found


@pytest.mark.parametrize("kind", KINDS)
def test_any_beginning_of_a_picture_is_none_or_one(kind: str) -> None:
    whole = KINDS[kind](640, 480)
    for end in range(len(whole)):
        try:
            read_picture(whole[:end])
        except NotAPicture:
            continue
        assert end > 9


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        b"BM" + bytes(60),
        gif(0, 5),
        gif(60_000, 60_000),
        b"\xff\xd8\xff\xe0\0\0",
        b"\xff\xd8\xffnothing that follows",
    ],
)
def test_what_is_none_is_none(data: bytes) -> None:
    with pytest.raises(NotAPicture):
        read_picture(data)


def test_data_urls_are_read_and_their_type_is_not_believed() -> None:
    url = data_url("text/html", png())
    assert from_data_url(url) == png()
    for wrong in ("https://example.org/a.png", "data:image/png,abc", "data:;base64,*", "data:"):
        with pytest.raises(NotAPicture):
            from_data_url(wrong)


def test_tokens_grow_with_the_picture_up_to_what_providers_make_of_it() -> None:
    assert [estimated_tokens(w, w) for w in (1, 768, 1_568, 16_000)] == [1, 787, 1_600, 1_600]
