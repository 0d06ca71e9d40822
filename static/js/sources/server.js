// @ts-check
/** The server as the upload code asks it: with the page's CSRF token, renewed when somebody signed in in another tab. */

import { isStaleToken, UploadError, uploadErrorOf } from "../upload/answers.js";
import { ENDPOINT } from "../upload/tus.js";

/**
 * @typedef {{id: string, name: string, size: number, offset: number, complete: boolean, created_at: string,
 *   expires_at: string, fingerprint: string}} KnownUpload
 */

function csrfToken() {
  return document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";
}

/** Signing in makes a new token; that of this page is then refused. */
async function renewToken() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const token = page.querySelector('meta[name="csrf-token"]')?.getAttribute("content");
  if (!token) return;
  document.querySelector('meta[name="csrf-token"]')?.setAttribute("content", token);
  document.body.setAttribute("hx-headers", JSON.stringify({ "X-CSRFToken": token }));
  for (const field of document.querySelectorAll('input[name="csrfmiddlewaretoken"]'))
    field.setAttribute("value", token);
}

/**
 * @param {string} address
 * @param {RequestInit} init
 */
async function fetchWithToken(address, init) {
  const answer = await fetch(address, init);
  if (answer.status !== 403 || !isStaleToken(await uploadErrorOf(answer.clone()))) return answer;
  await renewToken();
  const headers = new Headers(init.headers);
  headers.set("X-CSRFToken", csrfToken());
  return fetch(address, { ...init, headers });
}

/** @type {import("../upload/tus.js").UploadWorld} */
export const browserWorld = {
  fetch: fetchWithToken,
  setTimer: (run, delay_ms) => window.setTimeout(run, delay_ms),
  clearTimer: (timer) => window.clearTimeout(timer),
  now_ms: () => performance.now(),
  random: Math.random,
  csrfToken,
};

/** @returns {Promise<KnownUpload[]>} mine, newest first */
export async function knownUploads() {
  const answer = await fetch(ENDPOINT.replace(/\/$/, ""), { headers: { Accept: "application/json" } });
  if (!answer.ok) throw await uploadErrorOf(answer);
  return answer.json();
}

/** @param {string} id */
export async function deleteUpload(id) {
  const headers = { "Tus-Resumable": "1.0.0", "X-CSRFToken": csrfToken(), Accept: "application/json" };
  const answer = await fetchWithToken(ENDPOINT + id, { method: "DELETE", headers });
  if (!answer.ok && answer.status !== 404) throw await uploadErrorOf(answer);
}

/**
 * What went wrong, for a person.
 * @param {unknown} error
 */
export function wordsOf(error) {
  if (error instanceof UploadError) return { message: error.message, hint: error.hint, status: error.status };
  return { message: "The server does not answer.", hint: "Check the connection, then try again.", status: 0 };
}
