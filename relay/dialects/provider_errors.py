"""What a provider says when it fails, in our words (corpus rule 10).

The kind comes from the error's string code, else its string type, else a number in it, else the
HTTP status, else it is `server_error`. The provider's message is kept, because it often is the only
hint; keys and tokens in it are removed first, and it is cut to a length that a page can show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from relay.errors import ErrorKind, UpstreamError
from relay.wire.surrogates import joined

MAX_MESSAGE_CHARS: Final = 500
"""A person reads a sentence or two; some providers send the whole prompt back."""

_K = ErrorKind

_WORDS: Final[Mapping[ErrorKind, str]] = {
    _K.AUTHENTICATION: "authentication_error invalid_api_key incorrect_api_key missing_api_key"
    " unauthorized unauthenticated invalid_token invalid_authentication account_deactivated",
    _K.PERMISSION: "permission_error permission_denied permission_denied_error forbidden"
    " access_denied access_terminated_error unsupported_country_region_territory",
    _K.INSUFFICIENT_QUOTA: "insufficient_quota billing_error billing_hard_limit_reached"
    " billing_not_active insufficient_balance insufficient_credits payment_required"
    " exceeded_current_quota_error",
    _K.RATE_LIMIT: "rate_limit rate_limit_error rate_limit_exceeded rate_limit_reached_error"
    " rate_limited too_many_requests resource_exhausted throttling throttling_exception"
    " tokens requests",
    _K.OVERLOADED: "overloaded overloaded_error engine_overloaded engine_overloaded_error"
    " service_unavailable service_unavailable_error unavailable unavailable_error"
    " insufficient_system_resource model_overloaded server_overloaded capacity_exceeded",
    _K.SERVER_ERROR: "server_error internal_server_error internal_error internal api_error"
    " engine_error bad_gateway upstream_error",
    _K.TIMEOUT: "timeout timeout_error request_timeout gateway_timeout deadline_exceeded",
    _K.CONTEXT_LENGTH: "context_length_exceeded exceed_context_size_error"
    " context_window_exceeded model_context_window_exceeded prompt_too_long",
    _K.INVALID_REQUEST: "invalid_request invalid_request_error bad_request bad_request_error"
    " invalid_argument invalid_parameter invalid_parameter_error validation_error"
    " unprocessable_entity unprocessable_entity_error request_too_large unsupported_parameter"
    " unsupported_value not_supported_error invalid_prompt invalid_image invalid_image_format"
    " invalid_image_url invalid_base64_image image_too_large image_too_small image_parse_error"
    " image_file_too_large unsupported_image_media_type failed_to_download_image",
    _K.NOT_FOUND: "not_found not_found_error model_not_found",
    _K.CONTENT_FILTER: "content_filter content_filter_error content_policy_violation"
    " image_content_policy_violation"
    " responsible_ai_policy_violation data_inspection_failed",
}


def _plain(word: str) -> str:
    """BadRequestError, bad_request_error and BAD-REQUEST-ERROR are one word."""
    return re.sub(r"[^a-z]", "", word.lower())


_KINDS: Final[Mapping[str, ErrorKind]] = {
    _plain(word): kind for kind, words in _WORDS.items() for word in words.split()
}

_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: _K.AUTHENTICATION,
    402: _K.INSUFFICIENT_QUOTA,
    403: _K.PERMISSION,
    404: _K.NOT_FOUND,
    408: _K.TIMEOUT,
    429: _K.RATE_LIMIT,
    503: _K.OVERLOADED,
    504: _K.TIMEOUT,
    524: _K.TIMEOUT,
    529: _K.OVERLOADED,
}

_CONTEXT: Final = re.compile(r"(?i)context[\W_]{0,3}(size|length|window|limit)|prompt is too long")
# Long enough not to hide words: "Bearer authentication failed", "token: expired".
_SECRET: Final = re.compile(
    r"(?i:\b(?:bearer|basic)\s+)[^\s\"',;]{16,}"
    r"|(?i:\b(?:api[-_ ]?key|token|secret|password|authorization)\"?\s*[=:]\s*)[^\s,;]{12,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|key|ghp|AKIA|AIza)[-_A-Za-z0-9*.]{8,}"
    # Not \b, which is also behind a hyphen: `eyJ-eyJ-…` would be read to its end at each of them.
    r"|(?<![\w-])eyJ[\w-]++\.[\w-]++\.[\w-]*"
)
_HIDDEN: Final = "[hidden]"

_SENTENCES: Final[Mapping[ErrorKind, str]] = {
    _K.AUTHENTICATION: "The provider did not accept this server's key.",
    _K.PERMISSION: "The provider does not allow this request.",
    _K.INSUFFICIENT_QUOTA: "The provider's account has no credit left.",
    _K.RATE_LIMIT: "The provider has had too many requests.",
    _K.OVERLOADED: "The provider is overloaded.",
    _K.SERVER_ERROR: "The provider failed.",
    _K.TIMEOUT: "The provider took too long.",
    _K.CONTEXT_LENGTH: "The conversation is too long for this model.",
    _K.INVALID_REQUEST: "The provider refused the request.",
    _K.NOT_FOUND: "The provider does not know this model or address.",
    _K.CONTENT_FILTER: "The provider withheld the answer.",
    _K.PROTOCOL: "The provider did not answer the request.",
}


def scrubbed(message: str, secret: str | None = None) -> str:
    """`message` on one line, without `secret` and anything that looks like one, cut to length."""
    text = " ".join(joined(message).split())
    if secret:
        text = text.replace(secret, _HIDDEN)
    text = _SECRET.sub(_HIDDEN, text)
    if len(text) > MAX_MESSAGE_CHARS:
        text = text[: MAX_MESSAGE_CHARS - 1] + "…"
    return text


def kind_of_status(status: int) -> ErrorKind:
    """The kind that an HTTP status alone speaks of."""
    if status in _STATUS:
        return _STATUS[status]
    if status < 400:  # a redirect: followed by nobody, because it would take the key along
        return _K.PROTOCOL
    return _K.INVALID_REQUEST if status < 500 else _K.SERVER_ERROR


def error_in(
    payload: object, *, http_status: int | None = None, secret: str | None = None
) -> UpstreamError:
    """The failure that an `error` member, or a whole error object, describes.

    `payload` may be an object, or a bare string or number, which then is code and message; anything
    else leaves only `http_status` to go by.
    """
    fields: Mapping[str, Any] = payload if isinstance(payload, dict) else {"code": payload}
    message = payload if isinstance(payload, str) else _message(fields)
    kind = _kind(fields, http_status)
    if kind is _K.INVALID_REQUEST and _CONTEXT.search(message):
        kind = _K.CONTEXT_LENGTH
    return UpstreamError(
        kind,
        scrubbed(message, secret) or _SENTENCES[kind],
        retry_after_s=_seconds(fields.get("retry_after")),
    )


def error_of_body(status: int, body: bytes, *, secret: str | None = None) -> UpstreamError:
    """The failure behind an HTTP answer that is not a success.

    JSON is read, a short plain text is kept as the message, HTML and the rest are not shown.
    """
    try:
        decoded = json.loads(body)  # not msgspec: half a character is no reason to say nothing
    except (ValueError, RecursionError):
        return error_in(_plain_text(body), http_status=status, secret=secret)
    if isinstance(decoded, list) and decoded:  # Google answers with a list of one
        decoded = decoded[0]
    if isinstance(decoded, dict) and decoded.get("error"):
        decoded = decoded["error"]
    return error_in(decoded, http_status=status, secret=secret)


def _kind(fields: Mapping[str, Any], http_status: int | None) -> ErrorKind:
    # `status` is Google's name for the type; some put the number there.
    for name in ("code", "type", "status"):
        word = fields.get(name)
        if isinstance(word, str) and (kind := _KINDS.get(_plain(word))):
            return kind
    for name in ("code", "status", "status_code"):
        number = _integer(fields.get(name))
        if number is not None and 400 <= number <= 599:
            return kind_of_status(number)
    return kind_of_status(http_status) if http_status is not None else _K.SERVER_ERROR


def _message(fields: Mapping[str, Any]) -> str:
    for name in ("message", "detail", "error_description", "error"):
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
        if value and name == "detail":  # FastAPI's list of what is wrong
            return json.dumps(value, ensure_ascii=False)
    return ""


def _plain_text(body: bytes) -> str:
    text = body.decode("utf-8", "replace").strip()
    looks_foreign = text.startswith(("<", "{", "[")) or "\ufffd" in text or "data:" in text
    return "" if looks_foreign or len(text) > MAX_MESSAGE_CHARS else text


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        return int(value)
    return None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 86_400 else None
