/**
 * The training form, and any other with options of a card. The server makes everything; this tells it when to make it
 * anew, marks what differs from the defaults, and searches the models.
 */

const PANEL_DELAY_MS = 300;
const LOOKS_DELAY_MS = 500;

const form = document.querySelector("[data-train-form], [data-option-form]");

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control */

/** @returns {Control[]} */
function optionControls() {
  return form ? [...form.querySelectorAll(/** @type {"input"} */ ("[data-default]"))] : [];
}

/** @param {Control} control */
function value(control) {
  if (control instanceof HTMLInputElement && control.type === "checkbox") return control.checked ? "on" : "";
  return control.value;
}

/**
 * ``1e-3`` and ``0.001`` are the same.
 * @param {string} one
 * @param {string} other
 */
function same(one, other) {
  return one === other || (one !== "" && other !== "" && Number(one) === Number(other));
}

/** @param {Control} control */
function isModified(control) {
  return !same(value(control), control.dataset.default ?? "");
}

function markModified() {
  let count = 0;
  for (const control of optionControls()) {
    const modified = isModified(control);
    control.closest("[data-field]")?.toggleAttribute("data-modified", modified);
    if (modified) count += 1;
  }
  form?.querySelector("[data-modified-summary]")?.toggleAttribute("hidden", count === 0);
  const counter = form?.querySelector("[data-modified-count]");
  if (counter) counter.textContent = String(count);
}

/** Bounds that HTML cannot say: those that are themselves excluded. @param {Control} control */
function checkBounds(control) {
  if (!(control instanceof HTMLInputElement)) return;
  const number = control.valueAsNumber;
  const { above, below } = control.dataset;
  let complaint = "";
  if (above !== undefined && number <= Number(above)) complaint = `Must be greater than ${above}.`;
  if (below !== undefined && number >= Number(below)) complaint = `Must be less than ${below}.`;
  control.setCustomValidity(complaint);
}

/** The browser's own verdict, shown beside the field until the server's arrives. @param {Control} control */
function showError(control) {
  checkBounds(control);
  const message = control.validity.valid ? "" : control.validationMessage;
  control.setAttribute("aria-invalid", String(!control.validity.valid));
  const place = document.getElementById(`${control.id}-error`);
  if (place) place.textContent = message;
}

/** @param {Control} control */
function reset(control) {
  const wanted = control.dataset.default ?? "";
  if (control instanceof HTMLInputElement && control.type === "checkbox") control.checked = wanted === "on";
  else control.value = wanted;
  control.dispatchEvent(new Event("change", { bubbles: true }));
}

/** @type {Map<string, number>} */
const timers = new Map();

/**
 * @param {string} event
 * @param {number} delay_ms
 */
function later(event, delay_ms) {
  window.clearTimeout(timers.get(event));
  timers.set(
    event,
    window.setTimeout(() => form && htmx.trigger(form, event), delay_ms),
  );
}

/**
 * @param {EventTarget | null} target
 * @returns {target is Control}
 */
function isControl(target) {
  // Of texts over several lines only those that are options: notes change nothing that the panel shows.
  if (target instanceof HTMLTextAreaElement) return target.dataset.default !== undefined;
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
}

/** @param {Event} event */
function onEdit(event) {
  const control = event.target;
  if (!isControl(control)) return;
  if (control.matches("[data-model-search]")) {
    search(control.value);
    return;
  }
  if (control.dataset.picks) {
    const radio = document.getElementById(control.dataset.picks);
    if (radio instanceof HTMLInputElement) radio.checked = true;
  }
  if (control.dataset.default !== undefined) {
    showError(control);
    markModified();
  }
  tell(control, event.type === "change");
}

/**
 * @param {Control} control
 * @param {boolean} done whether the person has left the field, or it is one that has no in-between
 */
function tell(control, done) {
  if (done && control.closest("[data-structure]")) {
    // The panel follows when the fields have come: a choice that they no longer offer would be called wrong there.
    window.clearTimeout(timers.get("fovea:options"));
    later("fovea:structure", 0);
    return;
  }
  later("fovea:options", PANEL_DELAY_MS);
  if (control.closest("[data-looks]")) later("fovea:looks", LOOKS_DELAY_MS);
}

/** @param {string} text */
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const choice of document.querySelectorAll("[data-words]")) {
    const fits = words.every((word) => choice.getAttribute("data-words")?.includes(word));
    choice.toggleAttribute("hidden", !fits);
    if (fits) found += 1;
  }
  document.querySelector("[data-no-model]")?.toggleAttribute("hidden", found > 0);
}

/** After the fields came anew: the search as it was, and the chosen model in sight. */
function restoreModels() {
  const box = form?.querySelector("[data-model-search]");
  if (box instanceof HTMLInputElement && box.value) search(box.value);
  const list = form?.querySelector("[data-model-list]");
  const chosen = list?.querySelector("input:checked")?.closest("[data-words]");
  if (list && chosen instanceof HTMLElement) list.scrollTop = chosen.offsetTop - list.clientHeight / 3;
}

/** @param {Event} event */
function onSwap(event) {
  markModified();
  if (event.target instanceof Element && event.target.id === "training-body") {
    restoreModels();
    later("fovea:options", 0);
  }
}

/** @param {Event} event */
function onClick(event) {
  const target = event.target instanceof Element ? event.target : null;
  const one = target?.closest("[data-reset]")?.closest("[data-field]");
  const all = target?.closest("[data-reset-all]");
  if (!one && !all) return;
  for (const control of optionControls()) {
    if (isModified(control) && (all || one?.contains(control))) reset(control);
  }
}

/** @param {Event} event */
function onSubmit(event) {
  const wrong = optionControls().find((control) => {
    checkBounds(control);
    return !control.validity.valid;
  });
  if (!wrong) return;
  event.preventDefault();
  wrong.closest("details")?.setAttribute("open", "");
  showError(wrong);
  wrong.focus();
}

if (form) {
  form.addEventListener("input", onEdit);
  form.addEventListener("change", onEdit);
  form.addEventListener("click", onClick);
  form.addEventListener("submit", onSubmit);
  document.addEventListener("htmx:afterSettle", onSwap);
  markModified();
  restoreModels();
}
