import assert from "node:assert/strict";
import { test } from "node:test";
import {
  etaSeconds,
  formatBytes,
  formatCount,
  formatDuration,
  formatPercent,
  formatValue,
  formatWithUnit,
  MISSING,
} from "../../static/js/format.js";
import { documentTitle, progressTexts } from "../../static/js/run/progress.js";
import { tileTexts } from "../../static/js/run/tiles.js";
import { RunStore } from "../../static/js/store.js";
import { attempt, envelope, progress, scalars } from "./events.js";

/** @param {(value: any) => string} format @param {[any, string][]} cases */
function expectTexts(format, cases) {
  for (const [value, text] of cases) assert.equal(format(value), text);
}

test("values have about four digits, and extremes an exponent", () => {
  expectTexts(formatValue, [
    [0, "0"],
    [0.123456, "0.1235"],
    [12.3456, "12.35"],
    [99.999, "100"],
    [1234.5, "1,235"],
    [-0.5, "-0.5"],
    [0.001, "0.001"],
    [0.00012, "1.2e-4"],
    [2.58e-8, "2.58e-8"],
    [1e15, "1e15"],
    [8.33e13, "8.33e13"],
  ]);
});

test("what is not there is a dash", () => {
  for (const format of [formatValue, formatPercent, formatDuration, formatBytes]) {
    for (const value of [null, undefined, Number.NaN, Number.POSITIVE_INFINITY]) assert.equal(format(value), MISSING);
  }
  assert.equal(formatWithUnit(null, "W"), MISSING);
  assert.equal(formatDuration(-1), MISSING);
});

test("units stand beside their numbers", () => {
  assert.equal(formatWithUnit(510.6, "W"), "510.6 W");
  assert.equal(formatWithUnit(0.5, ""), "0.5");
  assert.equal(formatPercent(97.777), "97.8 %");
  assert.equal(formatCount(11689.4), "11,689");
});

test("durations have two units at most", () => {
  expectTexts(formatDuration, [
    [0, "0 s"],
    [0.0004, "1 ms"],
    [0.85, "850 ms"],
    [12.3, "12 s"],
    [59.6, "1 min 00 s"],
    [245, "4 min 05 s"],
    [3599.7, "1 h 00 min"],
    [7860, "2 h 11 min"],
    [86_399, "23 h 59 min"],
    [273_600, "3 d 4 h"],
  ]);
});

test("sizes have the unit that fits", () => {
  expectTexts(formatBytes, [
    [0, "0 B"],
    [1023, "1023 B"],
    [1536, "1.5 KiB"],
    [748 * 1024, "748 KiB"],
    [3 * 2 ** 40, "3.0 TiB"],
  ]);
});

test("the time left follows the recent pace", () => {
  assert.equal(
    etaSeconds(
      [
        { at: 0, done: 0 },
        { at: 10, done: 20 },
      ],
      120,
    ),
    50,
  );
  assert.equal(etaSeconds([{ at: 0, done: 5 }], 100), null);
  assert.equal(
    etaSeconds(
      [
        { at: 0, done: 5 },
        { at: 9, done: 5 },
      ],
      100,
    ),
    null,
  );
  assert.equal(etaSeconds([], 100), null);
  assert.equal(
    etaSeconds(
      [
        { at: 0, done: 0 },
        { at: 1, done: 10 },
      ],
      0,
    ),
    null,
  );
});

/** @returns {import("../../static/js/run/api.js").JobSummary} */
function job(more = {}) {
  return {
    id: 1,
    title: "digits",
    status: "running",
    stage: "train",
    done: 30,
    total: 100,
    progress: 0.3,
    eta_s: 99,
    epoch: 4,
    epochs: 10,
    best: null,
    duration_s: 60,
    last_seq: 5,
    n_attempts: 1,
    wait_reason: "",
    ...more,
  };
}

function training() {
  const store = new RunStore();
  store.append(envelope(1, attempt(1, 0)));
  return store;
}

test("before any event the row tells how far it is", () => {
  assert.deepEqual(progressTexts(job(), training(), 5), {
    share: 0.3,
    progress: "30 %",
    step: "30 / 100",
    epoch: "4 / 10",
    eta: "1 min 39 s",
    elapsed: "1 min 05 s",
  });
});

test("events are newer than the row", () => {
  const store = training();
  store.append(envelope(2, progress(40, 100), 10));
  store.append(envelope(3, progress(50, 100), 15));
  const texts = progressTexts(job(), store, 0);
  assert.deepEqual([texts.share, texts.epoch, texts.eta], [0.5, "6 / 10", "25 s"]);
});

test("the end of the last epoch is not one epoch more", () => {
  const store = training();
  store.append(envelope(2, progress(100, 100)));
  assert.equal(progressTexts(job(), store, 0).epoch, "10 / 10");
});

test("a stage that is not training says its name and claims no epoch", () => {
  const store = training();
  store.append(envelope(2, progress(10, 40, "decode")));
  const texts = progressTexts(job(), store, 0);
  assert.deepEqual([texts.progress, texts.epoch, texts.step], ["Decode 25 %", MISSING, MISSING]);
});

test("an ended run keeps its own last word", () => {
  const store = training();
  store.append(envelope(2, progress(99, 100)));
  const ended = job({ status: "failed", done: 42, duration_s: 61 });
  const texts = progressTexts(ended, store, 500);
  assert.deepEqual([texts.share, texts.epoch, texts.eta, texts.elapsed], [0.42, "4 / 10", MISSING, "1 min 01 s"]);
  assert.equal(progressTexts(job({ status: "succeeded" }), store, 0).progress, "100 %");
});

test("a run that has not begun has neither share nor time", () => {
  const queued = job({ status: "queued", stage: "", done: 0, total: 0, duration_s: null, eta_s: null });
  assert.deepEqual(progressTexts(queued, new RunStore(), 3), {
    share: null,
    progress: MISSING,
    step: MISSING,
    epoch: MISSING,
    eta: MISSING,
    elapsed: MISSING,
  });
});

test("the tab's title says what can be read from afar", () => {
  assert.equal(documentTitle(job(), 0.429), "42 % · digits · Fovea");
  assert.equal(documentTitle(job({ status: "failed" }), 0.4), "Failed · digits · Fovea");
  assert.equal(documentTitle(job(), null), "Running · digits · Fovea");
});

test("tiles show the newest values, and dashes before them", () => {
  assert.equal(tileTexts(new RunStore())["train-loss"], MISSING);
  const store = training();
  store.append(envelope(2, scalars(10, { "train/loss": 0.5, "val/top1": 97.777, lr: 0.001, "cpu/util_pct": 88.4 })));
  const tiles = tileTexts(store);
  assert.deepEqual([tiles["train-loss"], tiles["val-accuracy"], tiles.device], ["0.5", "97.78 %", "88 %"]);
  assert.equal(tiles["device-label"], "CPU in use");
});

test("the best value is told with its epoch", () => {
  const store = training();
  store.append(envelope(2, scalars(30, { "val/loss": 0.25 })));
  store.best = { kind: "checkpoint.best", step: 30, series: "val/loss", value: 0.25, artifact: "step-30" };
  assert.equal(tileTexts(store).best, "Best 0.25, epoch 3");
});

test("several GPUs are told by their mean, and one of an earlier attempt not at all", () => {
  const store = training();
  store.append(envelope(2, scalars(1, { "gpu0/util_pct": 90, "gpu1/util_pct": 100, "cpu/util_pct": 5 })));
  assert.deepEqual([tileTexts(store).device, tileTexts(store)["device-label"]], ["95 %", "GPUs in use, mean"]);
  store.append(envelope(3, attempt(2, 1)));
  store.append(envelope(4, scalars(2, { "cpu/util_pct": 60 })));
  assert.deepEqual([tileTexts(store).device, tileTexts(store)["device-label"]], ["60 %", "CPU in use"]);
});
