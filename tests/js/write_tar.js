/** Writes an archive for `tests/dashboard/test_upload_tar.py`: names and texts come as JSON on standard input. */

import { readFileSync, writeFileSync } from "node:fs";
import { Tar } from "../../static/js/upload/tar.js";
import { pathed } from "./upload_files.js";

/** @type {{files: Record<string, string>, folders: string[], to: string, piece_bytes: number}} */
const wish = JSON.parse(readFileSync(0, "utf8"));
const files = Object.entries(wish.files).map(([path, text]) => pathed(path, text));
const tar = new Tar({ files, emptyFolders: wish.folders });
const pieces = [];
for (let start = 0; start < tar.size; start += wish.piece_bytes) {
  pieces.push(Buffer.from(await tar.slice(start, Math.min(tar.size, start + wish.piece_bytes)).arrayBuffer()));
}
writeFileSync(wish.to, Buffer.concat(pieces));
