// @ts-check
/** The stream's surroundings in a browser, and the words for its state. */

import { socketAddressOf } from "../addresses.js";
import { Refusal } from "../stream.js";
import { ApiError, getJson } from "./api.js";

/** @typedef {import("../stream.js").ConnectionState} ConnectionState */

const REQUEST_WITHIN_MS = 10_000;

/** @type {Record<ConnectionState, {label: string, title: string}>} */
const WORDS = {
  connecting: { label: "Connecting", title: "Asking the server for live updates." },
  live: { label: "Live", title: "What happens is shown at once." },
  reconnecting: { label: "Reconnecting", title: "No connection. What is shown may be old; nothing will be missing." },
  polling: { label: "Polling", title: "No live connection; the server is asked every 2 seconds." },
  finished: { label: "Finished", title: "Everything that was recorded is shown." },
  "signed-out": { label: "Signed out", title: "Reload the page and sign in to go on." },
  gone: { label: "Gone", title: "This run was deleted, or is not shared with you any more." },
};

/**
 * @param {number} jobId
 * @returns {import("../stream.js").Surroundings}
 */
export function browserSurroundings(jobId) {
  return {
    openSocket: (after) => {
      const socket = new WebSocket(socketAddressOf(`/ws/jobs/${jobId}/?after=${after}`));
      return /** @type {import("../stream.js").SocketLike} */ (/** @type {unknown} */ (socket));
    },
    fetchEvents: async (after, limit) => {
      try {
        const path = `/api/v1/jobs/${jobId}/events?after=${after}&limit=${limit}`;
        return await getJson(path, AbortSignal.timeout(REQUEST_WITHIN_MS));
      } catch (error) {
        throw refusalOf(error) ?? error;
      }
    },
    setTimer: (run, delay_ms) => window.setTimeout(run, delay_ms),
    clearTimer: (timer) => window.clearTimeout(timer),
    random: Math.random,
  };
}

/** @param {unknown} error */
function refusalOf(error) {
  if (!(error instanceof ApiError)) return null;
  if (error.status === 401 || error.status === 403) return new Refusal("signed-out");
  return error.status === 404 ? new Refusal("gone") : null;
}

/**
 * @param {HTMLElement} chip
 * @param {ConnectionState} state
 */
export function showConnection(chip, state) {
  chip.dataset.connection = state;
  chip.textContent = WORDS[state].label;
  chip.title = WORDS[state].title;
}
