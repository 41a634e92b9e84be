"""A recorded answer of an upstream: the bytes as they were read, and what is needed to read them
again.

The format is the corpus' (`tests/fixtures/corpus/README.md`). What the corpus does not know, and is
written only where it matters, are `leading_space` and `cut_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from relay.config import ModelConfig
from relay.dialects.dialect import Asked
from relay.request import GenerationRequest
from relay.wire.detok import Vocabulary

DIALECT_NAMES: Final[Mapping[str, str]] = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic": "anthropic",
    "engine_llamacpp": "llamacpp",
    "engine_vllm": "vllm-tokens",
    "engine_sglang": "sglang-tokens",
}
"""The corpus' names, and ours."""
CORPUS_NAMES: Final[Mapping[str, str]] = {ours: name for name, ours in DIALECT_NAMES.items()}

End = Literal["eof", "reset", "cancel"]

# No vocabulary has a billion tokens, and longer digits are slow to read.
_NUMBER: Final = re.compile(rb"(?<![0-9.])[0-9]{1,9}(?![0-9.])")


class NoRecording(Exception):
    """What was given is no recorded answer; the message is one sentence that says why."""


class Options(Struct, kw_only=True, omit_defaults=True):
    think_tags: tuple[str, str] | None = None
    start_in_reasoning: bool = False
    ids_incomplete: bool = False


class Recording(Struct, kw_only=True):
    """One answer. The fields are the corpus', in its order."""

    name: str = ""
    kind: str = ""
    quirk: str = ""
    dialect: str
    """A name of the corpus."""
    http_status: int = 200
    content_type: str | None = None
    end: End = "eof"
    options: Options | None = None
    token_ids: list[int] | None = None
    vocab: dict[int, bytes] | None = None
    special: list[int] | None = None
    leading_space: bool = False
    stops: list[str] | None = None
    chunks: list[bytes]
    cut_bytes: int = 0
    """What came after the last chunk and was too much to keep."""
    expect: dict[str, Any] | None = None
    accept: list[dict[str, Any]] | None = None
    judgement: str | None = None
    why: str = ""
    source: str = ""

    @classmethod
    def from_json(cls, data: bytes) -> Recording:
        """Raises NoRecording."""
        try:
            recording = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NoRecording(f"it is no recorded answer: {error}") from error
        if recording.dialect not in DIALECT_NAMES:
            raise NoRecording(f"its dialect {recording.dialect!r} is none of {_named()}")
        return recording

    def to_json(self) -> bytes:
        said = msgspec.to_builtins(self, str_keys=True)
        for name, value in list(said.items()):
            if value is None or (not value and name in ("leading_space", "cut_bytes")):
                del said[name]  # of no use to whoever reads the corpus
        return msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n"

    def read_with(self, vocabulary: Vocabulary) -> None:
        """Keep what `vocabulary` says of the ids in the chunks, and of no others.

        Any number there may be an id: which ones are is for the dialect to say.
        """
        numbers = {int(digits) for digits in _NUMBER.findall(b"".join(self.chunks))}
        self.vocab = {n: vocabulary.pieces[n] for n in sorted(numbers) if n in vocabulary.pieces}
        self.special = sorted(numbers & vocabulary.special)
        self.leading_space = vocabulary.leading_space

    def asked(self) -> Asked:
        """The question that this is an answer to, as far as reading the answer needs it."""
        options = self.options or Options()
        model = ModelConfig(
            name="recorded",
            dialect=DIALECT_NAMES[self.dialect],
            base_url="",
            upstream_model="recorded",
            think_tags=options.think_tags,
            start_in_reasoning=options.start_in_reasoning,
        )
        request = GenerationRequest(
            response_id="recorded",
            model=model.name,
            messages=[],
            created_at="",
            stop=self.stops or [],
        )
        vocabulary = None
        if self.vocab is not None:
            vocabulary = Vocabulary(
                pieces=self.vocab,
                special=frozenset(self.special or ()),
                leading_space=self.leading_space,
            )
        return Asked(request=request, model=model, vocabulary=vocabulary)


def corpus_name(dialect: str) -> str:
    """The corpus' name of a dialect that was named either way. Raises NoRecording."""
    name = CORPUS_NAMES.get(dialect, dialect)
    if name not in DIALECT_NAMES:
        raise NoRecording(f"the dialect {dialect!r} is none of {_named()}")
    return name


def _named() -> str:
    return ", ".join(DIALECT_NAMES)


# -- what is not written down ---------------------------------------------------------------------
# Values only of characters that keys are made of, so that a mask never eats a quote or a brace.
_SECRET: Final = re.compile(
    rb"(?i:\b(?:bearer|basic)\s+)(?P<scheme>[\w.~+/=-]{16,})"
    rb"|(?i:\b(?:x-)?(?:api[-_ ]?key|authorization|access[-_]?token|password|secret)"
    rb"(?:\\?\")?\s*[=:]\s*(?:\\?\")?)(?P<value>[\w.~+/=-]{8,})"
    rb"|(?<![\w-])(?P<key>(?:sk|pk|rk|gsk|xai|hf|ghp|AKIA|AIza)[-_A-Za-z0-9]{12,})"
    rb"|(?<![\w.-])(?P<jwt>eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)


def without_secrets(chunks: Sequence[bytes], secret: str | None) -> list[bytes]:
    """`chunks`, with `secret` and whatever looks like a key or a login covered by asterisks.

    As many as there were characters: the chunks, and all that is around, stay as they were. A
    secret that is cut by a border is covered too.
    """
    data = bytearray().join(chunks)
    for match in _SECRET.finditer(bytes(data)):
        start, end = match.span(match.lastgroup or 0)
        data[start:end] = b"*" * (end - start)
    if secret:
        spelled = secret.encode()
        for form in {spelled, msgspec.json.encode(secret)[1:-1]}:
            data = data.replace(form, b"*" * len(form))
    covered = []
    at = 0
    for chunk in chunks:
        covered.append(bytes(data[at : at + len(chunk)]))
        at += len(chunk)
    return covered
