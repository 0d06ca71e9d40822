// @ts-check
/** The page of exports: what goes into the bundle and how large it is, and how many targets are chosen. */

import { setText } from "./dom.js";
import { formatBytes } from "./format.js";

/** Boxes that a person touched, by value: the list comes anew when an export ends. @type {Map<string, boolean>} */
const touched = new Map();

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll(/** @type {"input"} */ ("[data-bundle] input[name=export]"))];
}

function showBundle() {
  for (const box of boxes()) {
    const wanted = touched.get(box.value);
    if (wanted !== undefined && !box.disabled) box.checked = wanted;
  }
  const taken = boxes().filter((box) => box.checked && !box.disabled);
  const bytes = taken.reduce((sum, box) => sum + Number(box.dataset.bytes), 0);
  const told = document.querySelector("[data-bundle-told]");
  const noun = taken.length === 1 ? "export" : "exports";
  if (told) setText(told, taken.length ? `${taken.length} ${noun}, ${formatBytes(bytes)}` : "Nothing is chosen");
  const button = document.querySelector("[data-bundle-get]");
  if (button instanceof HTMLButtonElement) button.disabled = taken.length === 0;
}

function showTargets() {
  const form = document.querySelector("[data-export-form]");
  const label = form?.querySelector("[data-export-label]");
  const start = form?.querySelector("[data-export-start]");
  if (!form || !label) return;
  const count = form.querySelectorAll("[data-target]:checked").length;
  setText(label, count ? `Export ${count} ${count === 1 ? "target" : "targets"}` : "Choose a target");
  if (start instanceof HTMLButtonElement) start.disabled = count === 0;
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement)) return;
  if (box.name === "export") {
    touched.set(box.value, box.checked);
    showBundle();
  }
  if (box.name === "target") showTargets();
});
document.addEventListener("htmx:afterSettle", showBundle);
document.addEventListener("htmx:oobAfterSwap", showBundle);
showBundle();
showTargets();
