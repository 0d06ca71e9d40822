// @ts-check
/** What a person drops or chooses: files with their paths, and folders that hold nothing. */

/** @typedef {{path: string, file: File}} PathedFile */
/** @typedef {{files: PathedFile[], emptyFolders: string[]}} Choice */
/** The part of the browser's entries that is used. @typedef {Pick<FileSystemEntry, "isFile" | "isDirectory" | "fullPath" | "name">} Entry */

/** So many files of a folder are opened at once. */
const AT_ONCE = 64;

/**
 * Must be called within the drop event: afterwards the browser forgets the items.
 * @param {DataTransfer} transfer
 * @param {(nFiles: number) => void} [onProgress]
 * @returns {Promise<Choice>}
 */
export function choiceOfDrop(transfer, onProgress = () => {}) {
  const items = [...transfer.items].filter(({ kind }) => kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry());
  if (entries.some((entry) => entry === null)) return Promise.resolve(choiceOfFiles(transfer.files));
  return choiceOfEntries(/** @type {FileSystemEntry[]} */ (entries), onProgress);
}

/**
 * Of an `<input type="file">`, with or without `webkitdirectory`.
 * @param {Iterable<File>} files
 * @returns {Choice}
 */
export function choiceOfFiles(files) {
  const found = [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  return sorted({ files: found, emptyFolders: [] });
}

/**
 * @param {FileSystemEntry[]} entries
 * @param {(nFiles: number) => void} [onProgress]
 * @returns {Promise<Choice>}
 */
export async function choiceOfEntries(entries, onProgress = () => {}) {
  /** @type {Choice} */
  const found = { files: [], emptyFolders: [] };
  const waiting = [...entries];
  while (waiting.length) {
    const batch = waiting.splice(0, AT_ONCE);
    const below = await Promise.all(batch.map((entry) => take(entry, found)));
    for (const inner of below) waiting.push(...inner);
    onProgress(found.files.length);
  }
  return sorted(found);
}

/**
 * Adds a file to what was found, or hands back what a folder holds.
 * @param {FileSystemEntry} entry
 * @param {Choice} found
 * @returns {Promise<FileSystemEntry[]>}
 */
async function take(entry, found) {
  const path = entry.fullPath.replace(/^\/+/, "");
  if (entry.isFile) {
    found.files.push({ path, file: await fileOf(/** @type {FileSystemFileEntry} */ (entry)) });
    return [];
  }
  const inside = await entriesOf(/** @type {FileSystemDirectoryEntry} */ (entry));
  if (!inside.length) found.emptyFolders.push(path);
  return inside;
}

/** @param {FileSystemFileEntry} entry */
function fileOf(entry) {
  return new Promise((/** @type {(file: File) => void} */ resolve, reject) => entry.file(resolve, reject));
}

/**
 * A folder hands out at most a hundred entries at a time, and an empty list at its end.
 * @param {FileSystemDirectoryEntry} folder
 */
async function entriesOf(folder) {
  const reader = folder.createReader();
  /** @type {FileSystemEntry[]} */
  const all = [];
  for (;;) {
    const batch = await new Promise(
      (
        /** @type {(entries: FileSystemEntry[]) => void} */ resolve,
        /** @type {(error: DOMException) => void} */ reject,
      ) => reader.readEntries(resolve, reject),
    );
    if (!batch.length) return all;
    all.push(...batch);
  }
}

/** @param {Choice} choice */
function sorted({ files, emptyFolders }) {
  files.sort((one, other) => (one.path < other.path ? -1 : Number(one.path > other.path)));
  return { files, emptyFolders: emptyFolders.sort() };
}
