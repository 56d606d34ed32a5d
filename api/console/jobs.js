// The section of long texts: handed in here, spoken in the background, and fetched when they are done.

import { askJson, serverLimits, wordsOf } from "./api.js";
import { announce, button, field, h, heading, isBusy, moreButton, whileBusy } from "./dom.js";
import { JobItem } from "./job.js";
import { Picker } from "./picker.js";
import { count } from "./words.js";

const PAGE = 20;
const OF_TEXT = new Set(
  "nothing_to_say text_too_long bad_tag bad_markup language_unsupported too_large quota_exceeded".split(" "),
);
const OF_VOICE = new Set(["consent_missing", "consent_revoked", "consent_insufficient"]);
const FIELDS = { text: "text", speaker_id: "voice", title: "title", seed: "seed", speed: "speed" };
// A character takes at most four bytes in UTF-8.
const BYTES_OF_CHAR = 4;

/** Builds the section; gives what ends it. */
export async function open(root) {
  const form = new JobForm();
  const list = new JobList();
  // Where the list could not be had before, it has the new job by now.
  form.onmade = (job) => (list.limits ? list.add(job) : start());
  const keeping = h("p", { class: "hint" });
  root.append(
    heading("Jobs", "Long texts, such as a chapter, are spoken in the background, also while this page is closed."),
    form.root,
    h("section", { class: "part" }, h("h2", {}, "Handed in"), keeping, list.root),
  );
  const start = async () => {
    const limits = await form.start();
    if (!limits) return;
    const days = count(limits.job_keep_days, "day");
    keeping.textContent = `A job that has ended is kept for ${days}; then its text and its sound go with it.`;
    await list.load(limits);
  };
  root.addEventListener("newkey", (event) => {
    event.preventDefault();
    start();
  });
  await start();
  return () => list.close();
}

class JobForm {
  constructor() {
    this.voice = new Picker("Voice");
    const words = { type: "text", autocomplete: "off" };
    this.fields = {
      voice: this.voice.field,
      title: field("Title", h("input", { ...words, maxlength: 200 }), "Names the job and its files."),
      text: field("Text", h("textarea", { rows: 9, spellcheck: "true" })),
      speed: field("Speed", h("input", { ...words, inputmode: "decimal", value: "1" }), "0.5 to 2; 1 is its own pace."),
      seed: field(
        "Seed",
        h("input", { ...words, inputmode: "numeric", placeholder: "a new one" }),
        "The same seed gives the same recording.",
      ),
      file: field(
        "Or a file",
        h("input", { type: "file", accept: ".txt,.ssml,.md,text/plain" }),
        "Plain text or SSML, in UTF-8.",
      ),
    };
    this.fields.text.control.addEventListener("input", () => this.counted());
    this.fields.file.control.addEventListener("change", () => this.read());
    this.go = h("button", { class: "primary" }, "Hand it in");
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.most = Infinity;
    this.root = h(
      "form",
      { class: "panel", novalidate: "", on: { submit: (event) => this.submit(event) } },
      ...this.layout(),
    );
  }

  layout() {
    const { title, text, file, speed, seed } = this.fields;
    const marks = h(
      "p",
      { class: "hint" },
      "A line “# Title” begins a chapter. A line that starts with “[speaker: Name]” changes the voice.",
    );
    return [
      h("div", { class: "columns" }, this.voice.root, title.root),
      h("div", {}, text.root, marks),
      h("div", { class: "columns three" }, file.root, speed.root, seed.root),
      this.problem,
      h("div", { class: "row" }, this.go),
    ];
  }

  /** What the server allows; nothing where it does not answer or does not let this key in. */
  async start() {
    this.say("");
    try {
      const limits = await serverLimits();
      this.most = limits.max_job_chars;
      this.counted();
      if (!this.voice.chosen && !(await this.voice.start()))
        this.say("Nobody is enrolled yet. Enrol a voice first, then come back.");
      return limits;
    } catch (error) {
      this.say(wordsOf(error));
    }
  }

  counted() {
    const { note, control } = this.fields.text;
    const n = Array.from(control.value).length;
    note.hidden = false;
    note.textContent =
      n > this.most
        ? `${count(n, "character")}: ${(n - this.most).toLocaleString("en")} too many`
        : `${n.toLocaleString("en")} of ${this.most.toLocaleString("en")} characters`;
  }

  /** Puts a file's text into the field, where it can be seen and changed. */
  async read() {
    const { file, text, title } = this.fields;
    const [chosen] = file.control.files;
    if (!chosen) return;
    file.fail("");
    if (chosen.size > this.most * BYTES_OF_CHAR)
      return file.fail(`This file is longer than ${count(this.most, "character")}. Hand it in in parts.`);
    try {
      text.control.value = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
    } catch {
      return file.fail("This file is no text in UTF-8. Save it as plain text in UTF-8, then choose it again.");
    }
    if (!title.control.value) title.control.value = chosen.name.replace(/\.[^.]*$/, "").slice(0, 200);
    text.fail("");
    this.counted();
    announce(`${chosen.name} is in the text.`);
  }

  async submit(event) {
    event.preventDefault();
    if (isBusy(this.go)) return;
    this.say("");
    for (const each of Object.values(this.fields)) each.fail("");
    const wrong = this.wrong();
    if (wrong) return this.point(...wrong);
    try {
      this.onmade(await whileBusy(this.go, "Handing it in", () => this.send(this.order())));
    } catch (error) {
      return this.refuse(error);
    }
    this.fields.text.control.value = this.fields.title.control.value = this.fields.file.control.value = "";
    this.counted();
  }

  /** Hands the order in; the same one again, after a reply that was lost, makes no second job. */
  async send(json) {
    const order = JSON.stringify(json);
    if (this.sent?.order !== order) this.sent = { order, id: crypto.getRandomValues(new Uint32Array(4)).join("-") };
    const job = await askJson("POST", "v1/jobs", { json, headers: { "Idempotency-Key": this.sent.id } });
    this.sent = null;
    return job;
  }

  wrong() {
    const { text, seed, speed } = this.fields;
    if (!text.control.value.trim()) return ["text", "Write what is to be said, or choose a file."];
    if (!this.voice.chosen) return ["voice", "Choose a voice."];
    if (!/^\d+([.,]\d+)?$/.test(speed.control.value.trim())) return ["speed", "Give a number from 0.5 to 2."];
    if (!/^\d*$/.test(seed.control.value.trim())) return ["seed", "Give a whole number, or leave it empty."];
  }

  order() {
    const { text, title, seed, speed } = this.fields;
    const order = { text: text.control.value, title: title.control.value.trim() };
    order.speaker_id = this.voice.chosen.speaker_id;
    order.speed = Number(speed.control.value.trim().replace(",", "."));
    if (seed.control.value.trim()) order.seed = Number(seed.control.value);
    return order;
  }

  refuse(error) {
    const name = FIELDS[error.details?.field] ?? fieldOf(error.code);
    if (name) this.point(name, wordsOf(error));
    else this.say(wordsOf(error));
  }

  point(name, words) {
    this.fields[name].fail(words);
    this.fields[name].control.focus();
    announce(words);
  }

  say(words) {
    this.problem.textContent = words;
    this.problem.hidden = !words;
  }
}

const fieldOf = (code) => (OF_TEXT.has(code) ? "text" : OF_VOICE.has(code) ? "voice" : undefined);

class JobList {
  constructor() {
    this.items = [];
    this.total = 0;
    this.place = h("ul", { class: "people", "aria-label": "Jobs" });
    this.summary = h("p", { class: "hint", role: "status", tabindex: "-1" });
    this.more = moreButton(() => this.extend());
    this.root = h("div", {}, this.summary, this.place, this.more);
  }

  async load(limits) {
    this.limits = limits;
    this.close();
    this.items = [];
    this.place.replaceChildren();
    this.cursor = null;
    await this.extend();
  }

  async extend() {
    const shown = this.items.length;
    try {
      const page = await askJson("GET", "v1/jobs", { query: { cursor: this.cursor, limit: PAGE } });
      this.cursor = page.next_cursor;
      this.total = page.total;
      for (const job of page.jobs) this.place.append(this.item(job).root);
      this.summarise();
      if (shown) this.items[shown]?.title.focus();
    } catch (error) {
      this.summary.textContent = wordsOf(error);
    }
  }

  item(job) {
    const item = new JobItem(job, this.limits, (gone) => this.remove(gone));
    this.items.push(item);
    return item;
  }

  add(job) {
    this.total += 1;
    const item = this.item(job);
    this.place.prepend(item.root);
    this.summarise();
    item.title.focus();
    announce(`${item.name} is handed in.`);
  }

  remove(item) {
    if (!item.root.isConnected) return;
    const next = item.root.nextElementSibling ?? item.root.previousElementSibling;
    const held = item.root.contains(document.activeElement);
    item.root.remove();
    this.items.splice(this.items.indexOf(item), 1);
    this.total -= 1;
    this.summarise();
    if (held) (next?.querySelector(".name") ?? this.summary).focus();
  }

  summarise() {
    this.more.hidden = !this.cursor;
    this.summary.textContent = this.total ? `${this.items.length} of ${count(this.total, "job")}` : "There is none.";
  }

  close() {
    for (const item of this.items) item.close();
  }
}
