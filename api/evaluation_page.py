"""A report of `voicekin evaluate` as one self-contained page: tables, plots, players, failures."""

import base64
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from api.audio_out import encode, find_format

if TYPE_CHECKING:
    from cloning.training.evaluation import Sound

MAX_SOUND_BYTES = 2_200_000
BIT_RATE = 24_000
WIDTH, ROW, LEFT, RIGHT = 720, 18, 130, 20
COLOURS = {"voice": "#c2410c", "recordings": "#1d4ed8"}
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2937}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #d1d5db;padding:.25rem .6rem;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}small{color:#6b7280}audio{height:2rem;width:16rem}"
    "svg text{font:11px system-ui,sans-serif;fill:#374151}"
)
# What a reader should know about a figure, by the end of its name.
MEANINGS = {
    "wer": "word error rate", "cer": "character error rate", "failed": "share of utterances with a failure",
    "words_per_s": "words a second of speech", "f0_hz": "median pitch, Hz",
    "f0_error_semitones": "distance of the median pitch to the person's, semitones", "duration_s": "length, s",
    "outside_share": "share of the power outside the band of speech",
    "dnsmos_overall": "DNSMOS, overall", "dnsmos_speech": "DNSMOS, speech", "dnsmos_background": "DNSMOS, background",
    "distilmos": "DistilMOS", "enrolled": "cosine to the enrolled clips", "held_out": "cosine to the held-out clips",
    "others": "cosine to other people", "rank1_enrolled": "rank 1 among the enrolled",
    "rank1_held_out": "rank 1 among held-out clips",
}  # fmt: skip


def page(report: Mapping[str, Any], sounds: "Sequence[Sound]") -> str:
    """The page of a report; sounds beyond 2.2 MB are left out, failures last."""
    counts = list(report["total"])
    shown = counts[len(counts) // 2]
    parts = [
        f"<h1>Voice {escape(str(report['bundle']))}</h1>",
        _conditions(report),
        "<h2>Figures</h2>",
        *(_figures(report, scope) for scope in report["total"][shown]),
        f"<h2>Speakers, enrolled from {escape(shown)} clip(s)</h2>",
        *(_plot(report, shown, name) for name in _plotted(report, shown)),
        "<h2>Listen</h2>",
        _players(sounds),
        "<h2>Failures</h2>",
        _failures(report),
    ]
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>Voice report</title><style>{STYLE}</style>" + (
        "\n".join(parts) + "</html>\n"
    )


def _conditions(report: Mapping[str, Any]) -> str:
    rows = {"date": report["date"], "device": report["device"], **report["conditions"], "versions": report["versions"]}
    lines = (f"<tr><th>{escape(name)}<td>{escape(_words(value))}" for name, value in rows.items())
    return f"<table>{''.join(lines)}</table>"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _figures(report: Mapping[str, Any], scope: str) -> str:
    """One table: a row for each figure, a column for each number of clips, voice and recordings."""
    columns = [(part, n) for part in ("total", "recordings") for n in report[part]]
    titles = {"total": "voice", "recordings": "recordings"}
    head = "".join(f"<th>{titles[part]}, {escape(n)} clip(s)" for part, n in columns)
    names = dict.fromkeys(name for part, n in columns for name in report[part][n].get(scope, {}))
    rows = (
        f"<tr><td>{escape(_meaning(name))}" + "".join(_cell(report[p][n].get(scope, {}).get(name)) for p, n in columns)
        for name in names
    )
    caption = "all speakers" if scope == "all" else scope
    return f"<h3>{escape(caption)}</h3><table><tr><th>{head}</tr>{''.join(rows)}</table>"


def _cell(figure: Mapping[str, float] | None) -> str:
    if figure is None:
        return "<td>"
    return f"<td class=n>{figure['value']:.3f} <small>{figure['low']:.3f} to {figure['high']:.3f}</small>"


def _meaning(name: str) -> str:
    if name in MEANINGS:
        return MEANINGS[name]
    judge, _, rest = name.partition("_")
    return f"{judge}: {MEANINGS.get(rest, rest)}"


def _plotted(report: Mapping[str, Any], shown: str) -> list[str]:
    names = report["total"][shown]["all"]
    return [n for n in ("wer", "resemblyzer_held_out", "campplus_held_out", "dnsmos_overall", "f0_hz") if n in names]


def _plot(report: Mapping[str, Any], shown: str, name: str) -> str:
    """A line for each speaker: the voice's figure and that of the speaker's recordings."""
    people = [p for p in report["speakers"] if str(p["clips"]) == shown]
    values = [[(part, p[part][name]) for part in COLOURS if name in p[part]] for p in people]
    known = [value for pairs in values for _, value in pairs]
    low, high = min(0.0, *known), max(known) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    marks = []
    for row, (person, pairs) in enumerate(zip(people, values, strict=True)):
        y = 24 + row * ROW
        marks.append(f"<text x=0 y={y + 4}>{escape(person['speaker'])}</text>")
        marks.append(f'<line x1={LEFT} x2={WIDTH - RIGHT} y1={y} y2={y} stroke="#e5e7eb" />')
        for part, value in pairs:
            x = LEFT + (value - low) * scale
            title = f"<title>{part} {value:.3f}</title>"
            marks.append(f'<circle cx={x:.1f} cy={y} r=5 fill="{COLOURS[part]}">{title}</circle>')
    axis = f"<text x={LEFT} y=10>{low:.2f}</text><text x={WIDTH - RIGHT - 24} y=10>{high:.2f}</text>"
    legend = " ".join(f'<span style="color:{colour}">● {part}</span>' for part, colour in COLOURS.items())
    size = f"width={WIDTH} height={24 + len(people) * ROW}"
    return f"<h3>{escape(_meaning(name))}</h3><p>{legend}</p><svg {size}>{axis}{''.join(marks)}</svg>"


def _players(sounds: "Iterable[Sound]") -> str:
    rows, spent = [], 0
    for sound in sorted(sounds, key=lambda s: (bool(s.utterance.hearing.failures), s.utterance.speaker)):
        data = base64.b64encode(_opus(sound)).decode()
        spent += len(data)
        if spent > MAX_SOUND_BYTES:
            break
        said = sound.utterance
        kind = "recording" if said.recorded else f"voice, {said.used_clips} clip(s)"
        player = f'<audio controls preload=none src="data:audio/ogg;base64,{data}"></audio>'
        heard = f"{escape(said.text)}<br><small>heard: {escape(said.hearing.heard)}</small>"
        rows.append(f"<tr><td>{escape(said.speaker)}<td>{kind}<td>{player}<td>{heard}")
    return f"<table>{''.join(rows)}</table>"


def _opus(sound: "Sound") -> bytes:
    return encode(sound.samples, sound.sample_rate, dataclasses.replace(find_format("opus"), bit_rate=BIT_RATE))


def _failures(report: Mapping[str, Any]) -> str:
    failed = [u for u in report["utterances"] if u["hearing"]["failures"]]
    if not failed:
        return "<p>None.</p>"
    rows = (
        f"<tr><td>{escape(u['speaker'])}<td>{'recording' if u['recorded'] else 'voice'}<td>{u['n_clips']}"
        f"<td>{escape(u['text'])}<td>{escape(u['hearing']['heard'])}<td>{escape('; '.join(u['hearing']['failures']))}"
        for u in failed
    )
    head = "<tr><th>speaker<th>kind<th>clips<th>text<th>heard<th>why"
    return f"<p>{len(failed)} of {len(report['utterances'])}.</p><table>{head}{''.join(rows)}</table>"
