"""The audit chain at size: how fast entries are sealed and verified, and that one byte is found.

python -m tests.bench.audit [--entries 5000000]      (or make bench-audit)

Starts a PostgreSQL of its own (tests/postgres.py: nothing is synced to the disk), fills the trail by
INSERT … SELECT, seals it as the sweep does, verifies it as `audit_verify` does, changes one byte in
the middle as somebody with the database's password would, and verifies again. About 1 KB of disk an
entry, given back at the end. Prints one line of JSON; `…_per_cpu_s` counts what this process and
PostgreSQL's used, whatever else the machine did.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from io import StringIO
from typing import Any

import psutil

from tests.postgres import PrivatePostgres

BYTES_PER_ENTRY = 1_200
FILL = """
    INSERT INTO chatapp_auditevent (at, actor, action, response_id, username, model, status, detail)
    SELECT now() - (%(count)s - n) * interval '1 second' / 50, CASE n %% 2 WHEN 0 THEN 'user' || n %% 5000 ELSE '' END,
           CASE n %% 2 WHEN 0 THEN 'created' ELSE 'ended' END, 'resp_0_' || md5((n / 2)::text), 'user' || n %% 5000,
           'gpt-' || n %% 7, CASE n %% 2 WHEN 0 THEN 'queued' ELSE 'completed' END,
           jsonb_build_object('seq', n %% 900, 'input_tokens', n %% 3000, 'output_tokens', n %% 800, 'worker', 'host-1:4242',
                              'finish_reason', 'stop', 'content_sha256', encode(sha256(n::text::bytea), 'hex'))
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=5_000_000)
    count = parser.parse_args().entries
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 2 * count * BYTES_PER_ENTRY:
        sys.exit(
            f"{count} entries want {2 * count * BYTES_PER_ENTRY >> 30} GiB free; there are {free >> 30}."
        )
    server = PrivatePostgres()
    try:
        server.start()
        os.environ.update(
            {"DATABASE_URL": server.url, "DEBUG": "0", "DJANGO_SETTINGS_MODULE": "chatapp.settings"}
        )
        print(json.dumps(measure(count)))
    finally:
        server.close()
    return 0


def measure(count: int) -> dict[str, Any]:
    import django

    django.setup()
    from django.core.management import CommandError, call_command
    from django.db import connection

    from chatapp.services.sealing import BATCH, seal_batch
    from chatapp.services.verifying import verification

    call_command("migrate", verbosity=0)
    out: dict[str, Any] = {"entries": count, "entries_per_seal": BATCH}
    began = time.monotonic()
    with connection.cursor() as cursor:
        for first in range(1, count + 1, 500_000):
            cursor.execute(
                FILL, {"count": count, "first": first, "last": min(first + 499_999, count)}
            )
            say(f"{min(first + 499_999, count)} entries after {time.monotonic() - began:.0f} s")
        cursor.execute("ANALYZE chatapp_auditevent")
    out["insert_per_s"] = round(count / (time.monotonic() - began))

    seal: Any = seal_batch.__wrapped__  # type: ignore[attr-defined]
    began, sealed = time.monotonic(), 0
    while more := seal():
        sealed += more
    out["seal_per_s"] = round(sealed / (time.monotonic() - began))
    out["sealed"] = sealed
    say(f"sealed {sealed}")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(cursor.fetchone()[0])

    def cpu_s() -> float:
        return time.process_time() + sum(backend.cpu_times()[:2])

    began, used = time.monotonic(), cpu_s()
    with verification() as check:
        assert list(check.findings()) == []
    out["verify_per_s"] = round(check.verified / (time.monotonic() - began))
    out["verify_per_cpu_s"] = round(check.verified / (cpu_s() - used))
    out["verified"] = check.verified
    out["verify_grew_mib"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    say(f"verified {check.verified}: {out['verify_per_s']} a second")

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_total_relation_size('chatapp_auditevent'), pg_total_relation_size('chatapp_auditseal')"
        )
        out["trail_bytes_per_entry"], out["seals_bytes_per_entry"] = (
            round(size / count, 1) for size in cursor.fetchone()
        )
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE chatapp_auditevent SET username = overlay(username placing 'x' from 2) WHERE id = %s",
            [count // 2],
        )
    told = StringIO()
    try:
        call_command("audit_verify", stdout=told)
    except CommandError:
        out["flipped"], out["found"] = count // 2, told.getvalue().splitlines()[0]
    return out


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
