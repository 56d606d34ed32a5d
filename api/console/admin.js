// The section of whoever keeps the server: figures, pruning with a look first, the trash, the audit.

import { ask, askJson, wordsOf } from "./api.js";
import { announce, button, confirmed, field, h, heading, isBusy, message, whileBusy } from "./dom.js";
import { bytes, count, moment } from "./words.js";

/** Builds the section; gives what ends it. */
export async function open(root) {
  root.append(heading("Admin"));
  try {
    const stats = await askJson("GET", "v1/admin/stats");
    const trash = new Trash();
    const audit = new Audit();
    const renew = () => Promise.all([trash.load(), audit.load()]);
    const prune = new Prune(renew);
    root.append(
      part("Figures", figures(stats)),
      part("Prune", prune.form, prune.result),
      part("Trash", trash.root),
      part("Audit", audit.root),
    );
    await renew();
  } catch (error) {
    root.append(h("p", { class: "note", role: "alert" }, wordsOf(error)));
  }
  return () => {};
}

const part = (title, ...children) => h("section", { class: "part" }, h("h2", {}, title), ...children);

function figures(stats) {
  const found = [
    ["Speakers", stats.n_speakers.toLocaleString("en")],
    ["Clips", stats.n_clips.toLocaleString("en")],
    ["In the trash", stats.n_deleted.toLocaleString("en")],
    ["Database", bytes(stats.database_bytes)],
    ["Index", bytes(stats.index_bytes)],
    ["Kept clips", bytes(stats.clip_bytes)],
    ["Speaking now", String(stats.speech_under_way)],
    ["Enrolling now", String(stats.enrolments_under_way)],
    ["Voice in use", stats.model],
    ["Revision", String(stats.revision)],
  ];
  return h(
    "dl",
    { class: "facts" },
    ...found.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}

const CONDITIONS = [
  ["unused_for_days", "Unused for", "Days since it last spoke."],
  ["older_than_days", "Older than", "Days since it was enrolled."],
  ["keep_newest_used", "All but", "How many stay, those used last."],
  ["speech_below_s", "Speech below", "Seconds of speech it was made from."],
  ["coherence_below", "Steadiness below", "0 to 1, as in its report."],
  ["duplicates_above", "Likeness above", "0.5 to 1; of two so alike the one used last stays."],
];

/** Who would go is always shown first, and only that is removed. */
class Prune {
  constructor(onchange) {
    this.onchange = onchange;
    this.fields = Object.fromEntries(
      CONDITIONS.map(([name, label, hint]) => [
        name,
        field(label, h("input", { type: "text", inputmode: "decimal", autocomplete: "off" }), hint),
      ]),
    );
    this.look = h("button", {}, "See who would go");
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.result = h("div", { class: "result", role: "status" });
    const intro = h("p", { class: "hint" }, "Whoever meets one of these goes. Pinned speakers and those in use stay.");
    const grid = h("div", { class: "columns three" }, ...Object.values(this.fields).map((each) => each.root));
    this.form = h(
      "form",
      { class: "panel", novalidate: "", on: { submit: (event) => this.submit(event) } },
      intro,
      grid,
      this.error,
      h("div", { class: "row" }, this.look),
    );
  }

  policy() {
    const filled = Object.entries(this.fields).filter(([, each]) => each.control.value.trim() !== "");
    return Object.fromEntries(
      filled.map(([name, each]) => [name, Number(each.control.value.trim().replace(",", "."))]),
    );
  }

  async submit(event) {
    event.preventDefault();
    if (isBusy(this.look)) return;
    this.fail("");
    const policy = this.policy();
    const wrong = Object.entries(policy).find(([, value]) => Number.isNaN(value));
    if (wrong) return this.fail("Give a number.", wrong[0]);
    await this.guard(async () =>
      this.show(policy, await whileBusy(this.look, "Looking", () => this.run(policy, true))),
    );
  }

  run(policy, dry_run) {
    return askJson("POST", "v1/admin/prune", { json: { ...policy, dry_run } });
  }

  show(policy, report) {
    const { victims } = report;
    const title = victims.length
      ? `${count(victims.length, "speaker")} would go, ${count(report.kept, "stays", "stay")}.`
      : `Nobody would go; ${count(report.kept, "stays", "stay")}.`;
    const rows = victims.slice(0, 200).map((each) => h("li", {}, h("strong", {}, each.name), ` ${each.reason}`));
    const more = victims.length > rows.length ? [h("li", {}, `and ${victims.length - rows.length} more`)] : [];
    const go = victims.length
      ? button(`Remove ${count(victims.length, "speaker")}`, () => this.apply(policy, victims.length), {
          class: "danger",
        })
      : null;
    this.result.replaceChildren(h("p", {}, title), h("ul", {}, ...rows, ...more), ...(go ? [go] : []));
  }

  async apply(policy, n) {
    const words = "Where the server has a time to undo they can be brought back from the trash; else this is final.";
    if (!(await confirmed(`Remove ${count(n, "speaker")}?`, words, "Remove"))) return;
    await this.guard(async () => {
      const report = await this.run(policy, false);
      this.result.replaceChildren(
        h("p", {}, `${count(report.victims.length, "speaker")} removed, ${count(report.kept, "stays", "stay")}.`),
      );
      await this.onchange();
    });
  }

  async guard(work) {
    try {
      await work();
    } catch (error) {
      this.fail(wordsOf(error), error.details?.field);
    }
  }

  fail(words, name) {
    if (!words) for (const each of Object.values(this.fields)) each.fail("");
    if (this.fields[name]) {
      this.fields[name].fail(words);
      this.fields[name].control.focus();
    } else {
      this.error.textContent = words;
      this.error.hidden = !words;
    }
  }
}

class Trash {
  constructor() {
    this.root = h("div", {});
  }

  async load() {
    const { deleted } = await askJson("GET", "v1/admin/deleted");
    const rows = deleted.map((each) => this.row(each));
    this.root.replaceChildren(
      rows.length ? h("ul", { class: "people" }, ...rows) : h("p", { class: "hint" }, "It is empty."),
    );
  }

  row(each) {
    const act = (work) => () =>
      work().then(
        () => this.load(),
        (error) => message(wordsOf(error)),
      );
    const back = async () => {
      await ask("POST", `v1/speakers/${each.speaker_id}/undelete`);
      announce(`${each.name} is back.`);
    };
    const erase = async () => {
      const words = "Every row and file of this voice goes. This cannot be undone.";
      if (!(await confirmed(`Erase ${each.name}?`, words, "Erase"))) return;
      const receipt = await askJson("POST", "v1/admin/purge", { json: { speaker_ids: [each.speaker_id] } });
      message(`${each.name} is erased. Receipt ${receipt.id}.`);
    };
    const about = h(
      "div",
      { class: "about" },
      h("span", { class: "name" }, each.name),
      h("small", {}, `deleted ${moment(each.deleted_at)}, erased ${moment(each.purge_after)}`),
    );
    const actions = [
      button("Bring back", act(back), { "aria-label": `Bring back ${each.name}` }),
      button("Erase now", act(erase), { class: "plain", "aria-label": `Erase now: ${each.name}` }),
    ];
    return h("li", {}, about, h("div", { class: "row" }, ...actions));
  }
}

class Audit {
  constructor() {
    this.body = h("tbody");
    const titles = ["When", "Who", "What", "Speakers", "Clips"].map((title) => h("th", { scope: "col" }, title));
    const table = h(
      "table",
      {},
      h("caption", { class: "unseen" }, "Who did what, newest first"),
      h("thead", {}, h("tr", {}, ...titles)),
      this.body,
    );
    this.root = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Audit" }, table);
  }

  async load() {
    const { lines } = await askJson("GET", "v1/admin/audit", { query: { limit: 20 } });
    const rows = lines.map((line) =>
      [moment(line.at), line.actor, line.action, line.n_speakers, line.n_clips].map((cell) =>
        h("td", {}, String(cell)),
      ),
    );
    this.body.replaceChildren(...rows.map((cells) => h("tr", {}, ...cells)));
  }
}
