// The picture of a clip: its loudness as bars, and where the server heard speech.

import { h } from "./dom.js";
import { count, seconds } from "./words.js";

const BARS = 180;
const MOST_DECODED_BYTES = 12e6;
// Enough for a picture, and 30 minutes stay small.
const PICTURE_RATE_HZ = 8000;

/** The loudest sample of each of many equal stretches, 0 to 1; null where this browser cannot read the file. */
export async function peaksOf(blob) {
  if (!("OfflineAudioContext" in window) || blob.size > MOST_DECODED_BYTES) return null;
  try {
    const audio = await new OfflineAudioContext(1, 1, PICTURE_RATE_HZ).decodeAudioData(await blob.arrayBuffer());
    return { peaks: peaks(audio.getChannelData(0)), duration_s: audio.duration };
  } catch {
    return null;
  }
}

function peaks(samples) {
  const size = Math.max(1, samples.length / BARS);
  const found = new Array(BARS).fill(0);
  for (let index = 0; index < samples.length; index += 1) {
    const bar = Math.min(BARS - 1, Math.floor(index / size));
    found[bar] = Math.max(found[bar], Math.abs(samples[index]));
  }
  const most = Math.max(...found, 1e-4);
  return found.map((value) => value / most);
}

/** The picture of a clip. `spans_s` are its voiced stretches; null where they are not known yet. */
export function waveform(peaks, duration_s, spans_s = null) {
  const bars = peaks ?? [];
  const voiced = (at_s) => spans_s === null || spans_s.some(([start, stop]) => start <= at_s && at_s < stop);
  const paths = { voiced: "", unvoiced: "" };
  bars.forEach((peak, index) => {
    const height = Math.max(0.03, peak) * 46;
    const middle = ((index + 0.5) / BARS) * duration_s;
    paths[voiced(middle) ? "voiced" : "unvoiced"] += `M${index * 4 + 2} ${50 - height}V${50 + height}`;
  });
  const marks = (spans_s ?? []).map(([start, stop]) => band(start / duration_s, (stop - start) / duration_s));
  const shapes = Object.entries(paths).map(([kind, d]) => h("svg:path", { class: kind, d }));
  const view = { viewBox: `0 0 ${BARS * 4} 100`, preserveAspectRatio: "none" };
  return h(
    "svg:svg",
    { class: peaks ? "waveform" : "waveform flat", role: "img", "aria-label": told(duration_s, spans_s), ...view },
    ...marks,
    ...shapes,
  );
}

const band = (from, width) =>
  h("svg:rect", { class: "span", x: from * BARS * 4, y: 0, width: width * BARS * 4, height: 100 });

function told(duration_s, spans_s) {
  if (spans_s === null) return `Waveform, ${seconds(duration_s)}`;
  const spoken_s = spans_s.reduce((sum, [start, stop]) => sum + stop - start, 0);
  return `Waveform, ${seconds(duration_s)}, with ${seconds(spoken_s)} of speech in ${count(spans_s.length, "part")}`;
}
