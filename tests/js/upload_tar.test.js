import assert from "node:assert/strict";
import { test } from "node:test";
import { Tar } from "../../static/js/upload/tar.js";
import { choice, pathed } from "./upload_files.js";

/** @param {Blob} blob */
async function read(blob) {
  return Buffer.from(await blob.arrayBuffer());
}

const HARD = {
  files: ["a/1.txt", `long/${"n".repeat(120)}.txt`, "猫/ねこ.txt", "z/empty.txt"].map((path) =>
    pathed(path, path.endsWith("empty.txt") ? "" : path.repeat(40)),
  ),
  emptyFolders: ["none"],
};

test("the same choice gives the same bytes, in whatever order it came", async () => {
  const one = await read(new Tar(choice("b/1.txt", "a/1.txt", "c/")).slice());
  const other = choice("b/1.txt", "a/1.txt", "c/");
  other.files.reverse();
  assert.equal(Buffer.compare(one, await read(new Tar(other).slice())), 0);
  assert.equal(one.length % 512, 0);
});

test("pieces of any size are the whole, so that it can go on anywhere", async () => {
  const tar = new Tar(HARD);
  const whole = await read(tar.slice());
  assert.equal(whole.length, tar.size);
  for (const step of [1, 7, 511, 512, 513, 1500, 4096]) {
    const pieces = [];
    for (let start = 0; start < tar.size; start += step) {
      const piece = tar.slice(start, Math.min(tar.size, start + step));
      assert.equal(piece.size, Math.min(step, tar.size - start));
      pieces.push(await read(piece));
    }
    assert.equal(Buffer.compare(Buffer.concat(pieces), whole), 0, `in pieces of ${step}`);
  }
});

test("a file over 8 GiB has its size in a pax header, and its bytes are not read to learn that", async () => {
  const size = 9 * 2 ** 30;
  const read_bytes = [];
  const slice = (/** @type {number} */ start, /** @type {number} */ end) => {
    read_bytes.push(end - start);
    return new Blob([new Uint8Array(end - start)]);
  };
  const file = /** @type {any} */ ({ name: "big.bin", size, lastModified: 0, slice });
  const tar = new Tar({ files: [{ path: "big.bin", file }], emptyFolders: [] });
  assert.equal(tar.size, 512 + 512 + 512 + size + 1024);
  const head = await read(tar.slice(0, 1536));
  assert.match(head.subarray(512, 1024).toString(), /^19 size=9663676416\n/);
  assert.deepEqual(read_bytes, []);
});
