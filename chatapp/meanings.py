"""What each of relay's limits means, as the settings table of the README shows it."""

from __future__ import annotations

from typing import Final

TEXT_RETENTION_DAYS: Final = (
    "TEXT_RETENTION_DAYS",
    0,
    "days after which text of people without a plan is dropped, figures stay; 0 = it is kept",
)

REDACT: Final = (
    "REDACT",
    "",
    "a callable, text to text, that text goes through before it is stored: chatapp.redaction.mask",
)

RELAY_MEANINGS: Final = {
    "heartbeat_s": "silence on an event stream after which a ping is sent",
    "client_silence_s": "silence after which clients give a connection up",
    "lease_s": "a worker silent for this long has lost its answer; above your fail-over time",
    "renew_s": "how often a worker renews its lease",
    "check_s": "how often each process looks for events that no message announced",
    "sweep_s": "how often each process looks for rows that need a repair",
    "take_over_s": "how often a worker looks for jobs of workers that fell silent",
    "max_attempts": "runs of one job before it ends as failed/internal",
    "flush_max_ms": "longest time an event waits for company under load",
    "max_log_bytes": "content of one answer; more ends it as incomplete/log_limit",
    "retention_s": "how long an ended log is kept for viewers that come back",
    "connect_s": "limit for connecting to a provider",
    "read_s": "silence of a provider that ends the answer as failed/stalled",
    "first_byte_s": "limit for a provider's first byte",
    "total_s": "wall clock of one answer, from the moment it was asked for",
    "upstream_retries": "how often a model is asked again before it has said anything; 0 = never",
    "drain_s": "how long a stopping worker lets its answers finish",
    "cancel_after_s": "default patience after the last viewer was lost",
    "leave_after_s": "default patience after the last viewer left on purpose",
    "max_viewers_per_response": "open event streams of one answer; 0 = no limit",
    "max_generations_per_user": "answers a person without a plan may have running; 0 = no limit",
    "max_output_tokens_per_day": "output tokens a person without a plan may use in a UTC day; "
    "0 = no limit",
    "max_generations_per_worker": "answers one worker runs side by side; 0 = no limit",
    "viewer_max_age_s": "an event stream is closed after this long, clients resume; 0 = never",
    "max_input_bytes": "text of one request, in UTF-8, with its pictures",
    "max_images": "pictures of one message in a chat; 0 = none are taken",
    "max_image_bytes": "size of one of them, without what tells of place and camera",
    "max_store_share": "part of Redis' maxmemory above which no new answer begins; 0 = no limit",
    "capture_dir": "folder that failed and odd answers of providers are written to, for replay",
    "shards": "hash tags among which new answers are spread (Redis Cluster)",
}
