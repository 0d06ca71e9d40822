// @ts-check
/** What a person drops, pastes or chooses, as images to try; or why not, before anything is sent. */

import { formatBytes, formatCount } from "../format.js";
import { ARCHIVE, ChoiceError } from "../upload/parcel.js";

/** @typedef {import("./asking.js").TriedImage} TriedImage */
/** `problem` is why an image need not even be sent. @typedef {{image: TriedImage, problem: {message: string, hint: string} | null}} Chosen */

const CLUTTER = /(^|\/)(\.ds_store|thumbs\.db|desktop\.ini|\._[^/]*)$/i;

/**
 * @param {import("../upload/drop.js").PathedFile[]} files
 * @param {{at_once: number, most_bytes: number}} limits
 * @returns {Chosen[]}
 * @throws {ChoiceError} there is nothing, or too much of it
 */
export function chosenOf(files, limits) {
  const useful = files.filter(({ path }) => !CLUTTER.test(path));
  if (!useful.length) throw new ChoiceError("There is no file in it.", "Drop one or several images.");
  if (useful.length > limits.at_once) {
    throw new ChoiceError(
      `These are ${formatCount(useful.length)} files; ${limits.at_once} are tried at once.`,
      "Choose fewer, or classify them all as a job.",
    );
  }
  return useful.map(({ path, file }) => ({ image: imageOfFile(file, path), problem: problemOf(file, path, limits) }));
}

/**
 * @param {File} file
 * @param {string} name
 * @returns {TriedImage}
 */
export function imageOfFile(file, name) {
  return { name, truth: "", picture: "", file, dataset: 0, id: 0 };
}

/**
 * @param {File} file
 * @param {string} name
 * @param {{most_bytes: number}} limits
 */
function problemOf(file, name, { most_bytes }) {
  if (ARCHIVE.test(name)) {
    return { message: `${name} is an archive, not an image.`, hint: "Classify what is in it as a job." };
  }
  if (!file.size) return { message: `${name} is empty (0 bytes).`, hint: "Choose another file." };
  if (file.size > most_bytes) {
    const sizes = `${formatBytes(file.size)}; at most ${formatBytes(most_bytes)} are taken`;
    return { message: `${name} holds ${sizes}.`, hint: "Make it smaller, or classify it as a job." };
  }
  return null;
}
