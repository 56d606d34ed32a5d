// The section that speaks: one voice, or two of them to compare.

import { askJson, serverLimits, wordsOf } from "./api.js";
import { announce, button, field, h, heading } from "./dom.js";
import { Picker } from "./picker.js";
import { Take } from "./take.js";
import { count, times } from "./words.js";

const SAMPLE = "Good morning. This is a voice that was heard for a few seconds, and now it can say anything you write.";
const FIELDS = { text: "text", seed: "seed", speed: "speed", speaker_id: "voice", language: "text", format: "format" };
const OF_TEXT = new Set(["nothing_to_say", "text_too_long", "bad_markup", "language_unsupported", "too_large"]);

/** Builds the section; gives what ends it. */
export async function open(root, parameters) {
  const panel = new SpeakPanel();
  root.append(
    heading("Speak", "Choose a voice and write. You hear the beginning while the rest is still being spoken."),
    panel.form,
    panel.takes,
  );
  root.addEventListener("newkey", (event) => {
    event.preventDefault();
    if (!panel.voices[0].chosen) panel.start(parameters);
  });
  await panel.start(parameters);
  return () => panel.close();
}

class SpeakPanel {
  constructor() {
    this.shown = [];
    this.voices = [new Picker("Voice"), new Picker("Second voice")];
    this.voices[1].root.hidden = true;
    this.fields = makeFields();
    this.fields.voice = this.voices[0].field;
    this.compare = button("Compare with another voice", () => this.setCompare(this.voices[1].root.hidden), {
      "aria-expanded": "false",
    });
    this.go = h("button", { class: "primary" }, "Speak");
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.takes = h("section", { class: "takes", "aria-label": "Speech" });
    this.form = h(
      "form",
      { class: "panel", novalidate: "", on: { submit: (event) => this.submit(event) } },
      ...this.layout(),
    );
  }

  layout() {
    const { text, speed, seed, format } = this.fields;
    return [
      h("div", { class: "columns" }, this.voices[0].root, this.voices[1].root),
      text.root,
      h("div", { class: "columns three" }, speed.root, seed.root, format.root),
      this.problem,
      h("div", { class: "row" }, this.go, this.compare),
    ];
  }

  async start({ voice }) {
    this.problem.hidden = true;
    try {
      const limits = await serverLimits();
      this.fields.limit(limits.max_text_chars);
      this.fields.format.control.replaceChildren(...Object.keys(limits.formats).map((name) => h("option", {}, name)));
      const anyone = await this.voices[0].start();
      if (voice) this.voices[0].choose(await askJson("GET", `v1/speakers/${encodeURIComponent(voice)}`), false);
      if (!anyone) this.fail("Nobody is enrolled yet. Enrol a voice first, then come back.");
    } catch (error) {
      this.fail(wordsOf(error));
    }
  }

  async setCompare(two) {
    this.voices[1].root.hidden = !two;
    this.compare.textContent = two ? "Only one voice" : "Compare with another voice";
    this.compare.setAttribute("aria-expanded", String(two));
    if (!two || this.voices[1].chosen) return;
    const first = this.voices[0].chosen?.speaker_id;
    await this.voices[1]
      .start((speakers) => speakers.find((each) => each.speaker_id !== first))
      .catch((error) => this.fail(wordsOf(error)));
  }

  async submit(event) {
    event.preventDefault();
    if (this.busy) return this.shown.forEach((take) => take.stop());
    this.clear();
    const speakers = this.voices.filter((voice) => !voice.root.hidden).map((voice) => voice.chosen);
    if (speakers.includes(null)) return this.fail("Choose a voice.", "voice");
    if (!/^\d*$/.test(this.fields.seed.control.value.trim()))
      return this.fail("Give a whole number, or leave it empty.", "seed");
    if (!this.fields.text.control.value.trim()) return this.fail("Write what is to be said.", "text");
    this.shown = speakers.map((speaker) => new Take(speaker.name));
    this.takes.replaceChildren(...this.shown.map((take) => take.root));
    this.takes.classList.toggle("pair", this.shown.length > 1);
    announce("Speaking.");
    this.setBusy(true);
    await this.speak(speakers);
    this.setBusy(false);
  }

  setBusy(busy) {
    this.busy = busy;
    this.go.textContent = busy ? "Stop" : "Speak";
  }

  async speak(speakers) {
    const { text, speed, seed, format } = this.fields;
    const order = { text: text.control.value, speed: Number(speed.control.value), format: format.control.value };
    // Two voices are compared with the same seed, so that only the voice differs.
    const drawn = this.shown.length > 1 ? Math.floor(Math.random() * 2 ** 31) : undefined;
    order.seed = seed.control.value.trim() === "" ? drawn : Number(seed.control.value);
    const orders = speakers.map((speaker) => ({ ...order, speaker_id: speaker.speaker_id }));
    const done = await Promise.allSettled(this.shown.map((take, index) => take.speak(orders[index], index === 0)));
    const refused = done.find((each) => each.status === "rejected")?.reason;
    if (refused?.name === "AbortError") announce("Stopped.");
    else if (refused) this.refuse(refused);
    else announce(this.shown.map((take) => `${take.title}: likeness ${take.cosine.toFixed(2)}.`).join(" "));
  }

  refuse(error) {
    const name = OF_TEXT.has(error.code) ? "text" : FIELDS[error.details?.field];
    this.fail(wordsOf(error), name);
    if (name && this.shown.every((take) => !take.player?.duration_s)) this.takes.replaceChildren();
  }

  fail(words, name) {
    if (!name) {
      this.problem.textContent = words;
      this.problem.hidden = false;
      return;
    }
    this.fields[name].fail(words);
    this.fields[name].control.focus();
  }

  clear() {
    this.problem.hidden = true;
    for (const each of ["text", "speed", "seed", "format", "voice"]) this.fields[each].fail("");
    this.close();
    this.takes.replaceChildren();
  }

  close() {
    for (const take of this.shown) take.close();
  }
}

function makeFields() {
  const text = field("Text", h("textarea", { rows: 5, value: SAMPLE, spellcheck: "true" }));
  const range = h("input", { type: "range", min: 0.5, max: 2, step: 0.05, value: 1 });
  const speed = field("Speed", range, times(1));
  range.addEventListener("input", () => {
    speed.note.textContent = times(range.value);
    range.setAttribute("aria-valuetext", times(range.value));
  });
  range.setAttribute("aria-valuetext", times(1));
  const seed = field(
    "Seed",
    h("input", { type: "text", inputmode: "numeric", placeholder: "a new one" }),
    "The same seed gives the same speech.",
  );
  const format = field("File", h("select"), "The form of the download.");
  let most = Infinity;
  const counted = () => {
    const n = Array.from(text.control.value).length;
    text.note.hidden = false;
    text.note.textContent =
      n > most
        ? `${count(n, "character")}: ${(n - most).toLocaleString("en")} too many`
        : `${n.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
  };
  text.control.addEventListener("input", counted);
  return { text, speed, seed, format, limit: (limit) => ((most = limit), counted()) };
}
