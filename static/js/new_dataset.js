// @ts-check
/** The page of a new dataset: its name follows from what is chosen, as long as nobody wrote another. */

import { found } from "./dom.js";
import { SourceForm } from "./sources/form.js";
import { ARCHIVE } from "./upload/parcel.js";

const WORDS = {
  start: "Import",
  stop: "Do not import yet",
  waits: "Imports when the upload is complete. Keep this page open until then.",
  nothing: /** @type {[string, string]} */ ([
    "There is nothing to import yet.",
    "Choose an archive, a folder or files.",
  ]),
};

/** The field that names the dataset. */
class Name {
  /** @param {HTMLInputElement} field */
  constructor(field) {
    this.field = field;
    /** What this page wrote into it; what a person wrote stays. */
    this.suggested = field.value;
  }

  /** @param {string} text */
  suggest(text) {
    if (this.field.value !== "" && this.field.value !== this.suggested) return;
    this.suggested = text.replace(ARCHIVE, "");
    this.field.value = this.suggested;
  }

  /** @param {EventTarget | null} edited */
  follow(edited) {
    if (!(edited instanceof HTMLInputElement)) return;
    if (edited.name === "sample") this.suggest(edited.dataset.name ?? "");
    if (!["path", "lists_folder"].includes(edited.name)) return;
    this.suggest(edited.value.split("/").filter(Boolean).at(-1) ?? "");
  }
}

const form = document.querySelector("[data-import-form]");
if (form instanceof HTMLFormElement) {
  const name = new Name(found("[name=name]", HTMLInputElement, form));
  form.addEventListener("change", (event) => name.follow(event.target));
  new SourceForm(form, WORDS, { onname: (text) => name.suggest(text) });
}
