"""The dashboard asks for what the service exports, and shows all of it."""

import json
import re
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from api.jobs_metrics import JobCollector
from api.jobs_running import JobFigures
from api.middleware import Metrics
from api.routes import elevenlabs, openai, speech
from store.jobs_types import STATES
from tests.unit.deploy.image_files import DEPLOY

BOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text("utf-8"))
# What Prometheus adds to every figure.
ADDED = {"instance", "job"}
_SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
_LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')


@pytest.fixture(scope="module")
def registry() -> CollectorRegistry:
    """All figures of a server; a label gets a value, since a figure whose labels have none is not exported."""
    metrics = Metrics()
    for metric in vars(metrics).values():
        if labels := getattr(metric, "_labelnames", ()):
            metric.labels(*labels)
    metrics.registry.register(JobCollector(JobFigures))
    return metrics.registry


@pytest.fixture(scope="module")
def labels(registry: CollectorRegistry) -> dict[str, set[str]]:
    """The labels of each exported name."""
    found: dict[str, set[str]] = {"up": set()}
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _expressions() -> Iterator[str]:
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_name_is_exported_with_the_labels_that_are_asked_for(labels: dict[str, set[str]]) -> None:
    for expression in _expressions():
        names = re.findall(r"\b(?:voicekin_\w+|up\b(?=\{))", expression)
        assert names and set(names) <= set(labels), expression
        for name, selector in _SELECTOR.findall(expression):
            assert set(_LABEL.findall(selector)) <= labels[name] | ADDED, expression
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
        assert grouped <= set.union(ADDED, *(labels[name] for name in names)), expression


def test_every_figure_is_shown(registry: CollectorRegistry) -> None:
    asked = " ".join(_expressions())
    for family in registry.collect():
        names = {sample.name for sample in family.samples if not sample.name.endswith("_created")}
        assert any(re.search(rf"\b{name}\b", asked) for name in names), f"{family.name} is not on the dashboard"


def test_the_values_of_labels_exist() -> None:
    asked = " ".join(_expressions())
    assert set(re.findall(r'state="(\w+)"', asked)) <= set(STATES)
    spoken = {route.path for module in (speech, openai, elevenlabs) for route in module.router.routes}
    patterns = {pattern for match in re.findall(r'route=~"([^"$]+)"', asked) for pattern in match.split("|")}
    assert patterns
    for pattern in patterns:
        assert any(re.fullmatch(pattern, path) for path in spoken), pattern


def test_panels_have_numbers_of_their_own_and_lie_beside_each_other() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert columns.stop <= 24 and not cells & taken, panel["title"]
        taken |= cells
