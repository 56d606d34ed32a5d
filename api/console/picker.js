// Choosing a speaker among any number: a combobox that asks the server, page by page.
// Source: the ARIA Authoring Practices, editable combobox with list autocomplete.

import { speakerPage, wordsOf } from "./api.js";
import { announce, field, h, nextId } from "./dom.js";
import { count } from "./words.js";

const PAUSE_MS = 180;

/** A field for one speaker. `chosen` is the speaker, null while there is none; `onchoice` hears of each change. */
export class Picker {
  constructor(label, onchoice = () => {}) {
    this.onchoice = onchoice;
    this.chosen = null;
    this.options = [];
    this.active = -1;
    this.asked = 0;
    this.build(label);
  }

  build(label) {
    const list = nextId("speakers");
    const aria = { role: "combobox", "aria-expanded": "false", "aria-controls": list, "aria-autocomplete": "list" };
    this.input = h("input", {
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "Search by name",
      ...aria,
    });
    this.list = h("ul", { id: list, role: "listbox", "aria-label": label, hidden: true });
    this.field = field(label, this.input);
    this.input.after(this.list);
    this.root = this.field.root;
    this.root.classList.add("picker");
    const on = { input: () => this.later(), keydown: (event) => this.press(event), click: () => this.offer() };
    for (const [event, listener] of Object.entries(on)) this.input.addEventListener(event, listener);
    this.root.addEventListener("focusout", (event) => this.root.contains(event.relatedTarget) || this.leave());
    // Without this a press on an option would move the focus and close the list before the click arrives.
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
  }

  /** The first speaker of the store, or the one of this id; false where there is nobody. */
  async start(choose = (speakers) => speakers[0]) {
    const page = await speakerPage(null, null);
    const speaker = choose(page.speakers);
    if (speaker) this.choose(speaker, false);
    return page.total > 0;
  }

  choose(speaker, tell = true) {
    this.chosen = speaker;
    this.input.value = speaker.name;
    this.field.fail("");
    this.close();
    this.onchoice(speaker);
    if (tell) announce(`${speaker.name} is chosen.`);
  }

  /** Everybody, and whatever is typed next takes the place of the chosen name. */
  offer() {
    this.input.select();
    this.search("");
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(this.input.value.trim()), PAUSE_MS);
  }

  async search(name) {
    const asked = ++this.asked;
    try {
      const page = await speakerPage(name, null);
      // An answer that is overtaken by a newer question is of no use.
      if (asked !== this.asked) return;
      this.name = name;
      this.options = [];
      this.list.replaceChildren();
      this.extend(page);
      announce(page.total ? `${count(page.total, "speaker")}.` : "Nobody of this name.");
    } catch (error) {
      this.field.fail(wordsOf(error));
    }
  }

  extend(page) {
    this.list.querySelector(".more")?.remove();
    const more = page.next_cursor && { more: page.next_cursor, name: `Show more of ${page.total}` };
    this.options = this.options.filter((option) => !option.more).concat(page.speakers, more || []);
    const shown = this.list.children.length;
    this.list.append(...this.options.slice(shown).map((option) => this.item(option)));
    if (!this.options.length) this.list.replaceChildren(h("li", { class: "none" }, "Nobody of this name"));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.move(-1);
  }

  item(option) {
    const marks = {
      id: nextId("option"),
      role: "option",
      "aria-selected": String(option.speaker_id === this.chosen?.speaker_id),
    };
    const about = option.more ? "" : ` ${Object.values(option.labels).join(", ")}`;
    const item = h("li", { class: option.more ? "more" : null, ...marks }, option.name, h("small", {}, about));
    item.addEventListener("click", () => this.take(option));
    return item;
  }

  async take(option) {
    if (!option.more) return this.choose(option);
    const shown = this.options.length - 1;
    try {
      this.extend(await speakerPage(this.name, option.more));
      this.move(shown);
    } catch (error) {
      this.field.fail(wordsOf(error));
    }
  }

  press(event) {
    const open = !this.list.hidden;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      if (open) this.move((this.active + steps[event.key] + this.options.length) % Math.max(1, this.options.length));
      else this.search("");
    } else if (event.key === "Enter" && open && this.options[this.active]) {
      event.preventDefault();
      this.take(this.options[this.active]);
    } else if (event.key === "Escape" && open) {
      this.leave();
    }
  }

  move(index) {
    this.list.children[this.active]?.classList.remove("active");
    this.active = index;
    const item = this.options.length ? this.list.children[index] : null;
    item?.classList.add("active");
    item?.scrollIntoView({ block: "nearest" });
    if (item) this.input.setAttribute("aria-activedescendant", item.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  leave() {
    this.close();
    // What was typed and not chosen is nobody.
    this.input.value = this.chosen?.name ?? "";
  }

  close() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.active = -1;
  }
}
