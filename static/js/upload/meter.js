// @ts-check
/** How far an upload is, how fast it goes, and how long it will take. */

import { formatBytes, formatDuration } from "../format.js";

const WINDOW_S = 8;
/** Before this much has been seen, a speed would be a guess. */
const SETTLED_S = 1;

/** @typedef {{done: number, total: number, bytes_per_s: number | null, left_s: number | null}} Reading */

export class Meter {
  /** Oldest first. @type {{at_s: number, done: number}[]} */
  #samples = [];

  /** @param {number} total */
  constructor(total) {
    this.total = total;
  }

  /** After a pause: what went before says nothing about the speed from now on. */
  restart() {
    this.#samples = [];
  }

  /**
   * @param {number} done bytes that the server has
   * @param {number} now_s
   * @returns {Reading}
   */
  read(done, now_s) {
    if ((this.#samples.at(-1)?.done ?? 0) > done) this.restart();
    this.#samples.push({ at_s: now_s, done });
    // One sample older than the window stays, so that a single slow piece has something to be compared with.
    while ((this.#samples[1]?.at_s ?? now_s) < now_s - WINDOW_S) this.#samples.shift();
    const first = this.#samples[0] ?? { at_s: now_s, done };
    const seconds = now_s - first.at_s;
    const bytes_per_s = seconds >= SETTLED_S ? (done - first.done) / seconds : null;
    const left_s = bytes_per_s ? (this.total - done) / bytes_per_s : null;
    return { done, total: this.total, bytes_per_s, left_s };
  }
}

/**
 * `312 MB of 1.2 GB, 24 MB/s, 38 s left`, in the units of the rest of the pages.
 * @param {Reading} reading
 */
export function readingText({ done, total, bytes_per_s, left_s }) {
  const parts = [`${formatBytes(done)} of ${formatBytes(total)}`];
  if (bytes_per_s !== null) parts.push(`${formatBytes(bytes_per_s)}/s`);
  if (left_s !== null && done < total) parts.push(`${formatDuration(Math.ceil(left_s))} left`);
  return parts.join(", ");
}
