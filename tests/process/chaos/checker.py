"""After everything has settled: compare what all parties say about every answer."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from relay.states import TERMINAL
from relay.store import keys
from tests.process.chaos.expected import CLOCKS_S, Ended, near, text_faults, wrong_end
from tests.process.chaos.ground import TOTAL_S, Ground
from tests.process.chaos.recovery import Recovery, recoveries
from tests.process.chaos.schedule import Kind

if TYPE_CHECKING:
    from tests.process.chaos.ledger import Asked, Ledger

COLUMNS = (
    *("lost", "repeated", "reordered", "stuck", "wrong end", "second ends", "after end"),
    *("missing records", "zombie tokens", "leaked keys", "leaked connections"),
    *("odd replies", "wrong exits", "out of memory", "over the bound"),
)
ZOMBIE_S = 1.0
"""What a provider has on the wire when its connection is closed was sent before; a busy machine."""
SPARE_CLIENTS = 2
"""Of a kind: one that is just made anew beside one that is just dropped."""
NO_TTL = {keys.jobs(0), "relay:{0}:run", keys.reporters()}
"""Keys that belong to the installation and not to a response."""
FINAL = {str(status) for status in TERMINAL}


@dataclass
class Verdict:
    """`faults` are (column, sentence); the run is good if there are none."""

    faults: list[tuple[str, str]] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ended: dict[str, Ended] = field(default_factory=dict)
    """By tag."""
    recoveries: list[Recovery] = field(default_factory=list)

    def say(self, column: str, sentence: str) -> None:
        assert column in COLUMNS, column
        self.faults.append((column, sentence))

    def count(self, column: str) -> int:
        return sum(1 for name, _ in self.faults if name == column)


async def check(ground: Ground, ledger: Ledger) -> Verdict:
    verdict = Verdict()
    verdict.faults += ledger.complaints
    rows = ground.records()
    records = {row["id"]: row for row in rows["responses"]}
    audit: dict[str, list[str]] = defaultdict(list)
    for entry in rows["audit"]:
        audit[entry["response_id"]].append(entry["action"])
    provider = defaultdict(list)
    for request in await ground.provider_requests():
        provider[request["text"]].append(request)
    ours = {rid for asked in ledger.asked for rid in asked.ids}
    for rid in records.keys() - ours:
        verdict.say("repeated", f"{rid}: a record that nobody was told of")
    for asked in ledger.asked:
        verdict.faults += asked.faults
        if len(asked.ids) != 1:
            verdict.say("repeated", f"{asked.tag}: one key, the ids {sorted(asked.ids)}")
            continue
        record = records.get(asked.rid)
        if record is None or record["status"] not in FINAL:
            said = "no record" if record is None else f"its record is {record['status']}"
            verdict.say("stuck" if record else "missing records", f"{asked.tag}: {said}")
            continue
        verdict.ends[f"{record['status']}/{record['reason'] or '-'}"] += 1
        end = verdict.ended[asked.tag] = _ended(record)
        _audit(verdict, asked, audit[asked.rid])
        _end(verdict, asked, end, ledger, provider[asked.script.ask(asked.tag)])
        _viewers(verdict, asked, record)
        await _log(verdict, asked, ground, ledger, record)
    await _snapshots(verdict, ledger, ground, records)
    await _leaks(verdict, ground, provider)
    return verdict


def _ended(record: dict[str, Any]) -> Ended:
    fold = json.loads(record["fold"])
    created, ended = (datetime.fromisoformat(record[at]) for at in ("created_at", "ended_at"))
    return Ended(
        status=record["status"],
        reason=record["reason"] or None,
        text=fold["text"],
        attempt=fold["attempt"],
        created_s=created.timestamp(),
        ended_s=ended.timestamp(),
    )


def _audit(verdict: Verdict, asked: Asked, actions: list[str]) -> None:
    for action in ("created", "ended"):
        if (times := actions.count(action)) != 1:
            column = "second ends" if times > 1 else "missing records"
            verdict.say(column, f"{asked.tag}: {times} audit entries {action!r}")
    # A stop after the end leaves no entry; two that are in time leave one.
    if actions.count("stopped") > 1:
        verdict.say("repeated", f"{asked.tag}: {actions.count('stopped')} audit entries 'stopped'")


def _end(
    verdict: Verdict, asked: Asked, end: Ended, ledger: Ledger, requests: list[dict[str, Any]]
) -> None:
    if sentence := wrong_end(asked, end, ledger.happened, TOTAL_S):
        verdict.say("wrong end", f"{asked.tag}: {sentence}")
    if (ahead_s := end.ended_s - time.time()) > CLOCKS_S:
        verdict.say("wrong end", f"{asked.tag}: it ended {ahead_s:.0f} s from now")
    sent = {n: request["deltas"] for n, request in enumerate(requests, 1)}
    verdict.faults += text_faults(asked, end, sent)
    for told in asked.stop_told:
        if told[0] in FINAL and told != (end.status, end.reason):
            verdict.say("wrong end", f"{asked.tag}: a stop was told {told}, it is {end}")
    # A worker that sleeps cannot close anything, and one that was cut off does not know yet.
    disturbed = near(ledger.happened, end.created_s, end.ended_s) - {Kind.WEB_KILL, Kind.WEB_TERM}
    for request in requests:
        late_s = (request["last_delta_unix_s"] or 0.0) - end.ended_s
        if end.status == "cancelled" and late_s > ZOMBIE_S and not disturbed:
            verdict.say("zombie tokens", f"{asked.tag}: sent {late_s:.2f} s after it was cancelled")


def _viewers(verdict: Verdict, asked: Asked, record: dict[str, Any]) -> None:
    fold = json.loads(record["fold"])
    for watch in asked.watches:
        verdict.faults += watch.faults
        if not watch.done:
            verdict.say("stuck", f"{watch.name} waits at {watch.cursor}; it is {record['status']}")
            continue
        if watch.missing:
            verdict.say("lost", f"{watch.name} never got {sorted(watch.missing)[:10]}")
        if watch.text != fold["text"]:
            sizes = f"{len(watch.text)} characters, recorded are {len(fold['text'])}"
            verdict.say("lost", f"{watch.name} has {sizes}")
        status = watch.ended["status"] if watch.ended else watch.told_status
        if status != record["status"]:
            verdict.say("wrong end", f"{watch.name} was told {status}, it is {record['status']}")


async def _log(
    verdict: Verdict, asked: Asked, ground: Ground, ledger: Ledger, record: dict[str, Any]
) -> None:
    """The log, if Redis still has it: numbers, one end, at its end; and who has claimed it when."""
    entries = await ground.direct.xrange(keys.log(asked.rid))
    events = [json.loads(entry["d"]) for _, entry in entries]
    seqs = [int(entry_id.partition("-")[0]) for entry_id, _ in entries]
    if seqs != list(range(1, len(seqs) + 1)) or seqs != [event["seq"] for event in events]:
        verdict.say("lost", f"{asked.tag}: its log is numbered {seqs[:5]} … {seqs[-5:]}")
    ends = [event["seq"] for event in events if event["type"] == "ended"]
    if len(ends) > 1:
        verdict.say("second ends", f"{asked.tag}: its log ends at {ends}")
    if events and ends != [events[-1]["seq"]]:
        verdict.say("after end", f"{asked.tag}: its log goes to {seqs[-1]}, its end is {ends}")
    if events and (events[-1]["seq"], len(events)) != (record["fold_seq"], record["fold_seq"]):
        verdict.say("lost", f"{asked.tag}: log to {seqs[-1]}, record to {record['fold_seq']}")
    # An epoch is the time of its claim in milliseconds (PROTOCOL 2.1). Without a log only the last
    # one is known: a rescue is dated too late then, never too early.
    epochs = {record["fold_epoch"], *(int(entry["e"]) for _, entry in entries)}
    claims_s = sorted(epoch / 1000 for epoch in epochs)
    ended_s = verdict.ended[asked.tag].ended_s
    for recovery in recoveries(asked.tag, asked.rid, claims_s, ended_s, ledger.happened):
        verdict.recoveries.append(recovery)
        if recovery.late and not recovery.second:
            sentence = (
                f"{asked.tag}: {recovery.took_s:.2f} s after {recovery.kind}, and nothing else"
            )
            verdict.say("over the bound", sentence)


async def _snapshots(
    verdict: Verdict, ledger: Ledger, ground: Ground, records: dict[str, Any]
) -> None:
    """The API says what the record says, in every web process."""
    final = [asked for asked in ledger.asked if len(asked.ids) == 1]
    final = [asked for asked in final if records.get(asked.rid, {}).get("status") in FINAL]
    async with ground.client() as client:
        for n, asked in enumerate(final):
            url = ground.urls[n % len(ground.urls)]
            said = (await client.get(f"{url}/api/responses/{asked.rid}")).json()
            if said != json.loads(records[asked.rid]["fold"]):
                verdict.say("wrong end", f"{asked.tag}: the API's snapshot is not the record's")


async def _leaks(verdict: Verdict, ground: Ground, provider: dict[str, Any]) -> None:
    for text, requests in provider.items():
        if any(request["state"] == "open" for request in requests):
            verdict.say("leaked connections", f"the provider still answers {text!r}")
    async for key in ground.direct.scan_iter("*", count=1000):
        if key not in NO_TTL and await ground.direct.ttl(key) == -1:
            verdict.say("leaked keys", f"{key} lives for ever")
    for job in await ground.jobs():
        verdict.say("leaked keys", f"a job that nobody does: {job}")
    for channel in await ground.channels():
        verdict.say("leaked connections", f"somebody still listens to {channel}")
    due = ground.redis_clients_due()
    for kind, clients in (await ground.redis_clients()).items():
        if len(clients) > due[kind] + SPARE_CLIENTS:
            sentence = f"Redis: {len(clients)} connections {kind}, {due[kind]} are due: {clients}"
            verdict.say("leaked connections", sentence)
