// The section that enrols: clips, a name, labels; then the report.

import { Refusal, serverLimits, upload, wordsOf } from "./api.js";
import { Clips } from "./clips.js";
import { Consent } from "./consent.js";
import { announce, button, field, h, heading, nextId } from "./dom.js";
import { reportView } from "./report.js";
import { count, seconds } from "./words.js";

/** Builds the section; gives what ends it. */
export async function open(root) {
  root.append(heading("Enrol", "A few seconds of somebody's speech are enough. Only with that person's consent."));
  root.addEventListener("newkey", (event) => event.preventDefault());
  let panel;
  const begin = (limits) => {
    panel?.close();
    panel = new EnrolPanel(limits, root, () => begin(limits));
  };
  try {
    begin(await serverLimits());
  } catch (error) {
    root.append(h("p", { class: "error", role: "alert" }, wordsOf(error)));
  }
  return () => panel?.close();
}

class EnrolPanel {
  constructor(limits, root, again) {
    this.root = root;
    this.again = again;
    this.clips = new Clips(limits);
    this.name = field("Name", h("input", { type: "text", autocomplete: "off", maxlength: 200 }));
    this.labels = new LabelsEditor({});
    this.consent = limits.consent === "off" ? null : new Consent(limits);
    this.sending = new Sending();
    this.go = h("button", { class: "primary" }, "Enrol");
    const actions = h("div", { class: "row" }, this.go, this.sending.root);
    const asked = this.consent ? [this.consent.root] : [];
    const parts = [this.clips.root, this.name.root, this.labels.root, ...asked, this.sending.error, actions];
    this.form = h("form", { class: "panel", novalidate: "", on: { submit: (event) => this.submit(event) } }, ...parts);
    root.querySelector(".panel")?.remove();
    root.append(this.form);
  }

  async submit(event) {
    event.preventDefault();
    if (this.sending.busy) return;
    for (const part of [this.clips, this.name, this.labels]) part.fail("");
    if (!this.clips.items.length) return this.point(this.clips, "Record something or choose a file first.");
    const name = this.name.control.value.trim();
    if (!name) return this.point(this.name, "Give the voice a name.");
    if (this.consent && !this.consent.isWhole()) return;
    const form = new FormData();
    form.append("name", name);
    form.append("labels", JSON.stringify(this.labels.value()));
    this.clips.fill(form);
    try {
      if (this.consent) form.append("consent_id", await this.consent.give(this.sending));
    } catch (error) {
      if (!this.consent.refuse(error)) this.sending.fail(wordsOf(error));
      return;
    }
    try {
      this.show(await this.sending.send("v1/speakers", form));
    } catch (error) {
      this.refuse(error);
    }
  }

  point(part, words) {
    part.fail(words);
    (part.control ?? part.root.querySelector("button:enabled, input")).focus();
    announce(words);
  }

  refuse(error) {
    const ours = { name: this.name, labels: this.labels, clips: this.clips };
    const of = { name_taken: "name", bad_name: "name", bad_labels: "labels" };
    const part = ours[of[error.code] ?? error.details?.field];
    if (part && part !== this.clips) this.point(part, wordsOf(error));
    else if (error instanceof Refusal && [413, 415, 422].includes(error.status)) this.clips.refuse(error);
    else this.sending.fail(wordsOf(error));
  }

  show(speaker) {
    const waves = this.clips.items.map((item) => item.wave);
    const title = h("h2", { tabindex: "-1" }, `${speaker.name} is enrolled`);
    const lead = h(
      "p",
      { class: "lead" },
      `${seconds(speaker.report.used_s)} of speech from ${count(speaker.n_clips, "clip")}.`,
    );
    const speak = h(
      "a",
      { class: "button primary", href: `#/speak?voice=${speaker.speaker_id}` },
      `Speak as ${speaker.name}`,
    );
    const next = button("Enrol another", () => this.again());
    const view = h(
      "div",
      { class: "panel" },
      h("header", {}, title, lead),
      reportView(speaker.report, { waves, near: speaker.near }),
      h("div", { class: "row" }, speak, next),
    );
    this.form.replaceWith(view);
    title.focus();
    announce(title.textContent);
  }

  close() {
    this.clips.close();
    this.consent?.close();
    this.sending.close();
  }
}

/** An upload under way: how much has gone, then that the server listens; sent once however often it is tried. */
export class Sending {
  constructor() {
    const id = nextId("progress");
    this.bar = h("progress", { id, max: 1, value: 0 });
    this.words = h("label", { for: id });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.root = h(
      "div",
      { class: "sending", hidden: true },
      this.words,
      this.bar,
      button("Stop", () => this.abort?.abort(), { class: "plain" }),
    );
  }

  get busy() {
    return !this.root.hidden;
  }

  async send(path, form) {
    this.fail("");
    this.root.hidden = false;
    this.abort = new AbortController();
    this.told = 0;
    // Kept until there is an answer: what is sent again after a broken connection enrols nobody twice.
    this.key ??= crypto.getRandomValues(new Uint32Array(4)).join("-");
    const headers = path === "v1/speakers" ? { "Idempotency-Key": this.key } : {};
    this.progress(0);
    try {
      const done = await upload(path, form, {
        headers,
        signal: this.abort.signal,
        onprogress: (share) => this.progress(share),
      });
      this.key = null;
      return done;
    } catch (error) {
      if (error.status) this.key = null;
      throw error;
    } finally {
      this.root.hidden = true;
    }
  }

  progress(share) {
    if (share < 1) this.bar.value = share;
    else this.bar.removeAttribute("value");
    this.words.textContent = share < 1 ? `Sending, ${Math.round(share * 100)} %` : "Listening to it";
    // A quarter at a time: every step read aloud would be noise.
    const quarter = Math.floor(share * 4);
    if (quarter > this.told || share === 0) announce(this.words.textContent);
    this.told = quarter;
  }

  fail(words) {
    this.error.textContent = words;
    this.error.hidden = !words;
  }

  close() {
    this.abort?.abort();
  }
}

/** Names and values of labels, a row each. */
export class LabelsEditor {
  constructor(labels) {
    this.rows = h("div", { class: "labels" });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    const add = button("Add a label", () => this.add("", "").focus());
    this.root = h("fieldset", { class: "field" }, h("legend", {}, "Labels"), this.rows, add, this.error);
    for (const [name, value] of Object.entries(labels)) this.add(name, value);
  }

  add(name, value) {
    const key = h("input", { type: "text", value: name, maxlength: 100, placeholder: "accent", "aria-label": "Label" });
    const text = h("input", {
      type: "text",
      value,
      maxlength: 500,
      placeholder: "northern",
      "aria-label": "Its value",
    });
    const remove = button("Remove", () => (row.remove(), this.root.querySelector(":scope > button").focus()), {
      class: "plain",
      "aria-label": "Remove this label",
    });
    const row = h("div", { class: "label" }, key, text, remove);
    this.rows.append(row);
    return key;
  }

  value() {
    const pairs = [...this.rows.children].map((row) =>
      [...row.querySelectorAll("input")].map((input) => input.value.trim()),
    );
    return Object.fromEntries(pairs.filter(([name]) => name));
  }

  fail(words) {
    this.error.textContent = words;
    this.error.hidden = !words;
  }
}
