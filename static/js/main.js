/** What every page needs: the theme, the menu of small screens, dialogs, copy buttons and short messages. */

import { addressOf } from "./addresses.js";

const THEMES = /** @type {const} */ (["system", "light", "dark"]);
const THEME_LABELS = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
const YEAR_S = 31_536_000;

/** @returns {"system" | "light" | "dark"} */
function chosenTheme() {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

function mountTheme() {
  const button = document.querySelector("[data-theme-toggle]");
  const label = document.querySelector("[data-theme-label]");
  if (!button || !label) return;
  label.textContent = THEME_LABELS[chosenTheme()];
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length] ?? "system";
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    // The server renders the choice into the page, so that a dark page never flashes light.
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is absent on plain http.
    document.cookie = `theme=${next}; path=${addressOf("/")}; max-age=${YEAR_S}; SameSite=Lax`;
    label.textContent = THEME_LABELS[next];
    document.dispatchEvent(new CustomEvent("fovea:theme"));
  });
}

function mountRail() {
  const rail = document.querySelector("[data-rail]");
  const toggle = document.querySelector("[data-rail-toggle]");
  toggle?.addEventListener("click", () => {
    const open = rail?.toggleAttribute("data-open") ?? false;
    toggle.setAttribute("aria-expanded", String(open));
  });
}

/**
 * A short message at the corner of the page.
 * @param {string} text
 * @param {"info" | "error"} [tone]
 */
export function toast(text, tone = "info") {
  const element = document.createElement("div");
  element.className = tone === "error" ? "toast toast-error" : "toast";
  element.textContent = text;
  document.getElementById("toasts")?.append(element);
}

/**
 * What is asked for every few seconds fails every few seconds: said once.
 * @param {HTMLElement} node
 * @param {HTMLElement} toasts
 */
function dropOthersOf(node, toasts) {
  const text = node.textContent?.trim();
  for (const other of [...toasts.children]) {
    if (other !== node && other.textContent?.trim() === text) other.remove();
  }
}

/** Takes messages away after a while, wherever they came from: the server's own arrive here through htmx. */
function mountToasts() {
  const toasts = document.getElementById("toasts");
  if (!toasts) return;
  new MutationObserver((changes) => {
    for (const node of changes.flatMap((change) => [...change.addedNodes])) {
      if (!(node instanceof HTMLElement)) continue;
      dropOthersOf(node, toasts);
      const serious = node.classList.contains("toast-error") || node.classList.contains("banner");
      setTimeout(() => node.remove(), serious ? 9000 : 4000);
    }
  }).observe(toasts, { childList: true });
}

/** @param {Element} button */
async function copyFrom(button) {
  const source = document.getElementById(button.getAttribute("data-copy") ?? "");
  if (!source) return;
  const text = source instanceof HTMLInputElement ? source.value : (source.textContent ?? "");
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    // No clipboard on plain http: select the text, so that the keyboard can copy it.
    getSelection()?.selectAllChildren(source);
    toast("Press Ctrl+C to copy the selected text");
  }
}

/** @param {MouseEvent} event */
function onClick(event) {
  const target = event.target instanceof Element ? event.target : null;
  const copy = target?.closest("[data-copy]");
  if (copy) copyFrom(copy);
  const opener = target?.closest("[data-dialog]");
  if (opener) openDialog(opener.getAttribute("data-dialog") ?? "");
  target?.closest("[data-dialog-close]")?.closest("dialog")?.close();
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!target || !menu.contains(target) || target.closest(".menu-item")) menu.removeAttribute("open");
  }
}

/** @param {string} id */
function openDialog(id) {
  const dialog = document.getElementById(id);
  if (dialog instanceof HTMLDialogElement) dialog.showModal();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.removeAttribute("open");
    menu.querySelector("summary")?.focus();
  }
}

/** A dialog whose content came from the server opens when it arrives. */
function mountRemoteDialog() {
  const dialog = document.getElementById("dialog");
  if (!(dialog instanceof HTMLDialogElement)) return;
  dialog.addEventListener("htmx:afterSwap", () => {
    if (!dialog.open) dialog.showModal();
  });
}

const RELATIVE = [
  { limit_s: 60, unit_s: 0, name: "just now" },
  { limit_s: 3600, unit_s: 60, name: "m" },
  { limit_s: 86_400, unit_s: 3600, name: "h" },
  { limit_s: 86_400 * 60, unit_s: 86_400, name: "d" },
];

/** @param {number} seconds */
function since(seconds) {
  const step = RELATIVE.find(({ limit_s }) => seconds < limit_s);
  if (!step) return `${Math.floor(seconds / (86_400 * 30))} months ago`;
  return step.unit_s ? `${Math.floor(seconds / step.unit_s)}${step.name} ago` : step.name;
}

function refreshTimes() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const moment = new Date(time.getAttribute("datetime") ?? "");
    time.textContent = since((Date.now() - moment.getTime()) / 1000);
    time.setAttribute("title", moment.toLocaleString());
  }
}

mountTheme();
mountRail();
mountToasts();
mountRemoteDialog();
refreshTimes();
setInterval(refreshTimes, 20_000);
document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
