// @ts-check
/** What a choice becomes on its way: the archive itself, or one archive made of many files; or why it cannot travel. */

import { fingerprintOfFile, fingerprintOfListing } from "./fingerprint.js";
import { Tar } from "./tar.js";

/** @typedef {import("./drop.js").Choice} Choice */
/**
 * `nFiles` is null of a file that travels as it is.
 * @typedef {{content: import("./tar.js").Sliceable, name: string, title: string, fingerprint: string,
 *   nFiles: number | null}} Parcel
 */

export const ARCHIVE = /\.(zip|tar|tar\.gz|tgz|tar\.zst|tzst)$/i;
const PICTURE = /\.(jpe?g|png|gif|bmp|webp|tiff?|ppm|pgm|pbm|pnm|jp2|avif|heic|ico|tga)$/i;
const CLUTTER = /(^|\/)(\.ds_store|thumbs\.db|desktop\.ini|__macosx(\/.*)?|\._[^/]*)$/i;
const MAX_NAME = 200;

const LAYOUT_HINT =
  "Put the images of each class into a folder with the name of the class, and choose the folder above.";

/** A choice that cannot become a dataset, said before anything is sent. */
export class ChoiceError extends Error {
  /**
   * @param {string} message
   * @param {string} hint
   */
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/**
 * `classesNeeded` is false where images are only to be classified: then a single image travels too, and a flat folder.
 * @param {Choice} choice
 * @param {{classesNeeded?: boolean}} [wishes]
 * @returns {Parcel}
 * @throws {ChoiceError}
 */
export function parcelOf(choice, { classesNeeded = true } = {}) {
  const only = choice.files.length === 1 && !choice.emptyFolders.length ? choice.files[0] : undefined;
  const isPicture = only !== undefined && PICTURE.test(only.path);
  if (only && !only.path.includes("/") && (classesNeeded || !isPicture)) return ofOneFile(only.file);
  refuseUnusable(choice);
  const root = commonRoot(choice);
  if (classesNeeded) refuseFlat(choice, root);
  const title = shortened(root || "images");
  return {
    content: new Tar(choice),
    name: `${title}.tar`,
    title,
    fingerprint: fingerprintOfListing(choice),
    nFiles: choice.files.length,
  };
}

/**
 * A text file, for the lists: any file that is not empty.
 * @param {File} file
 * @returns {Parcel}
 */
export function parcelOfText(file) {
  if (!file.size) throw new ChoiceError(`${file.name} is empty.`, "Choose another file.");
  const name = shortened(file.name);
  return { content: file, name, title: name, fingerprint: fingerprintOfFile(file), nFiles: null };
}

/**
 * @param {File} file
 * @returns {Parcel}
 */
function ofOneFile(file) {
  if (PICTURE.test(file.name)) {
    throw new ChoiceError(
      `${file.name} is one image; a dataset needs several, in a folder for each class.`,
      LAYOUT_HINT,
    );
  }
  if (!ARCHIVE.test(file.name)) {
    throw new ChoiceError(
      `${file.name} is no archive that Fovea opens.`,
      "Choose a .zip, .tar, .tar.gz, .tgz or .tar.zst, or the folder itself.",
    );
  }
  if (!file.size)
    throw new ChoiceError(`${file.name} is empty (0 bytes).`, "Make the archive again and choose it anew.");
  const title = shortened(file.name.replace(ARCHIVE, ""));
  return { content: file, name: shortened(file.name), title, fingerprint: fingerprintOfFile(file), nFiles: null };
}

/** @param {Choice} choice */
function refuseUnusable({ files, emptyFolders }) {
  if (!files.length) {
    const what = emptyFolders.length === 1 ? `The folder ${emptyFolders[0]} holds` : "These folders hold";
    throw new ChoiceError(`${emptyFolders.length ? what : "The folder holds"} no files.`, LAYOUT_HINT);
  }
  const useful = files.filter(({ path }) => !CLUTTER.test(path));
  if (!useful.length) {
    const names = [...new Set(files.map(({ path }) => path.split("/").at(-1)))].slice(0, 3).join(", ");
    throw new ChoiceError(`There are no images here, only files that the system made (${names}).`, LAYOUT_HINT);
  }
  const archives = useful.filter(({ path }) => ARCHIVE.test(path));
  if (archives.length === useful.length && useful.every(({ path }) => !path.includes("/"))) {
    throw new ChoiceError(
      `These are ${archives.length} archives; one can be imported at a time.`,
      "Choose one of them.",
    );
  }
}

/** The folder that holds everything; empty where there are several. @param {Choice} choice */
function commonRoot({ files, emptyFolders }) {
  const first = files[0]?.path ?? "";
  const end = first.indexOf("/");
  if (end < 0) return "";
  const root = first.slice(0, end);
  const inside = (/** @type {string} */ path) => path.startsWith(`${root}/`);
  return files.every(({ path }) => inside(path)) && emptyFolders.every(inside) ? root : "";
}

/**
 * @param {Choice} choice
 * @param {string} root
 */
function refuseFlat({ files }, root) {
  const nLeading = root ? root.length + 1 : 0;
  const pictures = files.filter(({ path }) => PICTURE.test(path) && !CLUTTER.test(path));
  if (!pictures.length || pictures.some(({ path }) => path.slice(nLeading).includes("/"))) return;
  const where = root ? `lie in one folder, ${root}` : "lie in no folder";
  const what = pictures.length === 1 ? "The one image" : `All ${pictures.length.toLocaleString("en-US")} images`;
  throw new ChoiceError(
    `${what} ${pictures.length === 1 ? where.replace("lie", "lies") : where}: no classes can be told.`,
    LAYOUT_HINT,
  );
}

/** @param {string} name */
function shortened(name) {
  if (name.length <= MAX_NAME) return name;
  const ending = ARCHIVE.exec(name)?.[0] ?? "";
  return name.slice(0, MAX_NAME - ending.length) + ending;
}
