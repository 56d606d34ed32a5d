"""Figures of jobs for scrapers, read from memory."""

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from api.jobs_running import JobFigures
from store.jobs_types import STATES


class JobCollector(Collector):
    """Jobs by state, and what this process spoke of them."""

    def __init__(self, figures: Callable[[], JobFigures | None]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures() or JobFigures()
        states = GaugeMetricFamily("voicekin_jobs", "Jobs by state, of all servers of the database", labels=["state"])
        ended = CounterMetricFamily("voicekin_jobs_ended", "Jobs that this server ended", labels=["state"])
        for state in STATES:
            states.add_metric([state], figures.by_state.get(state, 0))
            ended.add_metric([state], figures.ended[state])
        yield states
        yield ended
        words = "Seconds of speech that this server made for jobs"
        yield CounterMetricFamily("voicekin_job_audio_seconds", words, value=figures.spoken_s)
