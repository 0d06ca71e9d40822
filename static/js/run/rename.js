// @ts-check
/** The title, changed where it stands. */

import { element, found } from "../dom.js";
import { toast } from "../main.js";
import { sendJson } from "./api.js";

/** @typedef {import("./api.js").JobSummary} JobSummary */

const MOST_CHARACTERS = "200";

/**
 * @param {number} jobId
 * @param {(job: JobSummary) => void} onRenamed
 */
export function mountRename(jobId, onRenamed) {
  const button = document.querySelector("[data-rename]");
  const title = found("[data-run-title]", HTMLElement);
  button?.addEventListener("click", () => {
    const input = element("input", { class: "input run-rename", "aria-label": "Title", maxlength: MOST_CHARACTERS });
    input.value = title.textContent ?? "";
    let open = true;
    /** @param {boolean} save */
    const close = (save) => {
      if (!open) return;
      open = false;
      input.replaceWith(title);
      const wanted = input.value.trim();
      if (save && wanted !== "" && wanted !== title.textContent) void rename(jobId, wanted, onRenamed);
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") close(true);
      if (event.key === "Escape") close(false);
    });
    input.addEventListener("blur", () => close(true));
    title.replaceWith(input);
    input.select();
  });
}

/**
 * @param {number} jobId
 * @param {string} title
 * @param {(job: JobSummary) => void} onRenamed
 */
async function rename(jobId, title, onRenamed) {
  try {
    onRenamed(await sendJson("PATCH", `/api/v1/jobs/${jobId}`, { title }));
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "error");
  }
}
