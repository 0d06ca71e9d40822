// @ts-check
/** By which a browser knows again what it was uploading when its tab was closed. Not a secret, and no checksum. */

/** @typedef {import("./drop.js").Choice} Choice */

/** @param {File} file */
export function fingerprintOfFile(file) {
  return `file-${digest([`${file.name}\n${file.size}\n${file.lastModified}`])}`;
}

/**
 * Of files that travel as one archive: the listing stands for them.
 * @param {Choice} choice sorted by path
 */
export function fingerprintOfListing(choice) {
  const lines = choice.files.map(({ path, file }) => `${path}\n${file.size}\n${file.lastModified}\n`);
  return `tar-${digest([...lines, ...choice.emptyFolders.map((folder) => `${folder}/\n`)])}`;
}

const SEEDS = [0x9e3779b9, 0x243f6a88, 0xb7e15162, 0x71374491];
const FACTORS = [597399067, 2869860233, 951274213, 2716044179];

/**
 * 128 bits of a non-cryptographic hash: `crypto.subtle` is absent on plain http.
 * @param {string[]} texts
 */
function digest(texts) {
  const words = Uint32Array.from(SEEDS);
  for (const text of texts) {
    for (let index = 0; index < text.length; index += 1) mix(words, text.charCodeAt(index));
  }
  for (let round = 0; round < 8; round += 1) mix(words, round);
  return Array.from(words, (word) => word.toString(16).padStart(8, "0")).join("");
}

/**
 * @param {Uint32Array} words
 * @param {number} code
 */
function mix(words, code) {
  let carry = code;
  for (let index = 0; index < 4; index += 1) {
    const word = Math.imul((words[index] ?? 0) ^ carry, FACTORS[index] ?? 1);
    carry = (word ^ (word >>> 15)) >>> 0;
    words[index] = carry;
  }
}
