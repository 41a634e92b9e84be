"""Run the scripted provider as a process; it says where it listens."""

from __future__ import annotations

import argparse
import asyncio
import contextlib

from tests.scripted import ScriptedUpstream


async def main(port: int) -> None:
    async with ScriptedUpstream(port=port) as upstream:
        print(f"listening on {upstream.url}", flush=True)
        await asyncio.Event().wait()


parser = argparse.ArgumentParser(description="A provider that does what it is told.")
parser.add_argument("--port", type=int, default=0)
with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(parser.parse_args().port))
