// What a server that asks for consent wants to know before it enrols: whose voice it is, and the sentence as they say it.

import { Refusal, wordsOf } from "./api.js";
import { Clips } from "./clips.js";
import { announce, field, h } from "./dom.js";

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
