// Making a key, and its secret: shown once, here, and kept nowhere.

import { askJson, serverLimits, wordsOf } from "./api.js";
import { announce, button, field, h, isBusy, whileBusy } from "./dom.js";

const SCOPES = [
  ["speak", "Speak"],
  ["enrol", "Enrol, change and delete speakers"],
  ["admin", "Administer: everything, for all tenants"],
];
const LIMITS = [
  ["requests_per_minute", "Requests a minute"],
  ["characters_per_month", "Characters a month"],
  ["speakers", "Stored speakers"],
];

/** The form; `onmade` hears of each new key. */
export class KeyForm {
  constructor(onmade) {
    this.onmade = onmade;
    this.secret = h("div", {});
    this.fields = makeFields();
    this.boxes = SCOPES.map(([name]) => h("input", { type: "checkbox", value: name }));
    this.reset();
    this.scopeError = h("p", { class: "error", role: "alert", hidden: true });
    this.go = h("button", { class: "primary" }, "Make the key");
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.form = h(
      "form",
      { class: "panel", novalidate: "", on: { submit: (event) => this.submit(event) } },
      ...this.layout(),
    );
    this.root = h("div", {}, this.form, this.secret);
  }

  layout() {
    const { name, tenant, expires_in_days } = this.fields;
    const labels = SCOPES.map(([, words], index) => h("label", { class: "check" }, this.boxes[index], words));
    return [
      h("div", { class: "columns three" }, name.root, tenant.root, expires_in_days.root),
      h("fieldset", { class: "field" }, h("legend", {}, "It may"), ...labels, this.scopeError),
      h("div", { class: "columns three" }, ...LIMITS.map(([limit]) => this.fields[limit].root)),
      this.problem,
      h("div", { class: "row" }, this.go),
    ];
  }

  reset() {
    for (const each of Object.values(this.fields)) each.control.value = "";
    for (const box of this.boxes) box.checked = box.value !== "admin";
  }

  async submit(event) {
    event.preventDefault();
    if (isBusy(this.go)) return;
    this.clear();
    const scopes = this.boxes.filter((box) => box.checked).map((box) => box.value);
    if (!this.fields.name.control.value.trim()) return this.point("name", "Say what the key is for.");
    if (!scopes.length) return this.point("scopes", "Choose what it may do.");
    try {
      const wrong = this.wrong((await serverLimits()).key_limits);
      if (wrong) return this.point(...wrong);
      const json = this.order(scopes);
      const made = await whileBusy(this.go, "Making it", () => askJson("POST", "v1/admin/keys", { json }));
      this.reset();
      this.show(made);
      await this.onmade();
    } catch (error) {
      this.refuse(error);
    }
  }

  /** The first limit that cannot be, and what could. */
  wrong(bounds) {
    if (Number.isNaN(this.number("expires_in_days")))
      return ["expires_in_days", "Give a number of days, or leave it empty."];
    for (const [name] of LIMITS) {
      const [least, most] = bounds[name];
      const value = this.number(name);
      if (value === null || (Number.isInteger(value) && value >= least && value <= most)) continue;
      const range = `${least.toLocaleString("en")} to ${most.toLocaleString("en")}`;
      return [name, `Give a whole number, ${range}, or leave it empty.`];
    }
  }

  order(scopes) {
    const { name, tenant } = this.fields;
    const order = { name: name.control.value.trim(), tenant: tenant.control.value.trim(), scopes, limits: {} };
    for (const [limit] of LIMITS) if (this.number(limit) !== null) order.limits[limit] = this.number(limit);
    if (this.number("expires_in_days") !== null) order.expires_in_days = this.number("expires_in_days");
    return order;
  }

  /** What stands in a field; null where it is empty, NaN where it is no number. */
  number(name) {
    const written = this.fields[name].control.value.trim().replace(",", ".");
    return written === "" ? null : Number(written);
  }

  show({ name, key }) {
    const input = h("input", { type: "text", value: key, readonly: "", autocomplete: "off", spellcheck: "false" });
    const shown = field(`Key for ${name}`, input, "Keep it now: it cannot be shown again.");
    const copy = async () => {
      const copied = await copyOf(input);
      announce(copied ? "The key is copied." : "The key is selected; copy it from there.");
      pressed.textContent = copied ? "Copied" : "Copy it from there";
    };
    const pressed = button("Copy", copy);
    const hide = button("I have kept it", () => (box.remove(), this.fields.name.control.focus()));
    const box = h("div", { class: "note panel" }, shown.root, h("div", { class: "row" }, pressed, hide));
    this.secret.prepend(box);
    input.focus();
    input.select();
  }

  refuse(error) {
    const name = error.details?.field === "expires_at" ? "expires_in_days" : error.details?.field;
    if (this.fields[name] || name === "scopes") this.point(name, wordsOf(error));
    else this.say(wordsOf(error));
  }

  point(name, words) {
    if (name === "scopes") {
      this.scopeError.textContent = words;
      this.scopeError.hidden = false;
      return this.boxes[0].focus();
    }
    this.fields[name].fail(words);
    this.fields[name].control.focus();
    announce(words);
  }

  clear() {
    this.say("");
    this.scopeError.hidden = true;
    for (const each of Object.values(this.fields)) each.fail("");
  }

  say(words) {
    this.problem.textContent = words;
    this.problem.hidden = !words;
  }
}

function makeFields() {
  const text = (props) => h("input", { type: "text", autocomplete: "off", ...props });
  const amount = () => text({ inputmode: "numeric", placeholder: "without limit" });
  return {
    name: field("What it is for", text({ maxlength: 200 }), "Such as “Reading room”."),
    tenant: field("Tenant", text({ spellcheck: "false" }), "Whose speakers and jobs it sees, if not the shared ones."),
    expires_in_days: field("Ends after days", text({ inputmode: "decimal", placeholder: "never" })),
    ...Object.fromEntries(LIMITS.map(([name, label]) => [name, field(label, amount())])),
  };
}

/** Whether the words of a field are in the clipboard; by plain http from elsewhere browsers may not give it. */
async function copyOf(input) {
  try {
    await navigator.clipboard.writeText(input.value);
    return true;
  } catch {
    input.focus();
    input.select();
    return false;
  }
}
