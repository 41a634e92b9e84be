"""The folder in which `manage.py dev` keeps everything: database, Valkey's files, secrets, logs.

One `dev` owns it at a time. The kernel gives the lock back when its owner dies, however it dies,
so a lock can never be stale.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote


class FolderInUse(Exception):
    """Another `dev` runs here. The text is what that one wrote about itself."""


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def __repr__(self) -> str:
        return f"<DataFolder {self.path}>"

    @property
    def database_url(self) -> str:
        return f"sqlite:///{quote(str(self.path / 'db.sqlite3'))}"

    @property
    def valkey(self) -> Path:
        return self.path / "valkey"

    def log(self, part: str) -> Path:
        return self.path / "logs" / f"{part}.log"

    @contextlib.contextmanager
    def owned(self, owner: str) -> Iterator[None]:
        """Make the folder and hold its lock. Raises FolderInUse.

        Args:
            owner: what a second `dev` will be told about this one.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        for sub in (self.valkey, self.path / "logs"):
            sub.mkdir(exist_ok=True)
        with (self.path / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise FolderInUse(lock.read().strip()) from None
            lock.truncate(0)
            lock.write(owner)
            lock.flush()
            yield

    def secret(self, name: str, *, length_bytes: int) -> str:
        """A random word that is made once, kept with mode 0600, and the same ever after."""
        path = self.path / name
        with contextlib.suppress(FileNotFoundError):
            path.chmod(0o600)
            if kept := path.read_text().strip():
                return kept
        word = secrets.token_urlsafe(length_bytes)
        self.write_private(path, word + "\n")
        return word

    @staticmethod
    def write_private(path: Path, text: str) -> None:
        """Replace a file whole; nobody else may read it at any moment."""
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        draft.replace(path)
