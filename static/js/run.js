// @ts-check
/**
 * The page of a run. A snapshot of the curves up to some seq, then every event after it: `stream.js` brings them,
 * `store.js` keeps them, the board draws them.
 */

import { addressOf } from "./addresses.js";
import { Board } from "./charts/board.js";
import { plotlyLoaded } from "./charts/plotly.js";
import { found } from "./dom.js";
import { toast } from "./main.js";
import { getJson, hasEnded, sendJson } from "./run/api.js";
import { browserSurroundings, showConnection } from "./run/connection.js";
import { mountControls, showZoomed } from "./run/controls.js";
import { Head } from "./run/head.js";
import { LogTail } from "./run/log.js";
import { Regions } from "./run/regions.js";
import { mountRename } from "./run/rename.js";
import { RunStore } from "./store.js";
import { Stream } from "./stream.js";

/** @typedef {import("./generated/events").Envelope} Envelope */
/** @typedef {import("./run/api.js").JobSummary} JobSummary */

/** Enough that a zoom shows more than the whole did; every point is in the CSV. */
const SNAPSHOT_POINTS = 5000;
const RETRY_SNAPSHOT_MS = 2000;

/** @type {JobSummary} */
let job = JSON.parse(found("#run-data", HTMLScriptElement).textContent ?? "");
let jobFetched_ms = performance.now();
const store = new RunStore();
const chip = found("[data-connection]", HTMLElement);
const head = new Head();
const regions = new Regions(job.id);
const log = new LogTail(job.id, found("[data-log]", HTMLElement));
const board = new Board(
  store,
  {
    jobId: job.id,
    groups: {
      training: found('[data-charts="training"]', HTMLElement),
      system: found('[data-charts="system"]', HTMLElement),
    },
  },
  showZoomed,
);
/** @type {Stream | null} */
let stream = null;

function show() {
  store.best ??= bestOf(job);
  head.show(job, store, (performance.now() - jobFetched_ms) / 1000);
}

/** @param {JobSummary} fresh */
function takeJob(fresh) {
  const moved = fresh.status !== job.status || fresh.title !== job.title || fresh.wait_reason !== job.wait_reason;
  job = fresh;
  jobFetched_ms = performance.now();
  if (moved) regions.request();
  show();
  if (hasEnded(job)) void finish();
}

/** The snapshot of a best checkpoint is in the row; later ones come as events. @param {JobSummary} from */
function bestOf(from) {
  return from.best ? { kind: /** @type {const} */ ("checkpoint.best"), artifact: "", ...from.best } : null;
}

async function refetchJob() {
  try {
    takeJob(await getJson(`/api/v1/jobs/${job.id}`));
  } catch {
    // Without a connection the stream's state says so, and asks again when there is one.
  }
}

/** Everything was said: fetch what is missing of it, and let the connection go. */
async function finish() {
  if (stream && stream.lastSeq < job.last_seq && !(await stream.catchUp())) return;
  stream?.stop();
  board.ended = true;
  board.redraw();
  log.finish();
}

/** @param {Envelope[]} envelopes */
function takeEvents(envelopes) {
  for (const envelope of envelopes) {
    store.append(envelope);
    takeNote(envelope);
  }
  board.redraw();
  show();
}

/** What the server renders it renders again. @param {Envelope} envelope */
function takeNote({ event }) {
  if (event.kind === "scalars" || event.kind === "progress") return;
  regions.request();
  if (event.kind === "attempt.started") log.restart();
}

function follow() {
  stream = new Stream(store.lastSeq, browserSurroundings(job.id), {
    events: takeEvents,
    state: (state) => showConnection(chip, state),
    changed: () => void refetchJob(),
  });
  if (hasEnded(job)) void finish();
  else stream.start();
}

async function begin() {
  try {
    store.load(await getJson(`/api/v1/jobs/${job.id}/curves?max_points=${SNAPSHOT_POINTS}`));
  } catch {
    showConnection(chip, "reconnecting");
    setTimeout(() => void begin(), RETRY_SNAPSHOT_MS);
    return;
  }
  // The page is older than the snapshot: what happened between is in neither the regions nor the events to come.
  if (store.lastSeq > job.last_seq) regions.request();
  board.redraw();
  show();
  follow();
}

async function cancel() {
  found("#cancel-dialog", HTMLDialogElement).close();
  try {
    takeJob(await sendJson("POST", `/api/v1/jobs/${job.id}/cancel`));
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "error");
  }
}

/** @param {Event} event */
function chooseAttempt({ target }) {
  if (!(target instanceof HTMLSelectElement) || !target.matches("[data-log-attempt]")) return;
  log.show(Number(target.value));
  const full = document.querySelector("[data-log-full]");
  if (full instanceof HTMLAnchorElement) full.href = addressOf(`/runs/${job.id}/log/${target.value}`);
}

mountControls(board);
mountRename(job.id, takeJob);
document.querySelector("[data-cancel]")?.addEventListener("click", () => void cancel());
document.addEventListener("change", chooseAttempt);
document.addEventListener("fovea:changed", () => void refetchJob());
window.addEventListener("online", () => stream?.wake());
window.addEventListener("offline", () => stream?.wake());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) stream?.wake();
});
setInterval(() => {
  if (!hasEnded(job)) show();
}, 1000);
show();
void begin();
plotlyLoaded(document).then(
  (plotly) => board.begin(plotly),
  () => toast("The charts could not be loaded. Reload the page to try again.", "error"),
);

/** For tests and for the console: what the page knows. */
Object.assign(window, { fovea: { store, board } });
