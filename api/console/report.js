// The report of an enrolment, for people: what was heard, how good it is, and what would be better.

import { sentence } from "./api.js";
import { h } from "./dom.js";
import { count, likeness, seconds } from "./words.js";
import { waveform } from "./waveform.js";

/** The report. `waves` are the pictures of its clips where they are at hand, `near` the voices that sound the same. */
export function reportView(report, { waves = [], near = [] } = {}) {
  const general = report.notices.filter((notice) => notice.clip === null);
  return h(
    "section",
    { class: "report", "aria-label": "Report" },
    h("dl", { class: "facts large" }, ...figures(report).map(fact)),
    ...general.map(noticeView),
    near.length ? nearView(near) : null,
    h("ol", { class: "clips" }, ...report.clips.map((clip) => clipView(clip, report, waves[clip.index]))),
  );
}

function figures(report) {
  const found = [
    ["Speech used", seconds(report.used_s)],
    ["Steadiness", `${report.coherence.toFixed(2)}, ${steadiness(report.coherence)}`],
    ["Clips", String(report.clips.length)],
  ];
  if (report.suspected_speakers > 1) found.push(["Voices", "more than one?"]);
  return found;
}

const fact = ([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value));

const noticeView = (notice) => h("p", { class: "note" }, sentence(notice.message));

function steadiness(coherence) {
  const steps = [
    [0.92, "one steady voice"],
    [0.85, "steady"],
    [0.75, "it varies"],
  ];
  return steps.find(([from]) => coherence >= from)?.[1] ?? "it varies much";
}

function nearView(near) {
  const others = near.flatMap((match, index) => [
    index ? ", " : "",
    h("a", { href: `#/speakers/${match.speaker_id}` }, match.name),
    ` (${match.cosine.toFixed(2)})`,
  ]);
  return h(
    "p",
    { class: "note" },
    "Sounds the same as: ",
    ...others,
    ". It may be the same person, or a stranger who sounds alike.",
  );
}

function clipView(clip, report, wave) {
  const notices = report.notices.filter((notice) => notice.clip === clip.index);
  const spans_s = clip.voiced_spans_s?.length ? clip.voiced_spans_s : null;
  const title = report.clips.length > 1 ? `Clip ${clip.index + 1}` : "The clip";
  return h(
    "li",
    {},
    h("h3", {}, title),
    waveform(wave?.peaks, clip.duration_s, spans_s),
    h(
      "p",
      { class: "legend" },
      h("span", { class: "swatch" }),
      ` speech that is used, ${seconds(clip.voiced_s)} of ${seconds(clip.duration_s)}`,
    ),
    h("dl", { class: "facts" }, ...clipFigures(clip, report).map(fact)),
    ...notices.map(noticeView),
  );
}

function clipFigures(clip, report) {
  const found = [
    ["Level", `${clip.level_dbfs.toFixed(0)} dBFS`],
    ["Above the noise", clip.snr_db === null ? "no pause to measure" : `${clip.snr_db.toFixed(0)} dB`],
    ["Reaches", `${(clip.bandwidth_hz / 1000).toFixed(1)} kHz`],
    [
      "File",
      `${[...new Set(clip.container.split("/"))].join(", ")}, ${(clip.source_sample_rate / 1000).toLocaleString("en")} kHz, ${count(clip.channels, "channel")}`,
    ],
  ];
  if (report.clips.length > 1)
    found.push(["Likeness to the others", `${clip.cosine_to_mean.toFixed(2)}, ${likeness(clip.cosine_to_mean)}`]);
  return found;
}
