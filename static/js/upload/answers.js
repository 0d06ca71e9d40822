// @ts-check
/** How the server's answers to an upload are read, and how long to wait after a bad one. */

const TUS_VERSION = "1.0.0";
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

/** What the server said no with, in words for a person. `status` is 0 of what this page found out by itself. */
export class UploadError extends Error {
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
}

/** Why a request was given up: because a person wanted it. */
export class Halt extends Error {}

/**
 * @param {Record<string, string>} headers
 * @param {string} csrfToken
 */
export function headersOf(headers, csrfToken) {
  return { "Tus-Resumable": TUS_VERSION, "X-CSRFToken": csrfToken, Accept: "application/json", ...headers };
}

/**
 * Whether it is worth while to ask again: held by another (423), at another offset than thought (409), too many requests,
 * or trouble of the server that may pass. A full disk does not pass by waiting a second.
 * @param {UploadError} error
 */
export function isPassing({ status, code }) {
  if (status === 507 || code === "disk.full") return false;
  return [408, 409, 423, 425, 429].includes(status) || status >= 500;
}

/** Somebody signed in meanwhile, in another tab: the page's token is no longer the session's. @param {UploadError} error */
export function isStaleToken({ code }) {
  return code === "auth.csrf";
}

/**
 * 0.5 s doubled with each failure up to 30 s, less up to a quarter by chance.
 * @param {number} nFailures
 * @param {number} chance 0 to 1
 */
export function backoff_ms(nFailures, chance) {
  const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.max(0, nFailures - 1));
  return longest * (1 - chance / 4);
}

/**
 * @param {Response} answer
 * @param {string} header
 */
export function bytesOf(answer, header) {
  const text = answer.headers.get(header) ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  throw new UploadError(502, "", `The server did not say how much it has (${header}).`, "");
}

/**
 * @param {Response} answer
 * @returns {Promise<UploadError>}
 */
export async function uploadErrorOf(answer) {
  const known = WORDS[answer.status];
  // The API's own words are for programs: they speak of tokens.
  if (answer.status === 401 && known) return new UploadError(401, known.code, known.message, known.hint);
  try {
    const { error } = await answer.json();
    if (error?.message) return new UploadError(answer.status, error.code ?? "", error.message, error.hint ?? "");
  } catch {
    // The answer to HEAD has no body; that of a proxy is not ours.
  }
  const message = known?.message ?? `The server answered ${answer.status} to this upload.`;
  return new UploadError(answer.status, known?.code ?? "", message, known?.hint ?? "Try again.");
}

/** @type {Record<number, {code: string, message: string, hint: string}>} */
const WORDS = {
  401: { code: "auth.required", message: "You are no longer signed in.", hint: "What has arrived is kept." },
  404: {
    code: "upload.missing",
    message: "The server no longer has this upload: it expired or was deleted.",
    hint: "Start it again.",
  },
  410: { code: "upload.missing", message: "This upload has expired.", hint: "Start it again." },
  413: {
    code: "upload.refused",
    message: "The server does not take a file of this size.",
    hint: "Choose a smaller one.",
  },
  507: { code: "disk.full", message: "The server's disk is full.", hint: "Free some space there, then go on." },
};
