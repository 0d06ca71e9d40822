/** The tables of the home page: selection, and rows that stay true without a reload. */

import { addressOf, socketAddressOf } from "./addresses.js";
import { followChanges } from "./home/changes.js";

/** @typedef {import("./home/changes.js").ListState} ListState */

const POLL_MS = 5000;
const COALESCE_MS = 1000;
/** Progress and time left move on without the job's state changing, so the rows of live jobs are asked for as well. */
const LIVE_ROWS_MS = 3000;

const lists = document.querySelector("[data-lists]");

/** Ids chosen by a check mark; kept here because rows are replaced when their job changes. @type {Set<string>} */
const selected = new Set();

/** Jobs that changed since the last refresh. @type {Set<number>} */
const changed = new Set();

/** @type {Record<ListState, {label: string, title: string}>} */
const WORDS = {
  live: { label: "Live", title: "What happens is shown at once." },
  polling: { label: "Polling", title: "No live connection; the server is asked every 5 seconds." },
  "signed-out": { label: "Signed out", title: "Reload the page and sign in to go on." },
};

let refreshAt = 0;
let poll = 0;
let liveRows = 0;
let signedOut = false;

/** @returns {NodeListOf<HTMLInputElement>} */
function boxes(/** @type {ParentNode} */ root) {
  return root.querySelectorAll('input[name="ids"]:not(:disabled)');
}

function showSelection() {
  for (const table of document.querySelectorAll("[data-table]")) {
    let count = 0;
    for (const box of boxes(table)) {
      box.checked = selected.has(box.value);
      box.closest("tr")?.setAttribute("aria-selected", String(box.checked));
      if (box.checked) count += 1;
    }
    table.querySelector("[data-bulk]")?.toggleAttribute("hidden", count === 0);
    const counter = table.querySelector("[data-bulk-count]");
    if (counter) counter.textContent = String(count);
    const all = table.querySelector("[data-select-all]");
    if (all instanceof HTMLInputElement) {
      all.checked = count > 0 && count === boxes(table).length;
      all.indeterminate = count > 0 && !all.checked;
    }
  }
}

/** @param {HTMLInputElement} box */
function remember(box) {
  if (box.checked) selected.add(box.value);
  else selected.delete(box.value);
}

/** @param {Event} event */
function onChange(event) {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
  if (box.matches("[data-select-all]")) {
    for (const each of boxes(box.closest("[data-table]") ?? document)) {
      each.checked = box.checked;
      remember(each);
    }
  } else remember(box);
  showSelection();
}

/** Rows that are on the page are replaced one by one; anything else asks for the tables anew. */
async function refresh() {
  const ids = [...changed];
  changed.clear();
  if (!ids.length || document.hidden) return;
  const known = ids.every((id) => document.getElementById(`job-${id}`)) && ids.length <= 50;
  const settled = lists?.querySelector(".empty") === null;
  if (known && settled)
    await htmx.ajax("GET", addressOf(`/rows/?ids=${ids.join(",")}`), { swap: "none", source: "#content" });
  else await refreshAll();
}

async function refreshAll() {
  await htmx.ajax("GET", location.pathname + location.search, { target: "#lists", source: "#content" });
}

/** @param {number} job */
function onJobChanged(job) {
  changed.add(job);
  if (refreshAt) return;
  refreshAt = window.setTimeout(() => {
    refreshAt = 0;
    refresh();
  }, COALESCE_MS);
}

/** Something was done to a job here; its row need not wait for the socket. @param {Event} event */
function onAsked(event) {
  if (event instanceof CustomEvent) onJobChanged(Number(event.detail.job));
}

function refreshLiveRows() {
  for (const row of document.querySelectorAll("tr[data-live]")) onJobChanged(Number(row.getAttribute("data-job")));
}

/** @param {ListState} state */
function showState(state) {
  const chip = document.querySelector("[data-connection]");
  if (!(chip instanceof HTMLElement)) return;
  chip.dataset.connection = state;
  chip.textContent = WORDS[state].label;
  chip.title = WORDS[state].title;
}

/** @param {ListState} state */
function onState(state) {
  showState(state);
  window.clearInterval(poll);
  poll = state === "polling" ? window.setInterval(refreshAll, POLL_MS) : 0;
  if (state !== "signed-out") return;
  // Every answer from now on would be the page to sign in.
  signedOut = true;
  window.clearInterval(liveRows);
  window.clearTimeout(refreshAt);
}

function openSocket() {
  const socket = new WebSocket(socketAddressOf("/ws/changes/"));
  return /** @type {import("./home/changes.js").ChangesSocket} */ (/** @type {unknown} */ (socket));
}

if (lists) {
  document.addEventListener("change", onChange);
  document.addEventListener("fovea:changed", onAsked);
  document.addEventListener("htmx:afterSettle", showSelection);
  document.addEventListener("htmx:oobAfterSwap", showSelection);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !signedOut) refreshAll();
  });
  liveRows = window.setInterval(refreshLiveRows, LIVE_ROWS_MS);
  showSelection();
  const setTimer = (/** @type {() => void} */ run, /** @type {number} */ delay_ms) => setTimeout(run, delay_ms);
  followChanges({ openSocket, setTimer }, { state: onState, changed: onJobChanged, missed: refreshAll });
}
