"""The tokenizer inside a GGUF file, llama.cpp's format for models.

Every kind that prints bytes is read. Text can be turned into ids where the file's byte-level BPE
cuts words in a way that is known here; others need the model's `tokenizer.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from relay.upstream.tokenizer import Tokenizer, TokenizerUnusable
from relay.wire.detok import Vocabulary
from relay.wire.token_bytes import byte_level, word_piece, word_piece_with_bytes

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import PreTokenizer

# token_type of GGUF: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
_NORMAL: Final = 1
_SILENT: Final = frozenset({2, 3, 5})
_CONTROL: Final = 3
_VERBATIM: Final = 4
_BYTE: Final = 6

_PRINTERS: Final[Mapping[str, Callable[[str], bytes]]] = MappingProxyType(
    {"gpt2": byte_level, "llama": word_piece, "t5": word_piece}
)

# How chat templates call a token, and how the file does.
_NAMES: Final = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}

# `tokenizer.ggml.pre`: how words are cut before pairs of bytes are merged.
_SINGLE_DIGITS: Final = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell"})
_WORDS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS: Final[Mapping[str, str]] = MappingProxyType(
    {"llama-bpe": _WORDS % "{1,3}", "llama3": _WORDS % "{1,3}", "qwen2": _WORDS % ""}
)


def from_gguf(path: str) -> Tokenizer:
    """Read a file. Blocks for seconds. Raises TokenizerUnusable, and whatever the library does."""
    # Imported where needed: with numpy 150 ms and 25 MB that most servers need not pay.
    from gguf import GGUFReader

    fields = GGUFReader(path).fields

    def value(name: str) -> Any:
        found = fields.get(f"tokenizer.ggml.{name}")
        return None if found is None else found.contents()

    kind = value("model")
    if kind not in _PRINTERS:
        raise TokenizerUnusable(f"{path}: the tokenizer {kind!r} is not known here")
    tokens: list[str] = value("tokens")
    types: list[int] = value("token_type") or [_NORMAL] * len(tokens)
    prefixed = value("add_space_prefix")
    if prefixed is None:
        prefixed = kind != "gpt2"  # llama.cpp's own defaults
    ids = {name: value(f"{key}_token_id") for name, key in _NAMES.items()}
    return Tokenizer(
        vocabulary=_vocabulary(tokens, types, _PRINTERS[kind], leading_space=bool(prefixed)),
        encode=(
            _encoder(tokens, types, value("merges") or [], str(value("pre")))
            if kind == "gpt2"
            else None
        ),
        names={
            f"{name}_token": tokens[token]
            for name, token in ids.items()
            if isinstance(token, int) and token < len(tokens)
        },
    )


def _vocabulary(
    tokens: list[str], types: list[int], printed: Callable[[str], bytes], *, leading_space: bool
) -> Vocabulary:
    pieces: dict[int, bytes] = {}
    special = set()
    for token, (text, of_type) in enumerate(zip(tokens, types, strict=True)):
        if of_type in _SILENT:
            special.add(token)
        elif of_type == _VERBATIM:
            pieces[token] = text.encode()
        elif of_type == _BYTE:
            pieces[token] = word_piece_with_bytes(text)
        else:
            pieces[token] = printed(text)
    return Vocabulary(pieces=pieces, special=frozenset(special), leading_space=leading_space)


def _encoder(
    tokens: list[str], types: list[int], merges: list[str], pre: str
) -> Callable[[str], list[int]] | None:
    cut = _pre_tokenizer(pre)
    if cut is None:
        return None
    from tokenizers import AddedToken, models
    from tokenizers import Tokenizer as Library

    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    library = Library(
        models.BPE(
            vocab={text: token for token, text in enumerate(tokens)},
            merges=pairs,
            ignore_merges=pre in _PATTERNS and pre != "qwen2",
        )
    )
    library.pre_tokenizer = cut
    for control in (True, False):
        wanted = _CONTROL if control else _VERBATIM
        library.add_tokens(
            [
                AddedToken(text, normalized=False, special=control)
                for text, of_type in zip(tokens, types, strict=True)
                if of_type == wanted
            ]
        )
    return lambda text: list(library.encode(text, add_special_tokens=False).ids)


def _pre_tokenizer(pre: str) -> PreTokenizer | None:
    from tokenizers import Regex, pre_tokenizers

    bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if pre == "gpt-2":
        return bytes_of_words
    if pre in _SINGLE_DIGITS:
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, bytes_of_words])
    if pre in _PATTERNS:
        words = pre_tokenizers.Split(Regex(_PATTERNS[pre]), behavior="isolated")
        whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([words, whole])
    return None
