"""Compose, Prometheus, Grafana, nginx and systemd name files, services and settings that exist."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.settings import PREFIX, Settings
from tests.unit.deploy.image_files import DEPLOY, ROOT, environment

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
NGINX = (DEPLOY / "nginx.conf").read_text("utf-8")
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
NAMING_SETTINGS = sorted([*PAGES, *(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc")])
UNIT = (DEPLOY / "voicekin.service").read_text("utf-8")


def _default(name: str) -> Any:
    return Settings.model_fields[name].default


def _directive(name: str) -> str:
    (value,) = re.findall(rf"^\s*{name}\s+([^;]+);", NGINX, re.MULTILINE)
    return str(value)


def _seconds(words: str) -> float:
    return float(words.removesuffix("s"))


def _mounts(service: str) -> dict[str, str]:
    """Where in the service's container each source is seen."""
    parts = [mount.split(":") for mount in SERVICES[service].get("volumes", ())]
    return {target: source for source, target, *_ in parts}


@pytest.mark.parametrize("path", NAMING_SETTINGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_setting_that_is_named_exists(path: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(r"\bVOICEKIN_[A-Z_]+", path.read_text("utf-8"))) <= known


def test_compose_names_files_volumes_networks_and_services_that_exist() -> None:
    for name, service in SERVICES.items():
        if build := service.get("build"):
            context = DEPLOY / build["context"]
            assert context.resolve() == ROOT and (context / build["dockerfile"]).is_file()
        for source in _mounts(name).values():
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"], source
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_every_service_is_watched_and_what_waits_for_health_finds_some() -> None:
    for name, service in SERVICES.items():
        assert name == "migrate" or service["restart"] == "unless-stopped"
        for other, terms in service.get("depends_on", {}).items():
            has_check = "test" in SERVICES[other].get("healthcheck", {})
            assert terms["condition"] != "service_healthy" or has_check, (name, other)


def test_the_variant_for_cuda_changes_services_that_exist() -> None:
    variant = yaml.safe_load((DEPLOY / "compose.cuda.yaml").read_text("utf-8"))["services"]
    ours = {name for name, service in SERVICES.items() if "build" in service}
    assert set(variant) == ours
    for service in variant.values():
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_secrets_are_asked_for_and_none_is_in_the_repository() -> None:
    example = dict(
        line.split("=", 1) for line in (DEPLOY / "env.example").read_text("utf-8").splitlines() if line[:1] not in "#"
    )
    asked = re.findall(r"\$\{(\w+)(:[?-])?", (DEPLOY / "compose.yaml").read_text("utf-8"))
    assert {name for name, _ in asked} == set(example)
    required = {name for name, operator in asked if operator == ":?"}
    assert required == {"POSTGRES_PASSWORD", "VOICEKIN_ADMIN_KEY", "GRAFANA_PASSWORD"}
    assert {example[name] for name in required} == {""}
    assert "/deploy/.env" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_our_containers_write_their_state_and_nothing_else() -> None:
    state = environment("Dockerfile")["VOICEKIN_STATE_DIR"]
    for name in ("migrate", "voicekin"):
        service = SERVICES[name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert list(_mounts(name)) == [state]
        assert [place.split(":")[0] for place in service["tmpfs"]] == ["/tmp"]


def test_prometheus_and_grafana_find_each_other() -> None:
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text("utf-8"))
    (found,) = prometheus["scrape_configs"][0]["dns_sd_configs"]
    assert set(found["names"]) <= set(SERVICES) and str(found["port"]) == environment("Dockerfile")["VOICEKIN_PORT"]
    config = next(word.split("=")[1] for word in SERVICES["prometheus"]["command"] if word.startswith("--config.file"))
    assert _mounts("prometheus")[config] == "./prometheus.yaml"

    (source,) = yaml.safe_load((DEPLOY / "grafana" / "datasource.yaml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["isDefault"]
    (provider,) = yaml.safe_load((DEPLOY / "grafana" / "provider.yaml").read_text("utf-8"))["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(provider["options"]["path"])
    assert _mounts("grafana")[home] == "./grafana/dashboard.json"


def test_requests_are_finished_before_a_server_is_killed() -> None:
    (unit,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    for given_s in (float(unit), _seconds(SERVICES["voicekin"]["stop_grace_period"])):
        assert given_s > _default("drain_s") + 10


def test_nginx_takes_what_the_service_takes_and_waits_as_long() -> None:
    size = _directive("client_max_body_size")
    assert size.endswith("m") and int(size.removesuffix("m")) * 2**20 == _default("max_upload_bytes")
    assert _seconds(_directive("proxy_read_timeout")) > _default("request_timeout_s")
    assert _directive("proxy_buffering") == "off"


def test_the_unit_is_understood_by_systemd(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    program = re.findall(r"^ExecStart=(\S+)", UNIT, re.MULTILINE)[0]
    here = tmp_path / "voicekin"
    here.write_text("#!/bin/sh\n")
    here.chmod(0o755)
    unit = tmp_path / "voicekin.service"
    unit.write_text(UNIT.replace(program, str(here)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
