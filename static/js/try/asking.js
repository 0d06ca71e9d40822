// @ts-check
/** Questions to a trained network. An image goes along with each of them: the server keeps none. */

import { browserWorld } from "../sources/server.js";

/** `truth` is empty of what somebody brought. @typedef {{name: string, truth: string, picture: string, file: File | null, dataset: number, id: number}} TriedImage */
/** @typedef {{label: number, name: string, probability: number}} Guess */
/** @typedef {{id: number, name: string, step: number, epoch: number}} Checkpoint */
/** @typedef {{id: number, name: string, backend: string, precision: string, outcome: string, checkpoint: string}} Export */
/** @typedef {{code: string, message: string, hint: string}} Problem */
/**
 * @typedef {{name: string, width: number, height: number, top: Guess[], seen: string, decode_ms: number,
 *   forward_ms: number, error: Problem | null}} ImageAnswer
 */
/**
 * One of `checkpoint` and `export` answered.
 * @typedef {{checkpoint: Checkpoint | null, export: Export | null, image_px: number, load_ms: number,
 *   images: ImageAnswer[]}} Answer
 */

/** Why a question got no answer, in words for a person. `status` is 0 where the server did not answer at all. */
export class AskError extends Error {
  /**
   * @param {number} status of HTTP
   * @param {string} code of the API
   * @param {string} message
   * @param {string} hint
   */
  constructor(status, code, message, hint) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }

  /** It concerns this image; the others may be asked about all the same. */
  get isOfImage() {
    return this.code === "image.invalid" || this.status === 413 || this.status === 422;
  }
}

/**
 * @param {string} address
 * @param {TriedImage} image
 * @param {Record<string, string | number | null>} query what is null is left out
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 * @throws {AskError}
 */
export async function ask(address, image, query, signal) {
  const init = { method: "POST", headers: headersOf(image), body: await bodyOf(image), ...(signal ? { signal } : {}) };
  let answer;
  try {
    answer = await browserWorld.fetch(withQuery(address, query), init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new AskError(0, "", "The server does not answer.", "Check the connection, then try again.");
  }
  if (!answer.ok) throw await askErrorOf(answer);
  return answer;
}

/**
 * @param {string} address
 * @param {Record<string, string | number | null>} query
 */
export function withQuery(address, query) {
  const known = Object.entries(query).filter(([, value]) => value !== null);
  const text = new URLSearchParams(known.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${address}?${text}` : address;
}

/** @param {TriedImage} image @returns {Record<string, string>} */
function headersOf({ file }) {
  const own = { Accept: "application/json", "X-CSRFToken": browserWorld.csrfToken() };
  return file ? own : { ...own, "Content-Type": "application/json" };
}

/** @param {TriedImage} image */
async function bodyOf({ file, name, dataset, id }) {
  if (!file) return JSON.stringify({ sample: { dataset, id } });
  try {
    // A file that was moved or changed since it was chosen fails here, not as if the server were gone.
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new AskError(422, "", `${name} cannot be read any more.`, "It was moved or changed; choose it again.");
  }
  const form = new FormData();
  form.append("files", file, name);
  return form;
}

/** @param {Response} answer @returns {Promise<AskError>} */
async function askErrorOf(answer) {
  if (answer.status === 401) {
    return new AskError(
      401,
      "auth.required",
      "You are no longer signed in.",
      "Sign in in another tab, then try again.",
    );
  }
  try {
    const { error } = await answer.json();
    if (error?.message) return new AskError(answer.status, error.code ?? "", error.message, error.hint ?? "");
  } catch {
    // Not an answer of the API, for example of a proxy: the number is all there is to tell.
  }
  return new AskError(answer.status, "", `The server answered ${answer.status}.`, "Try again.");
}
