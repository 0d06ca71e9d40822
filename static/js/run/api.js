// @ts-check
/** The HTTP API as this page uses it. */

import { addressOf } from "../addresses.js";

/**
 * @typedef {{
 *   id: number, title: string, status: string, stage: string, done: number, total: number, progress: number | null,
 *   eta_s: number | null, epoch: number | null, epochs: number | null,
 *   best: {series: string, value: number, step: number} | null, duration_s: number | null,
 *   last_seq: number, n_attempts: number, wait_reason: string, resumes_when: string,
 * }} JobSummary
 */
/** `end` is where the text ends in the file, in bytes. @typedef {{attempt: number, offset: number, end: number, size: number, text: string}} LogChunk */

const ENDED = new Set(["succeeded", "failed", "errored", "cancelled"]);

/** @param {JobSummary} job */
export function hasEnded(job) {
  return ENDED.has(job.status);
}

/** What the server said no with, in words for a person. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} path of this server, from its root
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>} the parsed answer
 */
export async function getJson(path, signal) {
  const response = await fetch(addressOf(path), {
    headers: { Accept: "application/json" },
    ...(signal ? { signal } : {}),
  });
  return answerOf(response);
}

/**
 * @param {"POST" | "PATCH"} method
 * @param {string} path of this server, from its root
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function sendJson(method, path, body) {
  const token = document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";
  const headers = { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": token };
  return answerOf(await fetch(addressOf(path), { method, headers, body: JSON.stringify(body ?? {}) }));
}

/** @param {Response} response */
async function answerOf(response) {
  if (response.ok) return response.json();
  let words = `The server answered ${response.status}.`;
  try {
    const { error } = await response.json();
    words = [error.message, error.hint].filter(Boolean).join(" ");
  } catch {
    // Not an answer of the API, for example of a proxy: the number is all there is to tell.
  }
  throw new ApiError(response.status, words);
}
