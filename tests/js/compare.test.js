import assert from "node:assert/strict";
import { test } from "node:test";
import { alignedRows, largestDifference, pointsText } from "../../static/js/compare/rows.js";
import { queryOf } from "../../static/js/try/chooser.js";
import { factsText, networkText } from "../../static/js/try/words.js";

const top = (shares) => Object.entries(shares).map(([name, probability], label) => ({ label, name, probability }));

test("answers are put side by side by the names of the classes", () => {
  const rows = alignedRows(top({ cat: 0.7, dog: 0.2, cow: 0.1 }), top({ dog: 0.75, cow: 0.15, cat: 0.1 }), 2);
  assert.deepEqual(rows, [
    { name: "dog", a: 0.2, b: 0.75 },
    { name: "cat", a: 0.7, b: 0.1 },
    { name: "cow", a: 0.1, b: 0.15 },
  ]);
});

test("what one of them did not name is not known, not nothing", () => {
  const [first, second] = alignedRows(top({ cat: 0.9 }), top({ dog: 0.8 }), 5);
  assert.deepEqual(
    [first, second],
    [
      { name: "cat", a: 0.9, b: null },
      { name: "dog", a: null, b: 0.8 },
    ],
  );
  assert.equal(pointsText(first), "");
  assert.equal(largestDifference([first, second]), null);
});

test("differences are points with a sign", () => {
  const of = (a, b) => pointsText({ name: "cat", a, b });
  assert.deepEqual([of(0.5, 0.625), of(0.5, 0.4), of(0.5, 0.50001)], ["+12.50", "\u221210.00", "0.00"]);
  const rows = alignedRows(top({ cat: 0.5, dog: 0.5 }), top({ cat: 0.25, dog: 0.75 }), 2);
  assert.equal(largestDifference(rows), 25);
});

test("an option names a checkpoint, an export, or leaves the choice to the server", () => {
  assert.deepEqual([queryOf(""), queryOf("12"), queryOf("export:34")], [{}, { checkpoint: 12 }, { export: 34 }]);
});

test("the facts of an answer say what gave it", () => {
  const exported = { id: 3, name: "ONNX INT8", checkpoint: "step-40" };
  assert.equal(networkText({ checkpoint: null, export: exported }), "ONNX INT8 of step-40");
  assert.equal(networkText({ checkpoint: { name: "step-40", epoch: 2 }, export: null }), "step-40, epoch 2");
  const text = factsText(
    { checkpoint: null, export: exported, load_ms: 0 },
    { width: 8, height: 9, forward_ms: 1.5 },
    20,
  );
  assert.equal(text, "8 × 9 px · network 1.5 ms · in all 20 ms · ONNX INT8 of step-40");
});
