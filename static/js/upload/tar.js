// @ts-check
/**
 * Many files as one archive that is never whole anywhere: pieces are made when they are asked for, so that memory stays
 * flat and an interrupted upload can go on in the middle. The same files give the same bytes.
 *
 * POSIX ustar; names that are not plain ASCII or longer than 100 bytes, and sizes over 8 GiB, stand in a pax header.
 */

/** @typedef {import("./drop.js").Choice} Choice */
/** `header` makes the bytes before the content. @typedef {{name: string, file: File | null, nHeaderBytes: number}} Member */

const BLOCK = 512;
const MAX_NAME_BYTES = 100;
const MAX_OCTAL_SIZE = 8 ** 11;
const END_BYTES = 2 * BLOCK;
const utf8 = new TextEncoder();

/** What can be uploaded: a file, or an archive that is made on the way. @typedef {Pick<Blob, "size" | "slice">} Sliceable */

/** @implements {Sliceable} */
export class Tar {
  /** @type {Member[]} */
  #members = [];
  /** Where each member begins. @type {number[]} */
  #starts = [];

  /** @param {Choice} choice */
  constructor({ files, emptyFolders }) {
    const all = [
      ...files.map(({ path, file }) => ({ name: path, file: /** @type {File | null} */ (file) })),
      ...emptyFolders.map((folder) => ({ name: `${folder}/`, file: null })),
    ];
    all.sort((one, other) => compare(one.name, other.name));
    let start = 0;
    for (const { name, file } of all) {
      const member = { name, file, nHeaderBytes: headerOf(name, file).length };
      this.#members.push(member);
      this.#starts.push(start);
      start += sizeOf(member);
    }
    this.size = start + END_BYTES;
  }

  /**
   * @param {number} [start]
   * @param {number} [end]
   */
  slice(start = 0, end = this.size) {
    const parts = [];
    for (let index = this.#memberAt(start); index < this.#members.length; index += 1) {
      const begin = this.#starts[index] ?? 0;
      if (begin >= end) break;
      parts.push(...piecesOf(/** @type {Member} */ (this.#members[index]), start - begin, end - begin));
    }
    const contentEnd = this.size - END_BYTES;
    const nEndBytes = Math.min(end, this.size) - Math.max(start, contentEnd);
    if (nEndBytes > 0) parts.push(new Uint8Array(nEndBytes));
    return new Blob(parts);
  }

  /** The member that holds this byte. @param {number} position */
  #memberAt(position) {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= position) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }
}

/**
 * By code unit: the same everywhere, whatever the language of the browser.
 * @param {string} one
 * @param {string} other
 */
function compare(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** @param {Member} member */
function sizeOf({ file, nHeaderBytes }) {
  return nHeaderBytes + roundedUp(file?.size ?? 0);
}

/** @param {number} nBytes */
function roundedUp(nBytes) {
  return Math.ceil(nBytes / BLOCK) * BLOCK;
}

/**
 * What of a member lies between two positions, counted from its begin.
 * @param {Member} member
 * @param {number} start
 * @param {number} end
 * @returns {BlobPart[]}
 */
function piecesOf(member, start, end) {
  const { name, file, nHeaderBytes } = member;
  /** @type {BlobPart[]} */
  const pieces = [];
  if (start < nHeaderBytes) pieces.push(headerOf(name, file).slice(Math.max(0, start), Math.max(0, end)));
  if (!file) return pieces;
  const contentEnd = nHeaderBytes + file.size;
  if (end > nHeaderBytes && start < contentEnd) {
    pieces.push(file.slice(Math.max(0, start - nHeaderBytes), Math.min(file.size, end - nHeaderBytes)));
  }
  const nPadding = Math.min(end, sizeOf(member)) - Math.max(start, contentEnd);
  if (nPadding > 0) pieces.push(new Uint8Array(nPadding));
  return pieces;
}

/**
 * @param {string} name
 * @param {File | null} file null of a folder
 */
function headerOf(name, file) {
  const bytes = utf8.encode(name);
  const size = file?.size ?? 0;
  const records = [];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII but what no header may hold.
  if (bytes.length > MAX_NAME_BYTES || !/^[\x01-\x7f]*$/.test(name)) records.push(paxRecord("path", bytes));
  if (size >= MAX_OCTAL_SIZE) records.push(paxRecord("size", utf8.encode(String(size))));
  const mtime_s = Math.max(0, Math.floor((file?.lastModified ?? 0) / 1000));
  const block = headerBlock(bytes, size, mtime_s, file ? "0" : "5");
  if (!records.length) return block;
  const pax = joined(records);
  const extra = headerBlock(utf8.encode("pax"), pax.length, mtime_s, "x");
  const padded = new Uint8Array(roundedUp(pax.length));
  padded.set(pax);
  return joined([extra, padded, block]);
}

/**
 * `<length> <key>=<value>\n`, where the length counts its own digits.
 * @param {string} key
 * @param {Uint8Array} value
 */
function paxRecord(key, value) {
  const nRest = key.length + value.length + 3;
  let length = nRest + String(nRest).length;
  if (String(length).length + nRest !== length) length = nRest + String(length).length;
  return joined([utf8.encode(`${length} ${key}=`), value, utf8.encode("\n")]);
}

/**
 * @param {Uint8Array} name
 * @param {number} size
 * @param {number} mtime_s
 * @param {"0" | "5" | "x"} type
 */
function headerBlock(name, size, mtime_s, type) {
  const block = new Uint8Array(BLOCK);
  const text = (/** @type {number} */ at, /** @type {string} */ value) => block.set(utf8.encode(value), at);
  block.set(name.subarray(0, MAX_NAME_BYTES), 0);
  text(100, octal(type === "5" ? 0o755 : 0o644, 8));
  text(108, octal(0, 8));
  text(116, octal(0, 8));
  text(124, octal(size >= MAX_OCTAL_SIZE ? 0 : size, 12));
  text(136, octal(mtime_s, 12));
  text(148, " ".repeat(8));
  text(156, type);
  text(257, "ustar\u000000");
  const sum = block.reduce((total, byte) => total + byte, 0);
  text(148, `${sum.toString(8).padStart(6, "0")}\u0000 `);
  return block;
}

/**
 * @param {number} value
 * @param {number} width with the zero byte at its end
 */
function octal(value, width) {
  return `${value.toString(8).padStart(width - 1, "0")}\u0000`;
}

/** @param {Uint8Array[]} arrays */
function joined(arrays) {
  const whole = new Uint8Array(arrays.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const array of arrays) {
    whole.set(array, at);
    at += array.length;
  }
  return whole;
}
