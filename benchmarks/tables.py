"""Tables made from results: they stand in a page between `<!-- table: NAME -->` and `<!-- end table -->`.

python -m benchmarks.tables          writes them
python -m benchmarks.tables --check  exits with 1 where a page differs from its results
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import engine_tables, server_tables, store_tables
from benchmarks.pages import by_device, head, result_of, row

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md", "voices/default/card.md", "docs/store.md", "docs/consent.md", "docs/gpu.md",
    "docs/decisions/0012-one-lane.md",
)  # fmt: skip
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end table -->)", re.DOTALL)
MEASURES = (
    ("words wrong (Whisper tiny.en)", "wer", "{:.1%}"),
    ("likeness to the enrolled vector (Resemblyzer)", "resemblyzer_enrolled", "{:.3f}"),
    ("likeness to clips not enrolled (Resemblyzer)", "resemblyzer_held_out", "{:.3f}"),
    ("likeness to clips not enrolled (CAM++, independent)", "campplus_held_out", "{:.3f}"),
    ("the same to other people (CAM++)", "campplus_others", "{:.3f}"),
    ("found among all test people (Resemblyzer)", "resemblyzer_rank1_enrolled", "{:.0%}"),
    ("found among all test people (CAM++)", "campplus_rank1_enrolled", "{:.0%}"),
    ("DNSMOS overall", "dnsmos_overall", "{:.2f}"),
    ("DistilMOS", "distilmos", "{:.2f}"),
    ("words a second", "words_per_s", "{:.2f}"),
)


def voice_quality() -> str:
    """The voice beside recordings of the same people, from `voices/default/report.json`."""
    report = json.loads((ROOT / "voices/default/report.json").read_text(encoding="utf-8"))
    clips = [str(n) for n in report["conditions"]["clips"]]
    lines = head("", *(f"{n} clip{'s' if n != '1' else ''}" for n in clips), "recordings")
    for title, name, form in MEASURES:
        recorded = report["recordings"][clips[-1]]["all"].get(name)
        spoken = [report["total"][n]["all"].get(name) for n in clips]
        if recorded and all(spoken):
            voice = (f"{form.format(c['value'])} ({form.format(c['low'])} to {form.format(c['high'])})" for c in spoken)
            lines += row(title, *voice, form.format(recorded["value"]))
    n = report["total"][clips[0]]["all"]["wer"]["n"]
    people = report["conditions"]["speakers"]
    return lines + (
        f"\n{report['date']}, {report['bundle']}, {people} people of the test split, "
        f"{n} sentences for each number of clips, 95 % intervals over people; `voicekin evaluate`.\n"
    )


def main_job() -> str:
    """Enrolment, speech and start, for each device that was measured."""
    lines, notes = head("", "device", "p50", "p95", "audio", "x real time (p50)"), []
    for device, result in by_device("main-job").items():
        enrol = result["enrolment"]
        lines += row(f"enrol {result['clip_s']} s", device, f"{enrol['p50_ms']} ms", f"{enrol['p95_ms']} ms", "", "")
        for name, run in result["speech"].items():
            title = f"speak {run['characters']} characters ({name})"
            figures = (f"{run['p50_ms']} ms", f"{run['p95_ms']} ms", f"{run['audio_s']} s", f"{run['x_realtime_p50']}")
            lines += row(title, device, *figures)
            if first := run.get("first_audio"):
                heard = (f"{first['p50_ms']} ms", f"{first['p95_ms']} ms", f"{first['first_piece_s']} s", "")
                lines += row(f"the same streamed, to its first sound ({name})", device, *heard)
        ready = sorted(result["start_to_ready_s"])
        lines += row("process start to ready", device, f"{ready[len(ready) // 2]} s", "", "", "")
        where = result["conditions"]
        notes.append(
            f"{device}: {where['date'][:10]}, {where['device']}, {where['cores']} threads, "
            f"torch {where['versions']['torch']}, {result['model']}, one request at a time, {enrol['n']} runs each"
        )
    return lines + "\n" + "; ".join(notes) + "; `python -m benchmarks.main_job`.\n"


def consent_voices() -> str:
    """How often a recorded statement is taken for its speaker's, by threshold."""
    result = result_of("consent-checks.json")
    voices = result["voices"]
    lines = head("least cosine", "a person's own clip refused", "people of whom one of two clips is refused",
                 "a stranger's clip accepted")  # fmt: skip
    for threshold, found in voices["thresholds"].items():
        names = ("false_rejects", "people_refused", "false_accepts")
        lines += row(threshold, *(f"{found[name]:.1%}" for name in names))
    return lines + (
        f"\n{_measured(result)}, {voices['n_own']} pairs of one person's clips and "
        f"{voices['n_strangers']} of two people's; `python -m benchmarks.consent_checks`.\n"
    )


def protected_voices() -> str:
    """How many protected people are recognised, and how many others refused with them, by threshold."""
    result = result_of("consent-checks.json")
    sizes = next(iter(result["protected"].values()))["strangers_refused_by_a_list_of"]
    heads = (f"a stranger refused by a list of {size}" for size in sizes)
    lines = head("cosine", "protected person refused", *heads)
    for threshold, found in result["protected"].items():
        shares = found["strangers_refused_by_a_list_of"].values()
        lines += row(threshold, f"{found['caught']:.1%}", *(f"{share:.1%}" for share in shares))
    return lines + f"\n{_measured(result)}; `python -m benchmarks.consent_checks`.\n"


def consent_words() -> str:
    """How well a recogniser tells the sentence from another, by the share of words that may be wrong."""
    result = result_of("consent-checks.json")
    words = result["words"]
    lines = head("wrong words allowed", "own sentence refused", "other sentence accepted")
    for limit, found in words["limits"].items():
        lines += row(f"{float(limit):.0%}", f"{found['own_refused']:.1%}", f"{found['other_text_accepted']:.1%}")
    return lines + (
        f"\n{result['date'][:10]}, {words['n_clips']} clips of as many people, wrong words in the mean "
        f"{words['own_mean']:.1%}; `python -m benchmarks.consent_checks`.\n"
    )


TABLES: dict[str, Callable[[], str]] = {
    "voice-quality": voice_quality,
    "main-job": main_job,
    "consent-voices": consent_voices,
    "protected-voices": protected_voices,
    "consent-words": consent_words,
    **engine_tables.tables(),
    **server_tables.tables(),
    **store_tables.tables(),
}


def filled(page: str) -> str:
    """A page with every table that is known here made anew."""

    def replace(match: re.Match[str]) -> str:
        table = TABLES.get(match.group(2))
        return match.group(1) + table() + match.group(3) if table else match.group(0)

    return MARKED.sub(replace, page)


def main() -> None:
    """Writes the tables, or checks them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    stale = []
    for name in PAGES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = filled(before)
        if before != after:
            stale.append(name)
            if not check:
                path.write_text(after, encoding="utf-8")
    if check and stale:
        sys.exit(f"not up to date with their results: {', '.join(stale)}; run python -m benchmarks.tables")


def _measured(result: dict[str, Any]) -> str:
    return (
        f"{result['date'][:10]}, {result['device']}, {result['n_speakers']} training speakers, `{result['encoder_id']}`"
    )


if __name__ == "__main__":
    main()
