"""The vocabulary of a model, out of its tokenizer's file: `tokenizer.json` or GGUF.

Reading one takes from a fifth of a second to two (GGUF), so it is done in a thread, once per file.
The libraries read the files; what a token prints is worked out here, as bytes, because their own
decoding gives text and so cuts characters that span tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from relay.upstream.gguf_tokenizer import from_gguf
from relay.upstream.tokenizer import Tokenizer, TokenizerUnusable
from relay.wire.detok import Vocabulary
from relay.wire.token_bytes import WORD_START, byte_level, word_piece, word_piece_with_bytes

_loading: Final = Lock()


def tokenizer_of(path: str) -> Tokenizer:
    """Read a tokenizer's file, or remember it. Blocks; for threads.

    Raises TokenizerUnusable.
    """
    with _loading:  # two answers that begin together wait for one reading
        return _read(path)


@lru_cache(maxsize=16)  # models in use at the same time; a changed file needs a new process
def _read(path: str) -> Tokenizer:
    try:
        with Path(path).open("rb") as file:
            is_gguf = file.read(4) == b"GGUF"
        return from_gguf(path) if is_gguf else _from_json(path)
    except TokenizerUnusable:
        raise
    except Exception as error:  # the libraries raise Exception itself
        raise TokenizerUnusable(f"{path} cannot be read as a tokenizer: {error}") from error


def _from_json(path: str) -> Tokenizer:
    # Imported where needed: with numpy, which `gguf` brings, 150 ms and 25 MB that a server without
    # such a model does not pay.
    from tokenizers import Tokenizer as Library

    library = Library.from_file(path)
    added = library.get_added_tokens_decoder()
    printed = _printer(json.loads(library.to_str()).get("decoder"))
    pieces = {
        token: text.encode() if token in added else printed(text)
        for text, token in library.get_vocab(with_added_tokens=True).items()
    }
    return Tokenizer(
        vocabulary=Vocabulary(
            pieces=pieces,
            special=frozenset(token for token, kind in added.items() if kind.special),
            leading_space=_drops_space(json.loads(library.to_str()).get("decoder")),
        ),
        encode=lambda text: list(library.encode(text, add_special_tokens=False).ids),
        names=_names_beside(path),
    )


def _steps(decoder: Any) -> Iterator[dict[str, Any]]:
    if isinstance(decoder, dict):
        if decoder.get("type") == "Sequence":
            for step in decoder.get("decoders") or ():
                yield from _steps(step)
        else:
            yield decoder


def _printer(decoder: Any) -> Callable[[str], bytes]:
    """What the decoder of a `tokenizer.json` does to a single token."""
    kinds = {step.get("type") for step in _steps(decoder)}
    if "ByteLevel" in kinds:
        return byte_level
    if kinds & {"ByteFallback", "Metaspace"} or _replaces_word_start(decoder):
        return word_piece_with_bytes if "ByteFallback" in kinds else word_piece
    raise TokenizerUnusable(
        f"the tokenizer's decoder is of a kind that is not known here: {sorted(map(str, kinds))}"
    )


def _replaces_word_start(decoder: Any) -> bool:
    return any(
        step.get("type") == "Replace" and step.get("pattern") == {"String": WORD_START}
        for step in _steps(decoder)
    )


def _drops_space(decoder: Any) -> bool:
    for step in _steps(decoder):
        if step.get("type") == "Strip" and step.get("content") == " " and step.get("start"):
            return True
        if step.get("type") == "Metaspace":
            scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space") else None)
            return scheme in ("always", "first")
    return False


def _names_beside(path: str) -> dict[str, str]:
    beside = Path(path).with_name("tokenizer_config.json")
    if not beside.is_file():
        return {}
    names = {}
    for name, value in json.loads(beside.read_text(encoding="utf-8")).items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            names[name] = content
    return names
