"""Vocabularies out of files: what we make of ids is what the tokenizer's makers would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library
from tokenizers.trainers import BpeTrainer

from chatapp.management.engine import model_path
from relay.upstream.tokenizer import Tokenizer, TokenizerUnusable
from relay.upstream.vocabulary import tokenizer_of
from relay.wire.detok import Detokenizer

TEXTS = [
    "Hello, wörld! Déjà vu, naïve façade, e\u0301 combining.",
    "你好世界。日本語のテキスト、한국어 텍스트.",
    "👩‍💻 👨‍👩‍👧‍👦 ❤️‍🔥 🏳️‍🌈 👍🏽 🇩🇪🇯🇵🇧🇷",
    "def f(x: int) -> str:\n\treturn f'{x:>10}'  # 100%\r\n\n\n    pass\n",
    "<|im_start|> as text is a marker; so is </s>",
    "  two spaces before, trailing  ",
    "\u200b\ufeff\u202e\x00\x7f",
    "مرحبا بالعالم שלום עולם नमस्ते",
]


def text_of(tokenizer: Tokenizer, ids: list[int]) -> str:
    decoder = Detokenizer(tokenizer.vocabulary)
    return "".join(decoder.feed([token]) for token in ids) + decoder.finish()


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    vocabulary = tokenizer.vocabulary
    return b"".join(vocabulary.pieces[n] for n in ids if n not in vocabulary.special)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    assert tokenizer.encode is not None
    return tokenizer.encode(text)


# -- tokenizer.json -------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small enough that most characters take several tokens."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    library.train_from_iterator(TEXTS * 3, trainer)
    library.add_tokens([AddedToken("<tool é>", normalized=False)])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    library.save(str(path))
    return path


def sentencepiece(path: Path, **changes: Any) -> Path:
    """As Llama 2 and Mistral have it: a space before every text, bytes for unknown characters."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", "▁the", "the", "▁▁", "é", "a", "b", "你"]
    vocab = {word: token for token, word in enumerate(words)}
    library = Library(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>"))
    library.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if changes.get("strip", True):
        steps.append(decoders.Strip(" ", 1, 0))
    library.decoder = decoders.Sequence(steps)
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    library.save(str(path))
    return path


@pytest.mark.parametrize("text", TEXTS)
def test_a_byte_level_tokenizer_says_what_its_library_says(byte_level: Path, text: str) -> None:
    tokenizer = tokenizer_of(str(byte_level))
    ids = encode(tokenizer, text)
    library = Library.from_file(str(byte_level))
    assert text_of(tokenizer, ids) == library.decode(ids)


def test_tokens_that_were_added_print_as_they_are_written(byte_level: Path) -> None:
    tokenizer = tokenizer_of(str(byte_level))
    assert text_of(tokenizer, encode(tokenizer, "<s>a<tool é></s>")) == "a<tool é>"


@given(data=st.data())
def test_any_ids_of_a_byte_level_tokenizer_are_the_text_of_their_bytes(
    byte_level: Path, data: st.DataObject
) -> None:
    tokenizer = tokenizer_of(str(byte_level))
    ids = data.draw(st.lists(st.sampled_from(sorted(tokenizer.vocabulary.pieces)), max_size=20))
    assert text_of(tokenizer, ids) == bytes_of(tokenizer, ids).decode("utf-8", "replace")


@pytest.mark.parametrize("text", ["the the", "  the", "é你a", "ж👩‍💻", "a  b", " a", ""])
@pytest.mark.parametrize("strip", [True, False])
def test_a_sentencepiece_tokenizer_says_what_its_library_says(
    tmp_path: Path, text: str, strip: bool
) -> None:
    path = sentencepiece(tmp_path / "tokenizer.json", strip=strip)
    tokenizer = tokenizer_of(str(path))
    library = Library.from_file(str(path))
    ids = library.encode(text).ids
    assert text_of(tokenizer, [1, *ids, 2]) == library.decode([1, *ids, 2])
    assert tokenizer.vocabulary.leading_space is strip


def test_a_metaspace_decoder_drops_the_first_space_if_it_puts_one(tmp_path: Path) -> None:
    for scheme, dropped in (("always", True), ("first", True), ("never", False)):
        library = Library(models.Unigram([("▁a", 0.0), ("b", 0.0)], unk_id=None))
        library.decoder = decoders.Metaspace(prepend_scheme=scheme)
        path = tmp_path / f"{scheme}.json"
        library.save(str(path))
        tokenizer = tokenizer_of(str(path))
        assert tokenizer.vocabulary.leading_space is dropped
        assert text_of(tokenizer, [0, 1, 0]) == library.decode([0, 1, 0])


def test_names_for_templates_come_from_the_file_beside(tmp_path: Path) -> None:
    config = {
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "lstrip": False},
        "pad_token": None,
        "model_max_length": 5,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = tokenizer_of(str(sentencepiece(tmp_path / "tokenizer.json")))
    assert tokenizer.names == {"bos_token": "<s>", "eos_token": "</s>"}


def test_a_file_is_read_once(byte_level: Path) -> None:
    assert tokenizer_of(str(byte_level)) is tokenizer_of(str(byte_level))


def test_files_that_are_no_tokenizers_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    words, gguf, pieces = (tmp_path / name for name in ("a.json", "b.gguf", "c.json"))
    words.write_text("no tokenizer")
    gguf.write_bytes(b"GGUF\x03\x00")
    library = Library(models.WordLevel({"a": 0}, unk_token="a"))
    library.decoder = decoders.WordPiece()
    library.pre_tokenizer = pre_tokenizers.Split(Regex(" "), "removed")
    library.save(str(pieces))
    for path in (missing, words, gguf):
        with pytest.raises(TokenizerUnusable, match=path.name):
            tokenizer_of(str(path))
    with pytest.raises(TokenizerUnusable, match="WordPiece"):
        tokenizer_of(str(pieces))


# -- the embedded model ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def real() -> Tokenizer:
    path = model_path()
    assert path is not None
    return tokenizer_of(str(path))


@pytest.mark.engine
@pytest.mark.parametrize("text", TEXTS)
def test_the_real_vocabulary_takes_any_text_there_and_back(real: Tokenizer, text: str) -> None:
    ids = encode(real, text)
    if not set(ids) & real.vocabulary.special:
        assert text_of(real, ids) == text
    assert text_of(real, ids) == bytes_of(real, ids).decode("utf-8", "replace")


@pytest.mark.engine
def test_the_real_vocabulary_cuts_characters_and_we_do_not(real: Tokenizer) -> None:
    decoder = Detokenizer(real.vocabulary)
    shown = [decoder.feed([token]) for token in encode(real, "👩‍💻🇩🇪")]
    assert "" in shown
    assert "\ufffd" not in "".join(shown)
    assert "".join(shown) + decoder.finish() == "👩‍💻🇩🇪"


@pytest.mark.engine
def test_the_real_vocabularys_special_tokens_print_nothing(real: Tokenizer) -> None:
    ids = encode(real, "<|im_start|>user\nhi<|im_end|>")
    assert text_of(real, ids) == "user\nhi"
    assert real.names["eos_token"] == "<|im_end|>"
