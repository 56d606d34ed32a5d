// One speech on the page: heard while it is spoken, its words marked as they are heard, then measured and kept to download.

import { ask, askJson, lines, sentence, wordsOf } from "./api.js";
import { button, h, nextId } from "./dom.js";
import { FilePlayer, StreamPlayer, canStream, fromBase64 } from "./player.js";
import { likeness, seconds } from "./words.js";

const EXTENSIONS = { opus: "ogg" };

/** A view of one order to be. `title` is who speaks. */
export class Take {
  constructor(title) {
    this.title = title;
    this.words = [];
    this.abort = new AbortController();
    this.player = null;
    this.frame = 0;
    this.build();
  }

  build() {
    const name = nextId("take");
    this.toggle = button("Play", () => this.player?.toggle(), { class: "play", disabled: true });
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: 1,
      step: "any",
      value: 0,
      "aria-label": "Position",
      disabled: true,
    });
    this.slider.addEventListener("input", () => this.player?.seek(Number(this.slider.value)));
    this.time = h("span", { class: "time" });
    this.text = h("p", { class: "transcript" });
    this.facts = h("dl", { class: "facts" });
    this.links = h("p", { class: "row" });
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    const transport = h("div", { class: "transport" }, this.toggle, this.slider, this.time);
    const parts = [h("h2", { id: name }, this.title), transport, this.text, this.problem, this.facts, this.links];
    this.root = h("article", { class: "take", "aria-labelledby": name }, parts);
  }

  /** Speaks the order; what is refused is shown here and thrown. */
  async speak(order, play = true) {
    this.order = order;
    this.text.replaceChildren(order.text);
    try {
      if (canStream()) await this.stream(play);
      else await this.fetchWhole(play);
      await this.measure();
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  async stream(play) {
    this.use(new StreamPlayer());
    if (play) this.player.play();
    const body = { ...this.order, format: "pcm", stream: true, timestamps: true };
    const response = await ask("POST", "v1/speech", { json: body, signal: this.abort.signal });
    this.seed = Number(response.headers.get("X-Voicekin-Seed"));
    this.tail = this.text.firstChild;
    this.read = 0;
    let last = false;
    for await (const line of lines(response)) {
      if (line.error) throw new Error(line.error.detail);
      this.player.push(fromBase64(line.audio));
      this.add(line.sentences);
      last = line.last;
    }
    if (!last) throw new Error("the speech was cut off before its end");
    this.player.finish();
  }

  /** For browsers that cannot play samples as they come. */
  async fetchWhole(play) {
    const body = { ...this.order, format: "wav", timestamps: true };
    const whole = await askJson("POST", "v1/speech", { json: body, signal: this.abort.signal });
    this.seed = whole.seed;
    this.tail = this.text.firstChild;
    this.read = 0;
    this.add(whole.sentences);
    this.use(new FilePlayer(new Blob([fromBase64(whole.audio)], { type: whole.media_type })));
    if (play) this.player.play();
  }

  /** The same speech as a file, and how like the speaker it is. */
  async measure() {
    const body = { ...this.order, seed: this.seed, verify: true };
    const response = await ask("POST", "v1/speech", { json: body, signal: this.abort.signal });
    const cosine = Number(response.headers.get("X-Voicekin-Cosine"));
    const notices = unquoted(response.headers.get("X-Voicekin-Notices") ?? "");
    this.cosine = cosine;
    const facts = [
      ["Likeness", `${cosine.toFixed(2)}, ${likeness(cosine)}`],
      ["Length", seconds(Number(response.headers.get("X-Voicekin-Audio-Seconds")))],
      ["Seed", String(this.seed)],
    ];
    this.facts.replaceChildren(...facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
    this.file = URL.createObjectURL(await response.blob());
    const extension = EXTENSIONS[this.order.format] ?? this.order.format;
    const named = { href: this.file, download: `${this.title}.${extension}`, class: "button" };
    this.links.replaceChildren(h("a", named, `Download ${this.order.format}`));
    if (notices) this.links.before(h("p", { class: "note" }, noticeWords(notices)));
  }

  /** Cuts words out of the text that is not marked yet. Places are code points, as the server counts them. */
  add(sentences) {
    for (const word of sentences.flatMap((each) => each.words)) {
      const rest = Array.from(this.tail.data);
      const from = word.start_char - this.read;
      if (from < 0) continue;
      const span = h("span", { title: word.read === word.text ? null : word.read }, word.text);
      this.tail.before(rest.slice(0, from).join(""), span);
      this.read = word.stop_char;
      this.tail.data = rest.slice(word.stop_char - word.start_char + from).join("");
      this.words.push({ span, start_s: word.start_s });
    }
  }

  use(player) {
    this.player = player;
    this.toggle.disabled = this.slider.disabled = false;
    player.onchange = () => this.show();
    this.show();
  }

  show() {
    const { playing, position_s, duration_s } = this.player;
    const label = playing ? "Pause" : "Play";
    if (this.toggle.textContent !== label) this.toggle.textContent = label;
    this.toggle.setAttribute("aria-label", `${label} ${this.title}`);
    this.slider.max = duration_s;
    this.slider.value = position_s;
    this.slider.setAttribute("aria-valuetext", `${position_s.toFixed(1)} of ${duration_s.toFixed(1)} seconds`);
    this.time.textContent = `${position_s.toFixed(1)} / ${seconds(duration_s)}`;
    this.mark(position_s);
    cancelAnimationFrame(this.frame);
    if (playing) this.frame = requestAnimationFrame(() => this.show());
  }

  mark(position_s) {
    const { playing, duration_s } = this.player;
    const rests = !playing && (position_s === 0 || position_s >= duration_s);
    // A word stays marked in the pause after it.
    const now = rests ? null : this.words.findLast((word) => word.start_s <= position_s);
    if (now === this.marked) return;
    this.marked?.span.classList.remove("heard");
    now?.span.classList.add("heard");
    this.marked = now;
  }

  fail(error) {
    this.player?.finish?.();
    if (error.name === "AbortError") return;
    this.problem.textContent = wordsOf(error);
    this.problem.hidden = false;
  }

  /** Stops speaking; what was heard so far can be heard again. */
  stop() {
    this.abort.abort();
    this.player?.pause();
  }

  /** Stops speaking and lets go of sounds and files. */
  close() {
    this.abort.abort();
    cancelAnimationFrame(this.frame);
    this.player?.close();
    if (this.file) URL.revokeObjectURL(this.file);
  }
}

const KNOWN = { implausible_length: "The length does not fit the text: words may be missing or added." };

const noticeWords = (notices) =>
  notices
    .split("; ")
    .map((each) => KNOWN[each] ?? sentence(each))
    .join(" ");

function unquoted(header) {
  try {
    return decodeURIComponent(header);
  } catch {
    // A very long list is cut by the server, perhaps inside a character.
    return header;
  }
}
