// One job in the list: how far it is, what can be done with it, and its files.

import { Refusal, ask, askJson, events, wordsOf } from "./api.js";
import { announce, button, confirmed, h, isBusy, nextId, whileBusy } from "./dom.js";
import { ago, bytes, count, moment, seconds } from "./words.js";

const STATES = {
  waiting: "Waiting",
  running: "Speaking",
  done: "Done",
  partial: "Done, with gaps",
  failed: "Failed",
  cancelled: "Cancelled",
  speaker_gone: "Its speaker is gone",
};
const UNFINISHED = new Set(["waiting", "running"]);
const AUDIBLE = new Set(["done", "partial"]);
const SUBTITLES = { srt: "Subtitles, srt", vtt: "Subtitles, vtt", json: "Times, json" };
const PAUSE_MS = 2000;
// A browser holds six connections to one server: jobs beyond these are asked for now and then.
const MOST_STREAMS = 2;
let streams = 0;

export class JobItem {
  constructor(job, limits, ongone) {
    this.limits = limits;
    this.ongone = ongone;
    this.abort = new AbortController();
    this.name = job.title || "Untitled";
    this.build();
    this.show(job);
    if (UNFINISHED.has(job.state)) this.follow();
  }

  get path() {
    return `v1/jobs/${this.job.job_id}`;
  }

  build() {
    this.state = h("strong");
    this.figures = h("small");
    this.bar = h("progress", { max: 1, "aria-label": `Progress of ${this.name}` });
    this.left = h("span", { class: "time" });
    this.meter = h("div", { class: "sending" }, this.bar, this.left);
    this.actions = h("div", { class: "row" });
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.details = h("div", { id: nextId("job"), class: "details", hidden: true });
    this.title = h("span", { class: "name", tabindex: "-1" }, this.name);
    const about = h("div", { class: "about" }, this.title, this.state, this.figures, this.meter, this.problem);
    this.root = h("li", {}, about, this.actions, this.details);
  }

  show(job) {
    const changed = job.state !== this.job?.state;
    this.job = job;
    const running = UNFINISHED.has(job.state);
    this.state.textContent = STATES[job.state] ?? job.state;
    this.figures.textContent = figures(job);
    this.meter.hidden = !running;
    this.bar.value = job.progress;
    const left = job.left_s === null ? "" : `, about ${seconds(job.left_s)} left`;
    this.left.textContent = `${Math.floor(job.progress * 100)} %${left}`;
    if (changed) this.showActions(running);
  }

  showActions(running) {
    const held = this.actions.contains(document.activeElement);
    this.actions.replaceChildren(
      ...(running ? [this.act("Cancel", () => this.cancel())] : []),
      ...(AUDIBLE.has(this.job.state) ? this.files() : []),
      ...(running ? [] : [this.act("Delete", () => this.remove(), { class: "plain" })]),
    );
    // The button that had the focus is gone.
    if (held) this.title.focus();
  }

  act(label, work, props = {}) {
    return button(label, () => this.guard(work), { "aria-label": `${label} ${this.name}`, ...props });
  }

  files() {
    const sounds = this.limits.job_formats.map((name) =>
      h("option", { value: name }, name === "m4a" ? "m4a, with chapters" : name),
    );
    const times = Object.entries(SUBTITLES).map(([name, words]) => h("option", { value: name }, words));
    this.file = h("select", { "aria-label": `File of ${this.name}` }, ...sounds, ...times);
    const get = button("Download", () => this.guard(() => this.download(get)), {
      "aria-label": `Download ${this.name}`,
    });
    this.more = this.act("Chapters", () => this.toggle(), {
      "aria-expanded": "false",
      "aria-controls": this.details.id,
    });
    return [this.file, get, this.more];
  }

  /** Shows the job as it comes on, until it has ended: by events, and by asking where there are none. */
  async follow() {
    const { signal } = this.abort;
    while (!signal.aborted && UNFINISHED.has(this.job.state)) {
      try {
        if (streams < MOST_STREAMS) await this.listen(signal);
        if (!UNFINISHED.has(this.job.state)) break;
        this.come(await askJson("GET", this.path, { signal }));
        this.fail("");
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error.code === "job_not_found") return this.leave();
        this.fail(wordsOf(error));
        if (isFinal(error)) return;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  /** Follows the job's events while they come; a connection that cannot be had or breaks is no fault. */
  async listen(signal) {
    streams += 1;
    try {
      for await (const job of events(await ask("GET", `${this.path}/events`, { signal }))) {
        if (job.state === "deleted") return this.leave();
        this.come(job);
        this.fail("");
      }
    } catch (error) {
      if (signal.aborted || error.code === "job_not_found") throw error;
    } finally {
      streams -= 1;
    }
  }

  come(job) {
    const before = this.job;
    this.show(job);
    // A quarter at a time: every step read aloud would be noise.
    const quarter = Math.floor(job.progress * 4);
    if (!UNFINISHED.has(job.state)) {
      if (UNFINISHED.has(before.state)) announce(`${this.name}: ${this.state.textContent}.`);
    } else if (quarter > Math.floor(before.progress * 4)) {
      announce(`${this.name}: ${quarter * 25} %.`);
    }
  }

  async again() {
    const job = await askJson("GET", this.path).catch(() => this.job);
    this.show(job);
    this.follow();
  }

  async cancel() {
    const words = "What is spoken so far is lost. This cannot be undone.";
    if (!(await confirmed(`Cancel ${this.name}?`, words, "Cancel it"))) return;
    this.come(await askJson("POST", `${this.path}/cancel`));
  }

  async remove() {
    const words = "Its text and its sound go at once. This cannot be undone.";
    if (!(await confirmed(`Delete ${this.name}?`, words, "Delete"))) return;
    await ask("DELETE", this.path);
    announce(`${this.name} is deleted.`);
    this.leave();
  }

  leave() {
    this.close();
    this.ongone(this);
  }

  /** A file through the page, since a link could not send the key. */
  async download(pressed) {
    if (isBusy(pressed)) return;
    const format = this.file.value;
    const kind = SUBTITLES[format] ? "timestamps" : "audio";
    await whileBusy(pressed, "Fetching", async () => {
      const { signal } = this.abort;
      const response = await ask("GET", `${this.path}/${kind}`, { query: { format }, signal });
      const url = URL.createObjectURL(await response.blob());
      h("a", { href: url, download: `${this.name}.${format}` }).click();
      // The browser has taken the file over well before that.
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      announce(`${this.name}.${format} is downloaded.`);
    });
  }

  /** The chapters with their times, and what could not be spoken. */
  async toggle() {
    const open = this.details.hidden;
    if (open) {
      const { chapters, bad_pieces } = await askJson("GET", this.path);
      const parts = chapters.map((each) =>
        h("li", {}, each.title || "Without a title", ` from ${seconds(each.start_s)}`),
      );
      const gaps = bad_pieces.map((each) =>
        h("li", {}, `Not spoken, characters ${each.start_char} to ${each.stop_char}: ${each.detail ?? each.code}`),
      );
      this.details.replaceChildren(h("ul", {}, ...parts, ...gaps));
    }
    this.details.hidden = !open;
    this.more.setAttribute("aria-expanded", String(open));
  }

  async guard(work) {
    this.fail("");
    try {
      await work();
    } catch (error) {
      if (error.code === "job_not_found") return this.leave();
      this.fail(wordsOf(error));
      // Where its files are lost, what was done is spoken anew.
      if (error.code === "job_not_done") this.again();
    }
  }

  fail(words) {
    // The same words set again would be read again.
    if (this.problem.textContent !== words) this.problem.textContent = words;
    this.problem.hidden = !words;
  }

  close() {
    this.abort.abort();
  }
}

// Asking again helps where the server is away or busy, not where it has said no.
const isFinal = (error) => !(error instanceof Refusal) || [401, 403].includes(error.status);

function figures(job) {
  const found = [count(job.n_chars, "character")];
  if (job.n_bytes) found.push(`${seconds(job.audio_s)} of speech, ${bytes(job.n_bytes)}`);
  if (job.n_bad) found.push(`${count(job.n_bad, "piece")} of ${job.n_pieces} could not be spoken`);
  found.push(`handed in ${ago(job.created_at)}`);
  // Of what cannot be heard nothing is kept but this line.
  const stays = AUDIBLE.has(job.state) ? "kept" : "listed";
  if (job.expires_at) found.push(`${stays} until ${moment(job.expires_at)}`);
  if (job.detail) found.push(job.detail);
  return found.join("; ");
}
