// What a server that asks for consent wants to know before it enrols: whose voice it is, and the sentence as they say it.

import { Refusal, askJson, wordsOf } from "./api.js";
import { Clips } from "./clips.js";
import { announce, button, confirmed, field, h } from "./dom.js";
import { moment } from "./words.js";

/** The part of a form that takes a consent. */
export class Consent {
  constructor(limits) {
    this.needsRecording = limits.consent === "recording";
    this.person = field("Whose voice it is", h("input", { type: "text", autocomplete: "off", maxlength: 200 }));
    this.clips = new Clips(
      { ...limits, max_clips: 1 },
      {
        legend: this.needsRecording ? "Their statement" : "Their statement, if it was recorded",
        hint: `That person says: “${limits.consent_statement}”`,
        record: "Record the statement",
      },
    );
    this.root = h("fieldset", { class: "field" }, h("legend", {}, "Consent"), this.person.root, this.clips.root);
  }

  /** Points at what lacks; gives whether nothing does. */
  isWhole() {
    for (const part of [this.person, this.clips]) part.fail("");
    if (!this.person.control.value.trim()) return this.point("Say whose voice it is.");
    if (!this.needsRecording || this.clips.items.length) return true;
    this.clips.fail("Record the statement or choose a file first.");
    this.clips.recordButton.focus();
    announce("Record the statement or choose a file first.");
    return false;
  }

  /** The id of the consent; what was taken once is not sent again with a second try of the enrolment. */
  async give(sending) {
    const person = this.person.control.value.trim();
    const [item] = this.clips.items;
    if (this.given?.person !== person || this.given.blob !== item?.blob) {
      const form = new FormData();
      form.append("person", person);
      if (item) form.append("recording", item.blob, "recording");
      const { consent_id } = await sending.send("v1/consents", form);
      this.given = { person, blob: item?.blob, id: consent_id };
    }
    return this.given.id;
  }

  /** Puts a refusal where it belongs; false where it is about something else. */
  refuse(error) {
    if (error.details?.field === "person") this.point(wordsOf(error));
    else if (error instanceof Refusal && [413, 415, 422].includes(error.status)) this.clips.refuse(error);
    else return false;
    return true;
  }

  point(words) {
    this.person.fail(words);
    this.person.control.focus();
    announce(words);
    return false;
  }

  close() {
    this.clips.close();
  }
}

/** Who agreed to a speaker's voice, what was checked, and a way to end it. Gives nothing where nobody was asked. */
export async function consentsOf(speaker, limits) {
  const place = h("ul", { class: "clips", "aria-label": "Consents" });
  const show = async () => {
    const query = { speaker_id: speaker.speaker_id };
    const { consents } = await askJson("GET", "v1/consents", { query });
    place.replaceChildren(...consents.map((consent) => entry(consent, speaker, show)));
    return consents.length;
  };
  try {
    if (await show()) return place;
  } catch (error) {
    return h("p", { class: "hint" }, wordsOf(error));
  }
  if (limits.consent === "off") return null;
  return h("p", { class: "note" }, "Nobody has agreed yet, so this server does not speak with this voice.");
}

function entry(consent, speaker, show) {
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const revoke = async () => {
    const words = `${speaker.name} is spoken with no more, and its jobs end. This cannot be undone.`;
    if (!(await confirmed(`Revoke the consent of ${consent.person}?`, words, "Revoke"))) return;
    try {
      await askJson("POST", `v1/consents/${consent.consent_id}/revoke`);
      await show();
      announce("The consent is revoked.");
    } catch (refusal) {
      error.textContent = wordsOf(refusal);
      error.hidden = false;
    }
  };
  const end = consent.revoked_at
    ? h("strong", {}, `revoked ${moment(consent.revoked_at)}`)
    : button("Revoke", revoke, { class: "danger-text" });
  const title = h("div", { class: "row spread" }, h("strong", {}, consent.person), end);
  const since = h("p", {}, `Since ${moment(consent.granted_at)}: “${consent.statement}”`);
  return h("li", {}, title, since, h("p", { class: "hint" }, checked(consent)), error);
}

function checked({ recording_sha256, checks }) {
  if (!recording_sha256) return "Without a recording: nothing was checked.";
  const voice = checks.voice
    ? `The recording sounds like every clip (at least ${checks.voice.cosine.toFixed(2)}; ${checks.voice.threshold} was needed).`
    : "The voice of the recording was not compared.";
  return `${voice} ${checks.words ? "It says the sentence." : "Its words were not checked."}`;
}
