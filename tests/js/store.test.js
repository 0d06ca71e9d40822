import assert from "node:assert/strict";
import { test } from "node:test";
import { RunStore } from "../../static/js/store.js";
import { attempt, envelope, progress, scalars } from "./events.js";

/** @param {RunStore} store */
function pointsOf(store, name = "train/loss") {
  const series = store.series.get(name);
  return series ? series.step.map((step, index) => [step, series.value[index]]) : [];
}

/** A store to which these events came one after another. */
function fed(/** @type {any[]} */ ...events) {
  const store = new RunStore();
  events.forEach((event, index) => {
    assert.equal(store.append(envelope(index + 1, event)), "applied");
  });
  return store;
}

test("an event that comes twice is there once", () => {
  const store = fed(attempt(1, 0), scalars(1, { "train/loss": 2 }));
  assert.equal(store.append(envelope(2, scalars(1, { "train/loss": 2 }))), "known");
  assert.deepEqual(pointsOf(store), [[1, 2]]);
});

test("an event that comes too early is refused and can come again", () => {
  const store = fed(attempt(1, 0));
  assert.equal(store.append(envelope(3, scalars(2, { "train/loss": 1 }))), "gap");
  assert.equal(store.lastSeq, 1);
  store.append(envelope(2, scalars(1, { "train/loss": 2 })));
  assert.equal(store.append(envelope(3, scalars(2, { "train/loss": 1 }))), "applied");
  assert.deepEqual(pointsOf(store), [
    [1, 2],
    [2, 1],
  ]);
});

test("a new attempt supersedes what earlier ones wrote past its start", () => {
  const store = fed(
    attempt(1, 0),
    ...[1, 2, 3, 4].map((step) => scalars(step, { "train/loss": step, lr: step / 10 })),
    attempt(2, 2),
    scalars(3, { "train/loss": 33 }),
  );
  assert.deepEqual(pointsOf(store), [
    [1, 1],
    [2, 2],
    [3, 33],
  ]);
  assert.deepEqual(pointsOf(store, "lr"), [
    [1, 0.1],
    [2, 0.2],
  ]);
  const series = store.series.get("train/loss");
  assert.deepEqual(series?.seq, [2, 3, 7]);
  assert.equal(series?.at.length, 3);
});

test("an attempt that begins at the start supersedes everything but step 0", () => {
  const store = fed(attempt(1, 0), scalars(0, { a: 1 }), scalars(1, { a: 2 }), attempt(2, 0));
  assert.deepEqual(pointsOf(store, "a"), [[0, 1]]);
});

test("a best checkpoint that an attempt goes back behind is forgotten", () => {
  const best = {
    kind: /** @type {const} */ ("checkpoint.best"),
    step: 40,
    series: "val/top1",
    value: 90,
    artifact: "step-40",
  };
  assert.equal(fed(attempt(1, 0), best, attempt(2, 30)).best, null);
  assert.equal(fed(attempt(1, 0), best, attempt(2, 40)).best?.step, 40);
});

test("a snapshot replaces what was known, and events go on after it", () => {
  const store = fed(attempt(1, 0), scalars(1, { old: 1 }));
  store.load({
    last_seq: 10,
    attempts: [{ n: 1, started_seq: 1, from_step: 0, steps_per_epoch: 5, total_steps: 50 }],
    series: { "train/loss": { unit: "", better: "lower", seq: [9], step: [8], at: [1], value: [0.5] } },
  });
  assert.equal(store.series.has("old"), false);
  assert.equal(store.append(envelope(10, scalars(8, { "train/loss": 0.5 }))), "known");
  assert.equal(store.append(envelope(11, scalars(9, { "train/loss": null }))), "applied");
  assert.deepEqual(pointsOf(store), [
    [8, 0.5],
    [9, null],
  ]);
  assert.equal(store.stepsPerEpoch, 5);
});

test("an attempt after a snapshot supersedes the snapshot's points", () => {
  const store = new RunStore();
  store.load({
    last_seq: 4,
    attempts: [{ n: 1, started_seq: 1, from_step: 0, steps_per_epoch: 5, total_steps: 50 }],
    series: { a: { unit: "", better: "", seq: [2, 3, 4], step: [1, 2, 3], at: [1, 2, 3], value: [1, 2, 3] } },
  });
  store.append(envelope(5, attempt(2, 1)));
  assert.deepEqual(pointsOf(store, "a"), [[1, 1]]);
  assert.deepEqual(
    store.attempts.map(({ n }) => n),
    [1, 2],
  );
});

test("the newest finite value is the latest one", () => {
  const store = fed(scalars(1, { a: 1 }), scalars(2, { a: null }));
  assert.equal(store.latest("a"), 1);
  assert.equal(store.latest("b"), null);
});

test("progress is remembered for one stage and a limited time", () => {
  const store = new RunStore();
  store.append(envelope(1, progress(0, 10, "decode"), 0));
  store.append(envelope(2, progress(1, 100), 1));
  store.append(envelope(3, progress(5, 100), 10));
  assert.deepEqual(
    store.progressSamples.map(({ done }) => done),
    [1, 5],
  );
  store.append(envelope(4, progress(50, 100), 125));
  assert.deepEqual(
    store.progressSamples.map(({ done }) => done),
    [5, 50],
  );
  store.append(envelope(5, attempt(2, 40)));
  assert.deepEqual(store.progressSamples, []);
});

test("a kind from a newer server changes nothing and stops nothing", () => {
  const store = fed(/** @type {any} */ ({ kind: "samples", step: 1 }), scalars(1, { a: 1 }));
  assert.deepEqual(pointsOf(store, "a"), [[1, 1]]);
});

test("the series that an attempt declares have their units before their first point", () => {
  const store = fed(attempt(1, 0, { series: [{ name: "val/top1", unit: "%", better: "higher" }] }));
  assert.equal(store.series.get("val/top1")?.unit, "%");
  assert.equal(store.series.get("val/top1")?.step.length, 0);
});
