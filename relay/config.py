"""Settings as frozen values; this module reads no environment and no file.

Every default of design §8 is a field here, with its unit in the name. The application fills
them in (chatapp/settings.py) and hands one `RelayConfig` to everything that runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    heartbeat_s: float = 15.0
    """Silence on an event stream after which `: ping` is sent. Proxies cut idle streams at 30-60
    s."""
    client_silence_s: float = 40.0
    """Silence after which a client gives a connection up: two heartbeats and a slow network."""
    lease_s: float = 10.0
    """A writer that could not renew for this long is out for good. Keep it above a fail-over."""
    renew_s: float = 3.0
    """Three renewals fit in a lease, so two may be lost."""
    check_s: float = 3.0
    """The hub looks at the tail of every followed log this often: a lost last message leaves no
    jump."""
    sweep_s: float = 5.0
    """How often the application looks for rows that need a repair."""
    take_over_s: float = 2.0
    """How often a worker looks for jobs whose worker fell silent (PROTOCOL 2)."""
    max_attempts: int = 3
    """Runs of one job before it ends as failed/internal: a poisonous request must not go round for
    ever."""
    flush_max_ms: float = 25.0
    """Longest time an event may wait for company under load. 0 turns the window off."""
    max_log_bytes: int = 2 * 1024 * 1024
    """Content beyond this ends the response as incomplete/log_limit."""
    retention_s: float = 3600.0
    """How long an ended log stays for viewers that come back; later the record answers."""
    connect_s: float = 5.0
    read_s: float = 60.0
    """Silence between two upstream bytes that ends the answer as failed/stalled."""
    first_byte_s: float = 120.0
    total_s: float = 1800.0
    """Wall clock of a response, counted from `created`."""
    upstream_retries: int = 2
    """How often a model is asked again before any of its answer is there; 0 = never. Two, so that
    a hiccup passes unnoticed and a person waits seconds, not minutes, for bad news."""
    drain_s: float = 20.0
    cancel_after_s: float = 300.0
    leave_after_s: float = 20.0
    max_viewers_per_response: int = 50
    """0 = no limit."""
    max_generations_per_user: int = 4
    """0 = no limit."""
    max_output_tokens_per_day: int = 0
    """Per user and UTC day; 0 = no limit."""
    max_generations_per_worker: int = 0
    """Generations one supervisor runs side by side; 0 = no limit."""
    viewer_max_age_s: float = 900.0
    """A stream is closed with a comment after this long and the client resumes; 0 = never."""
    max_input_bytes: int = 1024 * 1024
    max_images: int = 4
    """Of one message in a chat; 0 = none are taken."""
    max_image_bytes: int = 512 * 1024
    """Of one of them. What models look at, 1,568 pixels wide, is half of that as a JPEG."""
    max_store_share: float = 0.9
    """Part of the store's `maxmemory` above which no new answer begins; 0 = no limit. What is left
    is for those that run: of 1 GiB, fifty of the longest."""
    capture_dir: str = ""
    """Folder that failed and odd answers of upstreams are written to; empty = none."""
    shards: int = 1
    """RELAY_SHARDS: hash tags among which new responses are spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One entry of the models file (design §4)."""

    name: str
    dialect: str
    base_url: str
    upstream_model: str
    api_key: str | None = field(default=None, repr=False)
    """Resolved from `api_key_env` by the application; never logged, never stored."""
    fallback: tuple[str, ...] = ()
    resting: bool = False
    """An operator has taken it out of use: it is not asked, its fallbacks are."""
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    connect_s: float | None = None
    """None: the RelayConfig value. The same for the next three."""
    first_byte_s: float | None = None
    read_s: float | None = None
    total_s: float | None = None
    supports: frozenset[str] = frozenset()
    think_tags: tuple[str, str] | None = None
    """What the model writes around its reasoning, as in `("<think>", "</think>")`."""
    start_in_reasoning: bool = False
    """The prompt has opened the tag already."""
    tokenizer: str | None = None
    """Path of the model's `tokenizer.json`: dialects that ask and answer in token ids need it."""
    chat_template: str | None = None
    """Path of a Jinja file, or of a `tokenizer_config.json` with a template in it; needed there."""
    input_price_per_mtok: float = 0.0
    output_price_per_mtok: float = 0.0
    extra_body: Mapping[str, Any] = field(default_factory=dict)
