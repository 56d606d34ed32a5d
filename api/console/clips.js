// Collecting clips: recorded here, dropped or picked; each with its picture and what the server said about it.

import { wordsOf } from "./api.js";
import { announce, button, h, nextId } from "./dom.js";
import { Recorder, levelWords, obstacle } from "./recorder.js";
import { bytes, count, seconds } from "./words.js";
import { peaksOf, waveform } from "./waveform.js";

const FLOOR_DB = -60;
const INVITATION = "Read something aloud, the way you speak.";

/** The clips of one upload, under words that say what they are for. */
export class Clips {
  constructor(limits, words = {}) {
    this.limits = limits;
    this.words = { legend: "Speech", hint: adviceOn(limits), record: "Record", ...words };
    this.items = [];
    this.build();
  }

  build() {
    const label = nextId("clips");
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.list = h("ul", { class: "clips", "aria-label": "Clips" });
    this.recordButton = button(this.words.record, () => this.toggle(), { class: "record" });
    this.meter = h(
      "div",
      {
        class: "meter",
        role: "meter",
        "aria-label": "Level",
        "aria-valuemin": FLOOR_DB,
        "aria-valuemax": 0,
        hidden: true,
      },
      h("span"),
    );
    this.status = h("span", { class: "time" }, INVITATION);
    const parts = [h("legend", { id: label }, this.words.legend), h("p", { class: "hint" }, this.words.hint), this.sources(), this.error, this.list];
    this.root = h("fieldset", { class: "field sources" }, ...parts);
  }

  sources() {
    const why = obstacle();
    const record = why
      ? h("p", { class: "note", id: "no-microphone" }, why)
      : h("div", { class: "recording" }, this.recordButton, this.meter, this.status);
    if (why) this.recordButton.disabled = true;
    return h(
      "div",
      { class: "columns even" },
      h("div", { class: "source" }, why ? this.recordButton : null, record),
      this.dropZone(),
    );
  }

  dropZone() {
    const input = h("input", {
      type: "file",
      multiple: true,
      accept: "audio/*,video/webm,video/mp4,.opus,.flac",
      class: "unseen",
    });
    input.addEventListener("change", () => {
      this.addFiles(input.files);
      input.value = "";
    });
    const zone = h(
      "label",
      { class: "source drop" },
      input,
      h("strong", {}, "Choose files"),
      h("span", {}, "or drop them here"),
    );
    const over = (is) => (event) => {
      event.preventDefault();
      zone.classList.toggle("over", is);
    };
    zone.addEventListener("dragover", over(true));
    zone.addEventListener("dragleave", over(false));
    zone.addEventListener("drop", (event) => {
      over(false)(event);
      this.addFiles(event.dataTransfer.files);
    });
    return zone;
  }

  addFiles(files) {
    for (const file of files) this.add(file, file.name, "picked");
  }

  async toggle() {
    if (this.recorder) return this.finish();
    this.fail("");
    const recorder = new Recorder((level_db, at_s) => this.showLevel(level_db, at_s));
    try {
      await recorder.start();
    } catch (error) {
      recorder.release();
      return this.fail(error.message);
    }
    this.recorder = recorder;
    this.recordButton.textContent = "Stop recording";
    this.recordButton.classList.add("on");
    this.meter.hidden = false;
    announce("Recording.");
  }

  async finish() {
    const recorder = this.recorder;
    this.recorder = null;
    const { seconds: length_s } = recorder;
    const blob = await recorder.stop();
    this.recordButton.textContent = "Record again";
    this.recordButton.classList.remove("on");
    this.meter.hidden = true;
    this.status.textContent = INVITATION;
    if (!blob.size) return this.fail("Nothing came from the microphone. See whether it is on, then record again.");
    const number = this.items.filter((item) => item.kind === "recorded").length + 1;
    this.add(blob, `Recording ${number}`, "recorded");
    announce(`Recorded ${seconds(length_s)}.`);
  }

  showLevel(level_db, at_s) {
    const share = Math.max(0, Math.min(1, 1 - level_db / FLOOR_DB));
    this.meter.firstChild.style.transform = `scaleX(${share})`;
    const words = levelWords(level_db);
    this.meter.dataset.level = words;
    this.meter.setAttribute("aria-valuenow", Math.round(Math.max(FLOOR_DB, level_db)));
    this.meter.setAttribute("aria-valuetext", words);
    this.status.textContent = `${at_s.toFixed(0)} s, ${words}`;
    if (at_s >= this.limits.max_clip_s) this.finish();
  }

  add(blob, name, kind) {
    const { max_clips, max_clip_bytes } = this.limits;
    if (this.items.length >= max_clips) return this.fail(`${count(max_clips, "clip")} are the most in one upload.`);
    const item = { blob, name, kind, url: URL.createObjectURL(blob), error: h("p", { class: "error", hidden: true }) };
    const remove = button("Remove", () => this.remove(item), { class: "plain", "aria-label": `Remove ${name}` });
    item.picture = h("div", { class: "picture" });
    const sound = h("audio", { controls: "", src: item.url, preload: "metadata", "aria-label": `Listen to ${name}` });
    const title = h("div", { class: "row spread" }, h("strong", {}, name), h("small", {}, bytes(blob.size)), remove);
    item.root = h("li", {}, title, item.picture, sound, item.error);
    this.items.push(item);
    this.list.append(item.root);
    this.fail("");
    this.draw(item);
    if (blob.size > max_clip_bytes)
      this.failItem(item, `This clip has ${bytes(blob.size)}; ${bytes(max_clip_bytes)} is the most.`);
  }

  async draw(item) {
    item.wave = await peaksOf(item.blob);
    if (item.wave) item.picture.replaceChildren(waveform(item.wave.peaks, item.wave.duration_s));
  }

  remove(item) {
    const index = this.items.indexOf(item);
    this.items.splice(index, 1);
    item.root.remove();
    URL.revokeObjectURL(item.url);
    announce(`${item.name} is removed.`);
    (this.items[Math.min(index, this.items.length - 1)]?.root.querySelector("button") ?? this.recordButton).focus();
  }

  /** Puts the clips into a form. */
  fill(form) {
    for (const item of this.items) form.append("clips", item.blob, item.kind === "recorded" ? "recording" : item.name);
  }

  /** What is wrong with all of them. */
  fail(words) {
    this.error.textContent = words;
    this.error.hidden = !words;
    for (const item of this.items) if (!words) this.failItem(item, "");
  }

  failItem(item, words) {
    item.error.textContent = words;
    item.error.hidden = !words;
  }

  /** Puts a refusal beside the clip that it is about, in words that fit how the clip was made. */
  refuse(refusal) {
    const item = this.items[refusal.details?.clip];
    const words = refusalWords(refusal, (item ?? this.items[0])?.kind);
    if (item) this.failItem(item, words);
    else this.fail(words);
    (item?.root.querySelector("button") ?? this.recordButton).focus();
    announce(words);
  }

  close() {
    this.recorder?.release();
    for (const item of this.items) URL.revokeObjectURL(item.url);
  }
}

const adviceOn = ({ recommended_voiced_s, min_voiced_s }) =>
  `One person alone, ${recommended_voiced_s} to 30 seconds in a quiet room; ${min_voiced_s} s of speech is the least.`;

const REMEDIES = {
  recorded: "Record again, closer to the microphone and somewhere quiet.",
  picked: "Choose another file, with one person speaking.",
};
const FACTS = {
  no_speech: () => "No speech was found in it.",
  too_little_speech: (details) =>
    `Only ${seconds(details.voiced_s)} of speech were found; ${seconds(details.min_voiced_s)} is the least.`,
  empty: () => "It is empty.",
  no_audio: () => "It holds no sound.",
  bad_container: () => "It is damaged and cannot be read.",
  unsupported_format: () => "It is no sound file that the server can read.",
  decode_timeout: () => "It took too long to read.",
};

function refusalWords(refusal, kind = "picked") {
  const fact = FACTS[refusal.code];
  return fact ? `${fact(refusal.details)} ${REMEDIES[kind]}` : wordsOf(refusal);
}
