#!/usr/bin/env python3
"""Launch this project for a measurement: set up a site, start a Valkey, become the web server.

    serve_ours.py --port 21100 --upstream http://127.0.0.1:21001 --work FOLDER

The API key is in FOLDER/marks.json once the server answers. Valkey is a child of this process,
which then turns into uvicorn, so both are one process tree and both are counted.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import signal
import subprocess

from ours import Site, answers_ping, free_port, valkey_argv, wait_until

PR_SET_PDEATHSIG = 1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()

    store_port = free_port()
    site = Site(
        args.work,
        upstream=args.upstream,
        redis_url=f"unix://{pathlib.Path(args.work).resolve()}/socket?db=0",
    )
    libc = ctypes.CDLL(None)
    with (site.work / "valkey.log").open("ab") as log:
        valkey = subprocess.Popen(
            valkey_argv(store_port, site.work),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            # Whoever kills the web server has then ended its Valkey as well.
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )
    try:
        wait_until("valkey", lambda: answers_ping(store_port), [valkey])
        site.prepare()
        argv = site.web_argv(args.port)
    except BaseException:
        valkey.kill()
        raise
    os.execve(argv[0], argv, site.web_environment())  # noqa: S606


if __name__ == "__main__":
    main()
