"""Real proxies in front of a site under test: nginx, HAProxy and Caddy as Debian packs them.

The files of deploy/ are taken as they are, but for addresses, names and certificates.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.ports import free_port
from tests.site import Proc
from tests.waiting import wait_until_sync

ROOT: Final = Path(__file__).resolve().parent.parent
DEPLOY: Final = ROOT / "deploy"
START_S: Final = 30.0
_SEARCHED: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
PACKAGES: Final = {
    "nginx": "nginx-light",
    "haproxy": "haproxy",
    "caddy": "caddy",
    "promtool": "prometheus",
}


def program(name: str) -> str:
    """Its path. A machine without it fails the test: `.ci/run` installs all of them."""
    found = shutil.which(name, path=_SEARCHED)
    assert found, f"this test needs {name}: apt-get install {PACKAGES.get(name, name)}"
    return found


def certificate(folder: Path) -> Path:
    """One PEM file with a key and a certificate for localhost, signed by itself."""
    pem = folder / "site.pem"
    if not pem.exists():
        key, cert = folder / "key.pem", folder / "cert.pem"
        command = [program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += [
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        command += ["-keyout", str(key), "-out", str(cert)]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        pem.write_text(cert.read_text() + key.read_text())
    return pem


def any_certificate() -> ssl.SSLContext:
    """For clients: theirs is signed by nobody."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Each pattern must be there: a file that has moved on must not be tested as it was."""
    for pattern, by in changes:
        text, count = re.subn(pattern, by, text)
        assert count, f"{pattern!r} is not in it any more"
    return text


class Proxy:
    """One proxy process; `url` is where clients go. `checks` is how it judges its own file."""

    def __init__(
        self, name: str, folder: Path, url: str, argv: list[str], checks: list[str]
    ) -> None:
        self.url = url
        self._checks = checks
        self._name, self._folder, self._argv = name, folder, argv
        self.port = int(url.rsplit(":", 1)[1])
        self._proc: Proc | None = None

    def __repr__(self) -> str:
        return f"<Proxy {self._name} {self.url}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        env = {"PATH": _SEARCHED, "HOME": str(self._folder)}
        self._proc = Proc(self._name, self._argv, env, self._folder / f"{self._name}.log")
        wait_until_sync(self._answers, f"{self!r} to listen", timeout=START_S)

    def _answers(self) -> bool:
        assert self._proc is not None
        assert self._proc.alive, self._proc.log
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def check(self) -> subprocess.CompletedProcess[str]:
        env = {"PATH": _SEARCHED, "HOME": str(self._folder)}
        return subprocess.run(
            self._checks, env=env, capture_output=True, text=True, timeout=30, check=False
        )

    def kill(self) -> None:
        """As in a crash. Safe to repeat."""
        if self._proc is not None:
            self._proc.kill()

    def send(self, number: signal.Signals) -> None:
        """To the process that was started alone: it knows what to do with its children."""
        assert self._proc is not None
        os.kill(self._proc.popen.pid, number)


def nginx(folder: Path, http: str, url: str, *, name: str = "nginx") -> Proxy:
    """With this http block."""
    own = folder / name
    own.mkdir()
    paths = "".join(
        f"{kind}_temp_path {own}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = own / "nginx.conf"
    user = "user root;\n" if os.getuid() == 0 else ""
    config.write_text(
        f"daemon off;\n{user}worker_processes 1;\npid {own}/pid;\nerror_log {own}/error.log;\n"
        f"events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{paths}{http}\n}}\n"
    )
    argv = [program("nginx"), "-p", str(own), "-c", str(config), "-e", f"{own}/error.log"]
    return Proxy(name, folder, url, argv, [*argv, "-t", "-q"])


def our_nginx(
    folder: Path, upstream: str, *changes: tuple[str, str], name: str = "nginx-ours"
) -> Proxy:
    """deploy/nginx.conf in front of `upstream`, perhaps changed for the worse."""
    pem, port = certificate(folder), free_port()
    http = changed(
        (DEPLOY / "nginx.conf").read_text(),
        *changes,
        (r"listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        (r"listen 80;", f"listen 127.0.0.1:{free_port()};"),
        (r"/etc/ssl/chat\.example\.org\.(?:pem|key)", str(pem)),
        (r"http://127\.0\.0\.1:8000", upstream),
        (r"chat\.example\.org", "localhost"),
    )
    return nginx(folder, http, f"https://localhost:{port}", name=name)


def default_nginx(folder: Path, upstream: str, *more: str, name: str = "nginx-default") -> Proxy:
    """As somebody writes it who only wants it to work."""
    port = free_port()
    http = (
        f"server {{ listen 127.0.0.1:{port}; {' '.join(more)}\n"
        f"location / {{ proxy_pass {upstream}; }} }}"
    )
    return nginx(folder, http, f"http://127.0.0.1:{port}", name=name)


def haproxy_config(
    folder: Path, upstream: str, port: int, plain_port: int, *changes: tuple[str, str]
) -> Path:
    text = changed(
        (DEPLOY / "haproxy.cfg").read_text(),
        *changes,
        (r"maxconn 8000", "maxconn 500"),
        (r"bind :443", f"bind 127.0.0.1:{port}"),
        (r"bind :80", f"bind 127.0.0.1:{plain_port}"),
        (r"/etc/ssl/chat\.example\.org\.pem", str(certificate(folder))),
        (r"127\.0\.0\.1:8000", upstream.removeprefix("http://")),
        (r"chat\.example\.org", "localhost"),
    )
    config = folder / f"haproxy-{port}.cfg"
    config.write_text(text)
    return config


def our_haproxy(
    folder: Path, upstream: str, *changes: tuple[str, str], name: str = "haproxy-ours"
) -> Proxy:
    """deploy/haproxy.cfg in front of `upstream`, perhaps changed for the worse."""
    port = free_port()
    config = haproxy_config(folder, upstream, port, free_port(), *changes)
    argv = [program("haproxy"), "-W", "-db", "-f", str(config)]
    checks = [program("haproxy"), "-c", "-f", str(config)]
    return Proxy(name, folder, f"https://localhost:{port}", argv, checks)


def caddy_config(folder: Path, upstream: str, port: int, *changes: tuple[str, str]) -> Path:
    pem = certificate(folder)
    text = changed(
        (DEPLOY / "Caddyfile").read_text(),
        *changes,
        (
            r"(?m)^\{\n",
            f"{{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n"
            f"\thttp_port {free_port()}\n\thttps_port {port}\n",
        ),
        (r"chat\.example\.org \{", f"https://localhost:{port} {{\n\ttls {pem} {pem}"),
        (r"127\.0\.0\.1:8000", upstream.removeprefix("http://")),
    )
    config = folder / f"Caddyfile-{port}"
    config.write_text(text)
    return config


def our_caddy(
    folder: Path, upstream: str, *changes: tuple[str, str], name: str = "caddy-ours"
) -> Proxy:
    """deploy/Caddyfile in front of `upstream`, perhaps changed for the worse."""
    port = free_port()
    config = caddy_config(folder, upstream, port, *changes)
    source = ["--adapter", "caddyfile", "--config", str(config)]
    argv = [program("caddy"), "run", *source]
    checks = [program("caddy"), "validate", *source]
    return Proxy(name, folder, f"https://localhost:{port}", argv, checks)
