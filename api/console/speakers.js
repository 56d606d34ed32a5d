// The section of those who are enrolled: pages, search, a sample, pins, and deleting with a way back.

import { ask, askJson, serverLimits, speakerPage, wordsOf } from "./api.js";
import { announce, button, confirmed, field, h, heading, isBusy, message, moreButton, whileBusy } from "./dom.js";
import { openSpeaker } from "./speaker.js";
import { Take } from "./take.js";
import { ago, count, seconds } from "./words.js";

const PAUSE_MS = 200;
const SAMPLE = "Hello. This is how I sound when I say something new.";

/** Builds the section, or the page of one speaker; gives what ends it. */
export async function open(root, { id }) {
  if (id) return openSpeaker(root, id);
  const panel = new SpeakersPanel();
  root.append(heading("Speakers"), panel.root);
  await panel.load("");
  return () => panel.close();
}

class SpeakersPanel {
  constructor() {
    this.list = h("ul", { class: "people", "aria-label": "Speakers" });
    this.summary = h("p", { class: "hint", role: "status" });
    this.more = moreButton(() => this.extend());
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.search = field("Search by name", h("input", { type: "search", autocomplete: "off" }));
    this.search.control.addEventListener("input", () => this.later());
    this.root = h("div", {}, this.search.root, this.summary, this.problem, this.list, this.more);
    this.asked = 0;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(this.search.control.value.trim()), PAUSE_MS);
  }

  async load(name) {
    const asked = ++this.asked;
    await this.guard(async () => {
      const page = await speakerPage(name, null);
      if (asked !== this.asked) return;
      this.name = name;
      this.list.replaceChildren();
      this.show(page);
    });
  }

  async extend() {
    await this.guard(async () => {
      const shown = this.list.children.length;
      this.show(await speakerPage(this.name, this.cursor));
      this.list.children[shown]?.querySelector("a").focus();
    });
  }

  show(page) {
    this.cursor = page.next_cursor;
    this.total = page.total;
    this.more.hidden = !page.next_cursor;
    this.list.append(...page.speakers.map((speaker) => this.row(speaker)));
    this.summarise();
  }

  summarise() {
    const shown = this.list.children.length;
    const none = this.name ? "Nobody of this name." : "Nobody is enrolled yet.";
    this.summary.textContent = this.total ? `${shown} of ${count(this.total, "speaker")}` : none;
  }

  row(speaker) {
    const { name } = speaker;
    const actions = [
      button("Listen", (event) => this.listen(speaker, item, event.currentTarget), {
        "aria-label": `Listen to ${name}`,
      }),
      pinButton(speaker),
      button("Delete", () => this.remove(speaker, item), { class: "plain", "aria-label": `Delete ${name}` }),
    ];
    const figures = `${seconds(speaker.speech_s)} of speech, ${count(speaker.n_clips, "clip")}; ${speaker.last_used_at ? `last used ${ago(speaker.last_used_at)}` : "not used yet"}`;
    const title = h("a", { href: `#/speakers/${speaker.speaker_id}`, class: "name" }, name);
    const about = h("div", { class: "about" }, title, labelChips(speaker.labels), h("small", {}, figures));
    const item = h("li", {}, about, h("div", { class: "row" }, ...actions));
    return item;
  }

  async listen(speaker, item, pressed) {
    if (isBusy(pressed)) return;
    this.take?.close();
    this.take?.root.remove();
    this.take = new Take(speaker.name);
    item.append(this.take.root);
    await this.guard(() =>
      whileBusy(pressed, "Speaking", () =>
        this.take.speak({ text: SAMPLE, format: "wav", seed: 1, speaker_id: speaker.speaker_id }),
      ),
    );
  }

  async remove(speaker, item) {
    await this.guard(async () => {
      if (!(await removeSpeaker(speaker, () => this.load(this.name)))) return;
      const next = item.nextElementSibling ?? item.previousElementSibling;
      item.remove();
      this.total -= 1;
      this.summarise();
      (next?.querySelector("a") ?? this.search.control).focus();
    });
  }

  async guard(work) {
    this.problem.hidden = true;
    try {
      await work();
    } catch (error) {
      this.problem.textContent = wordsOf(error);
      this.problem.hidden = !this.problem.textContent;
    }
  }

  close() {
    clearTimeout(this.timer);
    this.take?.close();
  }
}

/** The labels of a speaker; nothing where there are none. */
export const labelChips = (labels) =>
  Object.keys(labels).length
    ? h("span", { class: "chips" }, ...Object.entries(labels).map(([name, value]) => h("span", { title: name }, value)))
    : null;

/** A button that pins and unpins: who is pinned is never pruned. */
export function pinButton(speaker) {
  const pin = button("Pin", change, {
    "aria-pressed": String(speaker.pinned),
    "aria-label": `Pin ${speaker.name}`,
    title: "A pinned speaker is never pruned",
  });
  async function change() {
    try {
      const pinned = pin.getAttribute("aria-pressed") !== "true";
      await ask("PATCH", `v1/speakers/${speaker.speaker_id}`, { json: { pinned } });
      speaker.pinned = pinned;
      pin.setAttribute("aria-pressed", String(pinned));
      announce(pinned ? `${speaker.name} is pinned.` : `${speaker.name} is not pinned.`);
    } catch (error) {
      message(wordsOf(error));
    }
  }
  return pin;
}

/** Deletes a speaker: at once with a way back where the server has one, else after a question. Whether it went. */
export async function removeSpeaker(speaker, onreturn) {
  const { grace_days } = await serverLimits();
  const path = `v1/speakers/${speaker.speaker_id}`;
  const words = `The voice, its clips and everything made from them go at once. This cannot be undone.`;
  if (!grace_days && !(await confirmed(`Erase ${speaker.name}?`, words, "Erase"))) return false;
  await ask("DELETE", path);
  if (!grace_days) {
    message(`${speaker.name} is erased.`);
    return true;
  }
  const back = async () => {
    try {
      await askJson("POST", `${path}/undelete`);
      announce(`${speaker.name} is back.`);
      onreturn();
    } catch (error) {
      message(wordsOf(error));
    }
  };
  message(`${speaker.name} is deleted; for ${count(grace_days, "day")} it can be brought back.`, {
    label: "Undo",
    run: back,
  });
  return true;
}
