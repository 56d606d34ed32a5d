// The section of API keys: who has one, what it may and has used, new ones, and ending them.

import { ask, askJson, wordsOf } from "./api.js";
import { announce, button, confirmed, h, heading, moreButton } from "./dom.js";
import { KeyForm } from "./newkey.js";
import { ago, count, moment } from "./words.js";

const PAGE = 50;

/** Builds the section; gives what ends it. */
export async function open(root) {
  root.append(heading("Keys", "Whoever uses this service from a program gets a key of their own."));
  try {
    const list = new KeyList();
    await list.load();
    const form = new KeyForm(() => list.load());
    root.append(part("Make a key", form.root), part("Keys there are", list.root));
    // What is written, and a secret that nobody has kept yet, must not go with a new key of the page.
    root.addEventListener("newkey", (event) => {
      event.preventDefault();
      list.guard(() => list.load());
    });
  } catch (error) {
    root.append(h("p", { class: "note", role: "alert" }, wordsOf(error)));
  }
  return () => {};
}

const part = (title, ...children) => h("section", { class: "part" }, h("h2", {}, title), ...children);

class KeyList {
  constructor() {
    this.place = h("ul", { class: "people", "aria-label": "Keys" });
    this.summary = h("p", { class: "hint", role: "status", tabindex: "-1" });
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.more = moreButton(() => this.extend());
    this.root = h("div", {}, this.summary, this.problem, this.place, this.more);
  }

  async load() {
    const page = await this.page(null).catch((error) => (this.place.replaceChildren(), Promise.reject(error)));
    this.place.replaceChildren();
    this.show(page);
  }

  page(cursor) {
    return askJson("GET", "v1/admin/keys", { query: { cursor, limit: PAGE } });
  }

  async extend() {
    await this.guard(async () => {
      const shown = this.place.children.length;
      this.show(await this.page(this.cursor));
      this.place.children[shown]?.querySelector(".name").focus();
    });
  }

  show(page) {
    this.cursor = page.next_cursor;
    this.more.hidden = !page.next_cursor;
    this.place.append(...page.keys.map((key) => this.row(key)));
    const shown = this.place.children.length;
    const stored = page.total ? `${shown} of ${count(page.total, "key")} in the store.` : "There is none in the store.";
    this.summary.textContent = `${stored} Those of the server's settings are not listed.`;
  }

  row(key) {
    const { name } = key;
    const end =
      key.state === "live"
        ? button("Revoke", () => this.revoke(key), { class: "danger-text", "aria-label": `Revoke ${name}` })
        : button("Delete", () => this.remove(key), { class: "plain", "aria-label": `Delete ${name}` });
    const about = h(
      "div",
      { class: "about" },
      h("span", { class: "name", tabindex: "-1" }, name),
      h("span", { class: "chips" }, ...key.scopes.map((scope) => h("span", {}, scope))),
      h("small", {}, figures(key)),
      ...usage(key),
    );
    return h("li", { "data-key": key.key_id }, about, h("div", { class: "row" }, end));
  }

  async revoke(key) {
    const words = `Whoever uses ${key.prefix}… is refused from the next request on. This cannot be undone.`;
    if (!(await confirmed(`Revoke ${key.name}?`, words, "Revoke"))) return;
    await this.guard(async () => {
      await askJson("PATCH", `v1/admin/keys/${key.key_id}`, { json: { revoked: true } });
      await this.load();
      this.place.querySelector(`[data-key="${CSS.escape(key.key_id)}"] .name`)?.focus();
      announce(`${key.name} is revoked.`);
    });
  }

  async remove(key) {
    const words = "It is listed no more; the audit keeps that it was. This cannot be undone.";
    if (!(await confirmed(`Delete ${key.name}?`, words, "Delete"))) return;
    await this.guard(async () => {
      await ask("DELETE", `v1/admin/keys/${key.key_id}`);
      await this.load();
      this.summary.focus();
      announce(`${key.name} is deleted.`);
    });
  }

  async guard(work) {
    this.fail("");
    try {
      await work();
    } catch (error) {
      this.fail(wordsOf(error));
    }
  }

  fail(words) {
    this.problem.textContent = words;
    this.problem.hidden = !words;
  }
}

function figures(key) {
  const found = [`${key.prefix}…`];
  if (key.tenant) found.push(`tenant ${key.tenant}`);
  if (key.state === "revoked") found.push(`revoked ${moment(key.revoked_at)}`);
  else if (key.expires_at) found.push(`${key.state === "live" ? "ends" : "ended"} ${moment(key.expires_at)}`);
  found.push(key.last_used_at ? `last used ${ago(key.last_used_at)}` : "not used yet");
  const rate = key.limits.requests_per_minute;
  if (rate !== null) found.push(`at most ${count(rate, "request")} a minute`);
  return found.join("; ");
}

/** What was used of each quota, with a bar where there is a limit. */
const usage = ({ name, usage: used, limits }) => [
  share(name, "characters this month", used.characters_this_month, limits.characters_per_month),
  share(name, "stored speakers", used.speakers, limits.speakers),
];

function share(name, what, used, most) {
  // A limit may be 0, which is another thing than none.
  if (most === null) return h("small", {}, `${used.toLocaleString("en")} ${what}, without limit`);
  const bar = h("progress", { max: Math.max(1, most), "aria-label": `${name}: ${what}` });
  bar.value = most ? Math.min(used, most) : 1;
  const words = `${used.toLocaleString("en")} of ${most.toLocaleString("en")} ${what}`;
  return h("div", { class: "sending" }, bar, h("span", { class: "time" }, words));
}
