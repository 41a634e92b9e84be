"""`manage.py dev`: everything on one machine with one command.

Starts Valkey, the database, a small language model and the web server as children, waits until
each is ready, and stops them all on Ctrl-C, on SIGTERM, or when one of them dies.
"""

from __future__ import annotations

import os
import signal
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from chatapp.management.child import PartFailed, StopAsked
from chatapp.management.data_folder import DataFolder, FolderInUse
from chatapp.management.embedded import DRAIN_S, HOST, Embedded, free_port, require_free
from chatapp.management.engine import model_path
from chatapp.management.models_file import (
    BadModelsFile,
    Models,
    embedded_model,
    openai_model,
    read_models,
    to_toml,
)
from chatapp.management.prepare import DEMO_USER

ROOT = Path(__file__).resolve().parents[3]
WATCH_S = 0.2
# Longer than the web server's own limits: two seconds for viewers, three to drain.
GRACE_S = 10.0


class Stopping:
    """Counts how often somebody asked: once is a wish, twice is a hurry."""

    def __init__(self) -> None:
        self._once = threading.Event()
        self._twice = threading.Event()

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def asked(self) -> bool:
        return self._once.is_set()

    def in_a_hurry(self) -> bool:
        return self._twice.is_set()

    def wait(self, seconds: float) -> None:
        self._once.wait(seconds)

    def _on_signal(self, number: int, frame: object) -> None:
        (self._twice if self.asked() else self._once).set()


class Command(BaseCommand):
    help = "Start everything: Valkey, the database, a small language model, the web server."
    # The project is checked by the child that migrates, in the environment that it will have.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="0 chooses a free one")
        parser.add_argument(
            "--data", type=Path, default=ROOT / ".data", help="where everything is kept (.data)"
        )
        parser.add_argument(
            "--no-engine",
            action="store_false",
            dest="engine",
            help="no embedded model; use OPENAI_API_KEY or RELAY_MODELS",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        stopping = Stopping()
        stopping.install()
        folder = DataFolder(options["data"])
        port: int = options["port"] or free_port()
        embedded = Embedded(folder, root=ROOT, environ=os.environ, stop_asked=stopping.asked)
        try:
            with folder.owned(f"http://{HOST}:{port}/, process {os.getpid()}"):
                try:
                    self._start(embedded, folder, port, options["engine"])
                    self._watch(embedded, stopping)
                finally:
                    embedded.stop(grace_s=GRACE_S, hurry=stopping.in_a_hurry)
        except StopAsked:
            self.stdout.write("Stopped.")
        except FolderInUse as exc:
            raise CommandError(
                f"Unbroken already runs with {folder.path} ({exc}). "
                f"Stop it first, or give this one another --data and --port."
            ) from exc
        except (PartFailed, BadModelsFile) as exc:
            raise CommandError(f"{exc}\nEverything else was stopped.") from exc

    def _watch(self, embedded: Embedded, stopping: Stopping) -> NoReturn:
        """Until somebody asks (StopAsked) or a part dies (PartFailed)."""
        while not stopping.asked():
            embedded.raise_if_one_died()
            stopping.wait(WATCH_S)
        self.stdout.write("Stopping; again to stop at once.")
        self.stdout.flush()
        raise StopAsked

    def _start(self, embedded: Embedded, folder: DataFolder, port: int, engine: bool) -> None:
        require_free(port)
        if engine and model_path() is None:
            raise PartFailed(
                "the embedded model is not installed: run `make setup`, or start with --no-engine"
            )
        own, default = _own_models()
        wait_for_engine = embedded.start_engine() if engine else None
        redis_url = embedded.start_valkey()  # while the engine loads its model
        self._ready("valkey", "data loaded")
        models: Models = {}
        if wait_for_engine is not None:
            url = wait_for_engine()
            models |= embedded_model(url)
            self._ready("engine", url)
        models |= openai_model(os.environ) | own
        models_file = folder.path / "models.toml"
        models_file.write_text(to_toml(models, default))

        password = folder.secret("demo_password", length_bytes=9)
        embedded.set_environment(
            DJANGO_SETTINGS_MODULE="chatapp.settings",
            DATABASE_URL=folder.database_url,
            REDIS_URL=redis_url,
            SECRET_KEY=folder.secret("secret_key", length_bytes=48),
            RELAY_MODELS=str(models_file),
            RELAY_EMBEDDED="1",
            RELAY_DRAIN_S=os.environ.get("RELAY_DRAIN_S", str(DRAIN_S)),
            DEBUG="1",
        )
        for note in embedded.prepare_database(password):
            self.stdout.write(note)
        self._ready("database", "migrated")
        embedded.start_web(port)
        self._ready("web", f"models: {', '.join(models) or 'none, see --help'}")
        self.stdout.write(f"Open http://{HOST}:{port}/  user: {DEMO_USER}  password: {password}")
        self.stdout.write(f"Ctrl-C stops everything. Logs: {folder.path / 'logs'}")
        self.stdout.flush()

    def _ready(self, part: str, detail: str) -> None:
        self.stdout.write(f"{part:<9} ready  {detail}")
        self.stdout.flush()


def _own_models() -> tuple[Models, str | None]:
    path = os.environ.get("RELAY_MODELS")
    return read_models(Path(path)) if path else ({}, None)
