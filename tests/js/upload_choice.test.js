import assert from "node:assert/strict";
import { test } from "node:test";
import { choiceOfEntries, choiceOfFiles } from "../../static/js/upload/drop.js";
import { fingerprintOfFile, fingerprintOfListing } from "../../static/js/upload/fingerprint.js";
import { Meter, readingText } from "../../static/js/upload/meter.js";
import { ChoiceError, parcelOf, parcelOfText } from "../../static/js/upload/parcel.js";
import { choice, entry, pathed } from "./upload_files.js";

test("a dropped folder is read to its last entry, and an empty one is remembered", async () => {
  const many = Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`${index}.jpg`, null]));
  const found = await choiceOfEntries([entry("/photos", { cat: many, dog: { "1.jpg": null }, none: {} })]);
  assert.equal(found.files.length, 251);
  assert.equal(found.files[0]?.path, "photos/cat/0.jpg");
  assert.deepEqual(found.emptyFolders, ["photos/none"]);
  assert.deepEqual(
    found.files.map(({ path }) => path),
    found.files.map(({ path }) => path).sort(),
  );
});

test("chosen files come with the path of their folder, where there is one", () => {
  const inside = Object.defineProperty(new File(["x"], "1.jpg"), "webkitRelativePath", { value: "photos/cat/1.jpg" });
  assert.deepEqual(
    choiceOfFiles([inside, new File(["x"], "a.zip")]).files.map(({ path }) => path),
    ["a.zip", "photos/cat/1.jpg"],
  );
});

test("one archive travels as it is", () => {
  for (const name of ["a.zip", "a.TAR", "a.tar.gz", "a.tgz", "a.tar.zst"]) {
    const { files, emptyFolders } = choice(name);
    const parcel = parcelOf({ files, emptyFolders });
    assert.equal(parcel.content, files[0]?.file);
    assert.deepEqual([parcel.name, parcel.title, parcel.nFiles], [name, "a", null]);
  }
});

test("a folder travels as one archive under its own name", () => {
  const parcel = parcelOf(choice("photos/cat/1.jpg", "photos/dog/1.jpg", "photos/none/"));
  assert.deepEqual([parcel.name, parcel.title, parcel.nFiles], ["photos.tar", "photos", 2]);
  assert.equal(parcelOf(choice("cat/1.jpg", "dog/1.jpg")).name, "images.tar");
});

test("a name that no server would take is cut, its ending kept", () => {
  const parcel = parcelOf(choice(`${"x".repeat(250)}.tar.gz`));
  assert.equal(parcel.name.length, 200);
  assert.match(parcel.name, /x\.tar\.gz$/);
});

for (const [what, given, said] of /** @type {[string, ReturnType<typeof choice>, RegExp][]} */ ([
  ["nothing", choice(), /^The folder holds no files\.$/],
  ["an empty folder", choice("photos/"), /^The folder photos holds no files\.$/],
  [
    "only clutter",
    choice("photos/.DS_Store", "photos/Thumbs.db", "photos/__MACOSX/._1.jpg"),
    /only files that the system/,
  ],
  ["one image", choice("cat.JPG"), /^cat\.JPG is one image; a dataset needs several/],
  ["one file that is no archive", choice("notes.docx"), /^notes\.docx is no archive that Fovea opens\.$/],
  ["an archive of no bytes", { files: [pathed("a.zip", "")], emptyFolders: [] }, /^a\.zip is empty \(0 bytes\)\.$/],
  ["two archives", choice("train.zip", "val.zip"), /^These are 2 archives; one can be imported at a time\.$/],
  ["loose images", choice("1.jpg", "2.jpg"), /^All 2 images lie in no folder/],
  ["one folder of images", choice("cat/1.jpg", "cat/2.png"), /^All 2 images lie in one folder, cat/],
])) {
  test(`${what} is refused before anything is sent, with a way out`, () => {
    assert.throws(
      () => parcelOf(given),
      (error) => error instanceof ChoiceError && said.test(error.message) && error.hint.length > 10,
    );
  });
}

test("an empty list is refused", () => {
  assert.throws(() => parcelOfText(new File([], "train.txt")), /train\.txt is empty/);
  assert.equal(parcelOfText(new File(["a 0"], "train.txt")).name, "train.txt");
});

test("the same choice has the same fingerprint, another one has another", () => {
  const file = (name = "a.zip", text = "x", lastModified = 5) => new File([text], name, { lastModified });
  const of = fingerprintOfFile;
  assert.equal(of(file()), of(file()));
  const others = [of(file("b.zip")), of(file("a.zip", "xy")), of(file("a.zip", "x", 6)), of(file())];
  assert.equal(new Set(others).size, 4);
  const listing = fingerprintOfListing(choice("a/1.jpg", "b/1.jpg"));
  assert.equal(listing, fingerprintOfListing(choice("a/1.jpg", "b/1.jpg")));
  assert.notEqual(listing, fingerprintOfListing(choice("a/1.jpg", "b/2.jpg")));
  assert.notEqual(listing, fingerprintOfListing(choice("a/1.jpg", "b/1.jpg", "c/")));
  assert.match(listing, /^tar-[0-9a-f]{32}$/);
});

test("speed and time left are those of the last seconds", () => {
  const meter = new Meter(100 * 2 ** 20);
  assert.equal(readingText(meter.read(0, 0)), "0 B of 100 MiB");
  meter.read(2 ** 20, 1);
  for (let second = 20; second <= 40; second += 1) meter.read((second - 10) * 2 ** 20, second);
  assert.equal(readingText(meter.read(30 * 2 ** 20, 40)), "30.0 MiB of 100 MiB, 1.0 MiB/s, 1 min 10 s left");
  meter.restart();
  assert.equal(readingText(meter.read(30 * 2 ** 20, 90)), "30.0 MiB of 100 MiB");
  assert.equal(readingText(meter.read(100 * 2 ** 20, 100)), "100 MiB of 100 MiB, 7.0 MiB/s");
});
