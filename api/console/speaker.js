// The page of one speaker: name and labels, more clips, its nearest neighbours, the report, and its end.

import { askJson, serverLimits, wordsOf } from "./api.js";
import { Clips } from "./clips.js";
import { consentsOf } from "./consent.js";
import { announce, button, field, h, heading, message } from "./dom.js";
import { LabelsEditor, Sending } from "./enrol.js";
import { reportView } from "./report.js";
import { pinButton, removeSpeaker } from "./speakers.js";
import { ago, count, likeness, moment, seconds } from "./words.js";

/** Builds the page; gives what ends it. */
export async function openSpeaker(root, id) {
  const path = `v1/speakers/${encodeURIComponent(id)}`;
  const back = h("p", {}, h("a", { href: "#/speakers" }, "All speakers"));
  let clips;
  const show = async () => {
    const [speaker, limits] = await Promise.all([askJson("GET", path), serverLimits()]);
    const consents = await consentsOf(speaker, limits);
    clips?.close();
    clips = new Clips(limits);
    root.replaceChildren(back, heading(speaker.name, summary(speaker)), ...page(speaker, clips, show));
    if (consents) root.append(section("Consent", consents));
  };
  try {
    await show();
  } catch (error) {
    root.append(back, heading("No such speaker"), h("p", { class: "error", role: "alert" }, wordsOf(error)));
  }
  return () => clips?.close();
}

function summary(speaker) {
  const spoken = speaker.uses
    ? `spoken with ${count(speaker.uses, "time")}, last ${ago(speaker.last_used_at)}`
    : "not spoken with yet";
  return `Enrolled ${moment(speaker.created_at)}; ${seconds(speaker.speech_s)} of speech from ${count(speaker.n_clips, "clip")}; ${spoken}.`;
}

function page(speaker, clips, show) {
  const gone = () => (location.hash = "#/speakers");
  const back = () => {
    // Whoever has gone on to something else meanwhile is not called back.
    if (location.hash === "#/speakers") location.hash = `#/speakers/${speaker.speaker_id}`;
  };
  const remove = async () => {
    try {
      if (await removeSpeaker(speaker, back)) gone();
    } catch (error) {
      message(wordsOf(error));
    }
  };
  const actions = h("div", { class: "row" });
  const named = () => {
    const speak = h(
      "a",
      { class: "button primary", href: `#/speak?voice=${speaker.speaker_id}` },
      `Speak as ${speaker.name}`,
    );
    actions.replaceChildren(speak, pinButton(speaker), button("Delete", remove, { class: "danger-text" }));
  };
  named();
  const report = speaker.report.clips ? reportView(speaker.report) : h("p", { class: "hint" }, "There is none.");
  return [
    actions,
    section("Sounds most like", neighbours(speaker)),
    section("Name and labels", editor(speaker, named)),
    section("Add clips", adder(speaker, clips, show)),
    section("Report of the last upload", report),
  ];
}

const section = (title, ...parts) => h("section", { class: "part" }, h("h2", {}, title), ...parts);

function neighbours(speaker) {
  const place = h("ol", { class: "near" });
  const show = ({ matches }) => {
    const rows = matches.map((match) => {
      const bar = h("span", { class: "bar-of" }, h("span"));
      bar.firstChild.style.transform = `scaleX(${Math.max(0, match.cosine)})`;
      return h(
        "li",
        {},
        h("a", { href: `#/speakers/${match.speaker_id}` }, match.name),
        bar,
        h("span", {}, `${match.cosine.toFixed(2)}, ${likeness(match.cosine)}`),
      );
    });
    place.replaceChildren(...(rows.length ? rows : [h("li", {}, "Nobody else is enrolled.")]));
  };
  askJson("GET", `v1/speakers/${speaker.speaker_id}/similar`, { query: { k: 6 } }).then(show, (error) =>
    place.replaceChildren(h("li", { class: "error" }, wordsOf(error))),
  );
  return place;
}

function editor(speaker, onname) {
  const name = field("Name", h("input", { type: "text", value: speaker.name, maxlength: 200, autocomplete: "off" }));
  const labels = new LabelsEditor(speaker.labels);
  const save = async (event) => {
    event.preventDefault();
    name.fail("");
    labels.fail("");
    try {
      const json = { name: name.control.value, labels: labels.value() };
      const changed = await askJson("PATCH", `v1/speakers/${speaker.speaker_id}`, { json });
      Object.assign(speaker, changed);
      document.querySelector("h1").textContent = speaker.name;
      onname();
      announce("Saved.");
    } catch (error) {
      const part = error.code === "bad_labels" || error.details?.field === "labels" ? labels : name;
      part.fail(wordsOf(error));
    }
  };
  const actions = h("div", { class: "row" }, h("button", {}, "Save"));
  return h("form", { class: "panel", novalidate: "", on: { submit: save } }, name.root, labels.root, actions);
}

function adder(speaker, clips, show) {
  const sending = new Sending();
  const send = async (event) => {
    event.preventDefault();
    if (sending.busy) return;
    clips.fail("");
    if (!clips.items.length) return clips.fail("Record something or choose a file first.");
    const form = new FormData();
    clips.fill(form);
    try {
      await sending.send(`v1/speakers/${speaker.speaker_id}/clips`, form);
      await show();
      message(`The clips are added to ${speaker.name}.`);
      document.querySelector("h1").focus();
    } catch (error) {
      if ([413, 415, 422].includes(error.status)) clips.refuse(error);
      else sending.fail(wordsOf(error));
    }
  };
  const actions = h("div", { class: "row" }, h("button", {}, "Add them"), sending.root);
  return h("form", { class: "panel", novalidate: "", on: { submit: send } }, clips.root, sending.error, actions);
}
