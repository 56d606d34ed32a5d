// The frame: sections by the address, the key, and where the focus goes.

import { key } from "./api.js";
import { announce, button, field, h } from "./dom.js";
import { silence } from "./player.js";

// A section is a module with `open(root, parameters)`, which gives what ends it. A new one needs a line here.
const SECTIONS = [
  { id: "speak", title: "Speak", load: () => import("./speak.js") },
  { id: "jobs", title: "Jobs", load: () => import("./jobs.js") },
  { id: "enrol", title: "Enrol", load: () => import("./enrol.js") },
  { id: "speakers", title: "Speakers", load: () => import("./speakers.js") },
  { id: "map", title: "Map", load: () => import("./map.js") },
  { id: "keys", title: "Keys", load: () => import("./keys.js") },
  { id: "admin", title: "Admin", load: () => import("./admin.js") },
];
const main = document.getElementById("main");
let end = () => {};
let opened = 0;

/** #/speakers/ID?name=value as a section and its parameters. */
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [section, id] = path.split("/").map(decodeURIComponent);
  const found = SECTIONS.find((each) => each.id === section) ?? SECTIONS[0];
  return { section: found, parameters: { id, ...Object.fromEntries(new URLSearchParams(query)) } };
}

async function show(moved) {
  const { section, parameters } = place();
  const number = ++opened;
  end();
  end = () => {};
  silence();
  for (const link of document.querySelectorAll("#sections a")) {
    if (link.dataset.section === section.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const root = h("div", { class: "section", "data-section": section.id });
  main.replaceChildren(root);
  const close = await section.load().then(({ open }) => open(root, parameters), unloaded(root));
  // Whoever has gone on meanwhile must not find this section's sounds still there.
  if (number !== opened) return close();
  end = close;
  root.dataset.ready = "";
  const title = root.querySelector("h1");
  document.title = `${title?.textContent ?? section.title} · Voicekin`;
  if (!moved) return;
  window.scrollTo(0, 0);
  title?.focus({ preventScroll: true });
}

const unloaded = (root) => () => {
  root.append(
    h(
      "p",
      { class: "error", role: "alert" },
      "This section cannot be loaded. See whether the server runs, then reload the page.",
    ),
  );
  return () => {};
};

function askKey() {
  const input = h("input", { type: "password", autocomplete: "off", value: key.get(), spellcheck: "false" });
  const asked = field("API key", input, "Kept in this tab until it is closed, and sent to this server only.");
  const save = (event) => {
    event.preventDefault();
    setKey(input.value.trim());
    dialog.close();
  };
  const forget = button("Forget it", () => (setKey(""), dialog.close()));
  const form = h(
    "form",
    { on: { submit: save } },
    h("h2", { id: "key-title" }, "Key"),
    asked.root,
    h(
      "div",
      { class: "row end" },
      forget,
      button("Cancel", () => dialog.close()),
      h("button", { class: "primary" }, "Use this key"),
    ),
  );
  const dialog = h("dialog", { "aria-labelledby": "key-title", on: { close: () => dialog.remove() } }, form);
  document.body.append(dialog);
  dialog.showModal();
}

function setKey(value) {
  key.set(value);
  showKey();
  announce(value ? "The key is used from now on." : "The key is forgotten.");
  // A section that holds what somebody has recorded or written keeps it, and looks again by itself.
  if (main.firstChild.dispatchEvent(new Event("newkey", { cancelable: true }))) show(false);
}

function showKey() {
  const pressed = document.getElementById("key");
  pressed.textContent = key.get() ? "Key ••••" : "Key";
  pressed.setAttribute("aria-label", key.get() ? "Key, one is in use" : "Key, none is in use");
}

document
  .getElementById("sections")
  .append(...SECTIONS.map(({ id, title }) => h("li", {}, h("a", { href: `#/${id}`, "data-section": id }, title))));
document.getElementById("key").addEventListener("click", askKey);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// A file that misses its place must not replace the page.
for (const event of ["dragover", "drop"]) window.addEventListener(event, (moved) => moved.preventDefault());
window.addEventListener("hashchange", () => show(true));
showKey();
show(false);
