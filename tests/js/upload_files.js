/** Files, folders and what a browser hands over when they are dropped. */

/**
 * @param {string} path
 * @param {string} [text]
 * @param {number} [mtime_s]
 */
export function pathed(path, text = path, mtime_s = 1_700_000_000) {
  const name = path.split("/").at(-1) ?? path;
  return { path, file: new File([text], name, { lastModified: mtime_s * 1000 }) };
}

/** @param {string[]} paths */
export function choice(...paths) {
  const folders = paths.filter((path) => path.endsWith("/")).map((path) => path.slice(0, -1));
  const files = paths.filter((path) => !path.endsWith("/")).map((path) => pathed(path));
  files.sort((one, other) => (one.path < other.path ? -1 : 1));
  return { files, emptyFolders: folders };
}

/** A tree as `webkitGetAsEntry` gives it: folders hand out a few entries at a time. */
export class FakeEntry {
  /**
   * @param {string} fullPath
   * @param {FakeEntry[] | null} children null of a file
   * @param {number} [batch]
   */
  constructor(fullPath, children, batch = 2) {
    this.fullPath = fullPath;
    this.name = fullPath.split("/").at(-1) ?? "";
    this.isFile = children === null;
    this.isDirectory = children !== null;
    this.children = children ?? [];
    this.batch = batch;
  }

  /** @param {(file: File) => void} resolve */
  file(resolve) {
    setImmediate(() => resolve(new File(["x"], this.name)));
  }

  createReader() {
    const rest = [...this.children];
    return {
      /** @param {(entries: FakeEntry[]) => void} resolve */
      readEntries: (resolve) => setImmediate(() => resolve(rest.splice(0, this.batch))),
    };
  }
}

/**
 * @param {string} path
 * @param {Record<string, any> | null} tree
 * @returns {any}
 */
export function entry(path, tree) {
  if (tree === null) return new FakeEntry(path, null);
  return new FakeEntry(
    path,
    Object.entries(tree).map(([name, below]) => entry(`${path}/${name}`, below)),
  );
}
