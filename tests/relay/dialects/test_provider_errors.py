"""A provider's failure in our words, and none of our secrets in its."""

from __future__ import annotations

import json

import pytest

from relay.dialects.provider_errors import (
    MAX_MESSAGE_CHARS,
    error_in,
    error_of_body,
    kind_of_status,
    scrubbed,
)
from relay.errors import RETRYABLE, ErrorKind

K = ErrorKind


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"code": "rate_limit_exceeded", "type": "tokens", "message": "x"}, K.RATE_LIMIT),
        ({"code": "invalid_api_key", "type": "invalid_request_error"}, K.AUTHENTICATION),
        ({"code": "insufficient_quota", "type": "insufficient_quota"}, K.INSUFFICIENT_QUOTA),
        ({"code": "no such word", "type": "overloaded_error"}, K.OVERLOADED),
        ({"code": None, "type": "BadRequestError"}, K.INVALID_REQUEST),
        ({"code": 400, "type": "InternalServerError"}, K.SERVER_ERROR),
        ({"code": 429}, K.RATE_LIMIT),
        ({"code": "529"}, K.OVERLOADED),
        ({"code": "0429x"}, K.SERVER_ERROR),
        ({"code": 7}, K.SERVER_ERROR),
        ({"code": True}, K.SERVER_ERROR),
        ({"status_code": 404}, K.NOT_FOUND),
        ({"code": 429, "status": "UNAVAILABLE"}, K.OVERLOADED),
        ({"code": 8, "status": "PERMISSION_DENIED"}, K.PERMISSION),
        ({"type": "unavailable_error", "message": "Loading model"}, K.OVERLOADED),
        ("a mere sentence", K.SERVER_ERROR),
        (None, K.SERVER_ERROR),
        (["a"], K.SERVER_ERROR),
        ({}, K.SERVER_ERROR),
    ],
    ids=str,
)
def test_the_kind_comes_from_code_then_type_then_number(payload: object, kind: ErrorKind) -> None:
    error = error_in(payload)
    assert error.kind is kind
    assert error.retryable is (kind in RETRYABLE)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens",
        "the request exceeds the available context size",
        "Input is longer than the context-window",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_a_refusal_that_speaks_of_the_context_is_context_length(message: str) -> None:
    assert error_in({"code": 400, "message": message}).kind is K.CONTEXT_LENGTH
    assert error_in({"type": "invalid_request_error", "message": message}).kind is K.CONTEXT_LENGTH
    assert error_in({"code": 500, "message": message}).kind is K.SERVER_ERROR


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, K.PROTOCOL),
        (400, K.INVALID_REQUEST),
        (401, K.AUTHENTICATION),
        (402, K.INSUFFICIENT_QUOTA),
        (403, K.PERMISSION),
        (404, K.NOT_FOUND),
        (408, K.TIMEOUT),
        (413, K.INVALID_REQUEST),
        (422, K.INVALID_REQUEST),
        (429, K.RATE_LIMIT),
        (500, K.SERVER_ERROR),
        (502, K.SERVER_ERROR),
        (503, K.OVERLOADED),
        (504, K.TIMEOUT),
        (524, K.TIMEOUT),
        (529, K.OVERLOADED),
        (599, K.SERVER_ERROR),
    ],
)
def test_a_status_alone_has_a_kind_and_a_sentence(status: int, kind: ErrorKind) -> None:
    assert kind_of_status(status) is kind
    error = error_of_body(status, b"")
    assert error.kind is kind
    assert error.message.endswith(".")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "Too many."}}, "Too many."),
        ({"error": "Too many."}, "Too many."),
        ({"message": "Too many.", "object": "error"}, "Too many."),
        ({"detail": "Too many."}, "Too many."),
        ({"detail": [{"msg": "Too many."}]}, '[{"msg": "Too many."}]'),
        ([{"error": {"message": "Too many."}}], "Too many."),
        ({"error": {"message": "line\none\ttwo"}}, "line one two"),
        ({"error": {"message": "half \ud83d"}}, "half \ufffd"),
        ({"error": {"message": 5}}, "The provider has had too many requests."),
        ([], "The provider has had too many requests."),
        (5, "The provider has had too many requests."),
    ],
    ids=str,
)
def test_the_providers_words_are_found(body: object, message: str) -> None:
    error = error_of_body(429, json.dumps(body).encode())
    assert (error.kind, error.message) == (K.RATE_LIMIT, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"upstream connect error\n", "upstream connect error"),
        (b"<html><body>503</body></html>", "The provider is overloaded."),
        (b'{"error": {"message": "cut', "The provider is overloaded."),
        (b"data: {}\n\n", "The provider is overloaded."),
        (b"\xff\xfe", "The provider is overloaded."),
        (b"word " * 500, "The provider is overloaded."),
        (b"[" * 100_000, "The provider is overloaded."),
    ],
)
def test_only_short_plain_text_is_shown(body: bytes, message: str) -> None:
    assert error_of_body(503, body).message == message


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abcDEF123456. See the docs",
        "key sk-ant-api03-abc_DEF-123 is revoked",
        "bad header Authorization: Bearer abcdefghijklmnop1234",
        "Bearer eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
        "token eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl expired",
        "api_key=0123456789abcdef in the query",
        '{"api-key": "0123456789abcdef"}',
        "AIzaSyA1234567890abcdef is not valid",
        "gsk_1234567890abcdefgh rejected",
        "hf_abcdefghijklmnop rejected",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str) -> None:
    hidden = scrubbed(text)
    assert "[hidden]" in hidden
    for secret in ("abc", "0123456789", "eyJ", "AIza", "dXNl", "1234567890"):
        assert secret not in hidden


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is required",
        "Basic authentication failed",
        "max tokens: 4096 is more than 2048",
        "token: expired",
        "The key question is skipped; ask-me-later",
        "risk-averse models refuse this",
    ],
)
def test_words_that_only_resemble_a_key_stay(text: str) -> None:
    assert scrubbed(text) == text


def test_our_own_key_is_hidden_whatever_it_looks_like() -> None:
    assert scrubbed("I do not know plainword.", "plainword") == "I do not know [hidden]."


def test_a_long_message_is_cut() -> None:
    assert len(scrubbed("word " * 1000)) == MAX_MESSAGE_CHARS
    assert scrubbed("word " * 1000).endswith("…")


@pytest.mark.parametrize(
    ("value", "seconds"), [(3, 3.0), (0.5, 0.5), ("3", None), (-1, None), (1e9, None), (True, None)]
)
def test_a_wait_inside_the_error_is_kept(value: object, seconds: float | None) -> None:
    assert error_in({"code": 429, "retry_after": value}).retry_after_s == seconds
