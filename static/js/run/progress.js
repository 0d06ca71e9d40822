// @ts-check
/** How far a run is, in words. Pure: the job's row and the events say it, whichever is newer. */

import { etaSeconds, formatCount, formatDuration, MISSING } from "../format.js";
import { hasEnded } from "./api.js";

/** @typedef {import("./api.js").JobSummary} JobSummary */
/** @typedef {import("../store.js").RunStore} RunStore */
/** `share` is 0 to 1, null where it is not known. @typedef {{share: number | null, progress: string, step: string, epoch: string, eta: string, elapsed: string}} ProgressTexts */

/**
 * @param {JobSummary} job
 * @param {RunStore} store
 * @param {number} sinceFetch_s how old `job` is
 * @returns {ProgressTexts}
 */
export function progressTexts(job, store, sinceFetch_s) {
  const { stage, done, total } = present(job, store);
  const ended = hasEnded(job);
  const share = shareOf(job, done, total);
  const training = total > 0 && total === store.attempt?.total_steps;
  return {
    share,
    progress: share === null ? MISSING : `${wordOf(stage, training || ended)}${Math.floor(share * 100)} %`,
    step: training ? `${formatCount(done)} / ${formatCount(total)}` : MISSING,
    epoch: training ? epochText(done, total, store.stepsPerEpoch, ended) : MISSING,
    eta: job.status === "running" ? timeLeft(job, store, total) : MISSING,
    elapsed: job.duration_s === null ? MISSING : formatDuration(job.duration_s + (isAtWork(job) ? sinceFetch_s : 0)),
  };
}

/**
 * @param {JobSummary} job
 * @param {number} done
 * @param {number} total
 */
function shareOf(job, done, total) {
  if (job.status === "succeeded") return 1;
  return total > 0 ? Math.min(1, done / total) : null;
}

/** Whether an attempt is open, so that time goes on. @param {JobSummary} job */
function isAtWork(job) {
  return ["starting", "running", "pausing", "cancelling"].includes(job.status);
}

/**
 * The text of the browser's tab, to be read from afar.
 * @param {JobSummary} job
 * @param {number | null} share
 */
export function documentTitle(job, share) {
  const moving = job.status === "running" || job.status === "cancelling" || job.status === "pausing";
  const state = moving && share !== null ? `${Math.floor(share * 100)} %` : statusLabel(job.status);
  return `${state} · ${job.title} · Fovea`;
}

/** @param {string} status */
export function statusLabel(status) {
  return status.slice(0, 1).toUpperCase() + status.slice(1);
}

/**
 * @param {JobSummary} job
 * @param {RunStore} store
 */
function present(job, store) {
  const live = store.progress;
  return live && !hasEnded(job) ? live : job;
}

/**
 * @param {string} stage
 * @param {boolean} training
 */
function wordOf(stage, training) {
  return training || stage === "" ? "" : `${statusLabel(stage)} `;
}

/**
 * @param {number} done
 * @param {number} total
 * @param {number} perEpoch
 * @param {boolean} ended
 */
function epochText(done, total, perEpoch, ended) {
  if (perEpoch <= 0) return MISSING;
  const epochs = Math.ceil(total / perEpoch);
  const whole = Math.floor(done / perEpoch);
  return `${ended ? whole : Math.min(whole + 1, epochs)} / ${epochs}`;
}

/**
 * @param {JobSummary} job
 * @param {RunStore} store
 * @param {number} total
 */
function timeLeft(job, store, total) {
  const left_s = etaSeconds(store.progressSamples, total) ?? job.eta_s;
  return left_s === null ? MISSING : formatDuration(left_s);
}
