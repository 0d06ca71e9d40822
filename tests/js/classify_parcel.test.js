import assert from "node:assert/strict";
import { test } from "node:test";
import { ChoiceError, parcelOf } from "../../static/js/upload/parcel.js";

const wish = { classesNeeded: false };

function choice(...paths) {
  return { files: paths.map((path) => ({ path, file: new File(["x"], path) })), emptyFolders: [] };
}

test("to be classified, images need no class folders", () => {
  const flat = choice("holiday/1.jpg", "holiday/2.jpg");
  assert.throws(() => parcelOf(flat), ChoiceError);
  const parcel = parcelOf(flat, wish);
  assert.deepEqual([parcel.name, parcel.nFiles], ["holiday.tar", 2]);
});

test("a single image travels too", () => {
  assert.throws(() => parcelOf(choice("1.jpg")), /is one image/);
  assert.equal(parcelOf(choice("1.jpg"), wish).name, "images.tar");
  assert.equal(parcelOf(choice("1.zip"), wish).name, "1.zip");
});

test("what is neither archive nor image is refused all the same", () => {
  assert.throws(() => parcelOf(choice("notes.pdf"), wish), /no archive/);
  assert.throws(() => parcelOf(choice("x/.DS_Store"), wish), ChoiceError);
});
