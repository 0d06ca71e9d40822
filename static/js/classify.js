// @ts-check
/** The form of a classification: where the images are, and a start that waits for the upload. */

import { SourceForm } from "./sources/form.js";

const WORDS = {
  start: "Classify",
  stop: "Do not start yet",
  waits: "Starts when the upload is complete. Keep this page open until then.",
  nothing: /** @type {[string, string]} */ ([
    "There is nothing to classify yet.",
    "Choose images, a folder or an archive.",
  ]),
};

const form = document.querySelector("[data-classify-form]");
if (form instanceof HTMLFormElement) new SourceForm(form, WORDS, { classesNeeded: false });
