// Elements, fields with their errors, and words to a listener. Nothing here ever reads text as markup.

let ids = 0;

/** An id that no other element of the page has. */
export const nextId = (stem) => `${stem}-${++ids}`;

/** An element. `props` are attributes; `on` holds listeners, `value`, `checked` and the like are set as properties. */
export function h(tag, props = {}, ...children) {
  const element = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) setProp(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "multiple", "required", "open"]);

function setProp(element, name, value) {
  if (name === "on") {
    for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
  } else if (PROPERTIES.has(name)) {
    element[name] = value;
  } else if (value !== null && value !== undefined) {
    element.setAttribute(name, value);
  }
}

/** A button that cannot send a form by accident. */
export const button = (label, onclick, props = {}) =>
  h("button", { type: "button", on: { click: onclick }, ...props }, label);

/** A control with its label, a hint, and a place for what is wrong with it. */
export function field(label, control, hint = "") {
  const id = nextId("field");
  const error = h("p", { class: "error", id: `${id}-error`, hidden: true });
  const note = h("p", { class: "hint", id: `${id}-hint`, hidden: !hint }, hint);
  control.id = id;
  control.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
  const root = h("div", { class: "field" }, h("label", { for: id }, label), control, note, error);
  return {
    root,
    control,
    note,
    fail(words) {
      error.textContent = words;
      error.hidden = !words;
      if (words) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    },
  };
}

/** Tells whoever listens to the page instead of looking at it. */
export function announce(words) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  // The same words twice are only read twice if the place was empty in between.
  setTimeout(() => (place.textContent = words), 50);
}

/** A message that stays until it is closed, with something to do about it where there is. */
export function message(words, action = null) {
  const close = () => box.remove();
  const done = () => {
    close();
    action.run();
  };
  const box = h(
    "div",
    { class: "message" },
    h("p", {}, words),
    action && button(action.label, done, { class: "accent-text" }),
    button("×", close, { class: "plain", "aria-label": "Close this message" }),
  );
  document.getElementById("messages").replaceChildren(box);
  announce(words);
  return close;
}

/** Asks before something that cannot be undone; gives true for yes. */
export function confirmed(title, words, yes) {
  return new Promise((resolve) => {
    const heading = nextId("dialog");
    const answer = (value) => () => dialog.close(value);
    const dialog = h(
      "dialog",
      { "aria-labelledby": heading, on: { close: () => (dialog.remove(), resolve(dialog.returnValue === "yes")) } },
      h("h2", { id: heading }, title),
      h("p", {}, words),
      h("div", { class: "row end" }, button("Keep", answer("no")), button(yes, answer("yes"), { class: "danger" })),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The heading of a panel, which takes the focus when the panel opens. */
export const heading = (words, lead = "") =>
  h("header", { class: "title" }, h("h1", { tabindex: "-1" }, words), lead && h("p", { class: "lead" }, lead));

/** Runs `work` while the button says what it does and cannot be pressed again. */
export async function whileBusy(pressed, words, work) {
  const before = pressed.textContent;
  pressed.setAttribute("aria-disabled", "true");
  pressed.textContent = words;
  try {
    return await work();
  } finally {
    pressed.removeAttribute("aria-disabled");
    pressed.textContent = before;
  }
}

/** The button that shows the next page; pressed twice, it asks once. */
export function moreButton(load) {
  const ask = () => isBusy(pressed) || whileBusy(pressed, "Looking", load);
  const pressed = button("Show more", ask, { hidden: true });
  return pressed;
}

/** Whether the button is at work: a disabled button would lose the focus, so it stays enabled and does nothing. */
export const isBusy = (pressed) => pressed.getAttribute("aria-disabled") === "true";
