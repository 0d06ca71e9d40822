import assert from "node:assert/strict";
import { test } from "node:test";
import { withQuery } from "../../static/js/try/asking.js";
import { chosenOf } from "../../static/js/try/choice.js";
import { heatColour, heatPixels } from "../../static/js/try/heat.js";
import { barsPath } from "../../static/js/try/histogram.js";
import { Queue } from "../../static/js/try/queue.js";
import { factsText, msText, shapeText, shareText, whySentence } from "../../static/js/try/words.js";

const LIMITS = { at_once: 3, most_bytes: 1000 };
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

function file(path, size = 10) {
  return { path, file: { name: path, size } };
}

test("what is dropped becomes images, and what need not be sent says why", () => {
  const chosen = chosenOf([file("a.png"), file(".DS_Store"), file("b/empty.png", 0)], LIMITS);
  assert.deepEqual(
    chosen.map(({ image }) => image.name),
    ["a.png", "b/empty.png"],
  );
  assert.equal(chosen[0].problem, null);
  assert.match(chosen[1].problem.message, /empty\.png is empty \(0 bytes\)\./);
  const [archive, large] = chosenOf([file("x.tar.gz"), file("large.png", 1001)], LIMITS);
  assert.match(archive.problem.message, /is an archive/);
  assert.match(large.problem.message, /large\.png holds 1001 B|large\.png holds/);
});

test("nothing, or more than is tried at once, is refused as a whole", () => {
  assert.throws(() => chosenOf([], LIMITS), /no file/);
  assert.throws(() => chosenOf([file("Thumbs.db")], LIMITS), /no file/);
  const many = [1, 2, 3, 4].map((n) => file(`${n}.png`));
  assert.throws(() => chosenOf(many, LIMITS), /These are 4 files; 3 are tried at once/);
});

test("one is asked after the other", async () => {
  const done = [];
  let atOnce = 0;
  const queue = new Queue(
    async (item) => {
      atOnce += 1;
      assert.equal(atOnce, 1);
      await settled();
      atOnce -= 1;
      done.push(item);
    },
    () => assert.fail("nothing went wrong"),
  );
  for (const item of ["a", "b", "c"]) queue.add(item);
  assert.equal(queue.length, 3);
  while (queue.length) await settled();
  assert.deepEqual(done, ["a", "b", "c"]);
});

test("what stops all of them holds them, and goes on where it stopped", async () => {
  let isDown = true;
  const done = [];
  const errors = [];
  const queue = new Queue(
    async (item) => {
      if (isDown) throw new Error("down");
      done.push(item);
    },
    (error) => errors.push(error.message),
  );
  queue.add("a");
  queue.add("b");
  await settled();
  assert.deepEqual([errors, done, queue.length], [["down"], [], 2]);
  queue.add("c");
  await settled();
  assert.deepEqual(errors, ["down"], "it is not asked again by itself");
  isDown = false;
  queue.resume();
  await settled();
  assert.deepEqual(done, ["a", "b", "c"]);
});

test("what was taken away while it was asked holds nobody", async () => {
  const errors = [];
  let fail = () => {};
  const queue = new Queue(
    () => new Promise((_, reject) => (fail = reject)),
    (error) => errors.push(error),
  );
  queue.add("a");
  queue.clear();
  fail(new Error("down"));
  await settled();
  assert.deepEqual(errors, []);
});

test("a question says only what is known", () => {
  assert.equal(withQuery("/x", { checkpoint: null }), "/x");
  assert.equal(withQuery("/x", { checkpoint: 3, layer: "a&b c" }), "/x?checkpoint=3&layer=a%26b+c");
});

test("shares never round to certainty or to nothing", () => {
  assert.equal(shareText(0), "0.0\u202f%");
  assert.equal(shareText(0.00001), "<\u202f0.1\u202f%");
  assert.equal(shareText(0.99999), ">\u202f99.9\u202f%");
  assert.equal(shareText(1), "100.0\u202f%");
  assert.equal(shareText(0.1234), "12.3\u202f%");
});

test("times and shapes", () => {
  assert.deepEqual([msText(0.34), msText(42.4), msText(4200)], ["0.3 ms", "42 ms", "4.2 s"]);
  assert.deepEqual([shapeText([16, 8, 8]), shapeText([])], ["16 × 8 × 8", "1"]);
});

test("facts name the checkpoint, and the loading only where there was one", () => {
  const answer = { checkpoint: { id: 1, name: "step-4", step: 4, epoch: 1.5 }, load_ms: 0 };
  const image = { width: 32, height: 24, forward_ms: 3 };
  assert.equal(factsText(answer, image, 50), "32 × 24 px · network 3.0 ms · in all 50 ms · step-4, epoch 1.5");
  assert.match(
    factsText({ ...answer, load_ms: 900 }, image, 3000),
    /in all 3\.0 s · with loading the network · step-4/,
  );
});

test("one sentence says what the heat shows, and what it does not", () => {
  const found = { class_name: "<b>", probability: 0.5, layer: "blocks.2", heat: [[0, 1, 0.5]] };
  assert.match(whySentence(found), /“<b>” \(50\.0.%\) most, by Grad-CAM at blocks\.2, 3 × 1 places: .* nor whether/);
  assert.match(whySentence({ ...found, heat: [[0, 0]] }), /^Nothing in this image speaks for/);
});

test("more heat is brighter, and what is no number is cold", () => {
  const light = (value) => heatColour(value).reduce((sum, each) => sum + each, 0);
  for (let step = 1; step <= 20; step += 1) assert.ok(light(step / 20) > light((step - 1) / 20));
  assert.deepEqual(heatColour(Number.NaN), heatColour(0));
  assert.deepEqual(heatColour(7), heatColour(1));
});

test("heat becomes a pixel for each place", () => {
  const { width, height, data } = heatPixels([
    [0, 1, 0],
    [0, 0, 0],
  ]);
  assert.deepEqual([width, height, data.length], [3, 2, 24]);
  assert.deepEqual([...data.slice(4, 8)], [...heatColour(1), 255]);
  assert.deepEqual(heatPixels([]).data.length, 0);
});

test("what counts anything can be seen, what counts nothing is not drawn", () => {
  const path = barsPath([1000, 0, 1], 30, 20);
  assert.deepEqual(path.match(/M/g)?.length, 2);
  assert.match(path, /^M0 20v-20h8\.8v20z/);
  assert.match(path, /v-1h/);
  assert.equal(barsPath([], 30, 20), "");
});
