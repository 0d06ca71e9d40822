import assert from "node:assert/strict";
import { test } from "node:test";
import { fromPixel, momentText, nearestIndex, nearestPoint, toPixel } from "../../static/js/charts/cursor.js";
import { Pacer } from "../../static/js/charts/pacer.js";
import { densestSpacing, smooth } from "../../static/js/charts/smoothing.js";
import { thin, visiblePart } from "../../static/js/charts/thinning.js";
import { RunStore } from "../../static/js/store.js";
import { attempt, envelope, scalars } from "./events.js";

test("smoothing by nothing changes nothing", () => {
  assert.deepEqual(smooth([1, null, 3], [1, 2, 3], 0, 1), [1, null, 3]);
});

test("on even steps smoothing is the bias-corrected mean, written slowly", () => {
  const values = [4, 2, 8, 6, 1, 1, 9];
  const expected = values.map((_, last) => {
    const weights = values.slice(0, last + 1).map((__, index) => 0.1 * 0.9 ** (last - index));
    const total = weights.reduce((sum, weight) => sum + weight);
    return weights.reduce((sum, weight, index) => sum + weight * /** @type {number} */ (values[index]), 0) / total;
  });
  const found = smooth(values, [5, 10, 15, 20, 25, 30, 35], 0.9, 5);
  found.forEach((value, index) => {
    assert.ok(Math.abs(/** @type {number} */ (value) - /** @type {number} */ (expected[index])) < 1e-12);
  });
});

test("a constant stays what it is, however it is smoothed", () => {
  for (const value of smooth([7, 7, 7, 7], [1, 4, 5, 100], 0.99, 1)) assert.ok(Math.abs(Number(value) - 7) < 1e-12);
});

test("points that lie far apart are hardly smoothed", () => {
  const [, second] = smooth([0, 1], [0, 100], 0.9, 1);
  assert.ok(/** @type {number} */ (second) > 0.9999);
});

test("a gap stays a gap and moves no mean", () => {
  const [, gap, after] = smooth([1, null, 1], [1, 2, 3], 0.9, 1);
  assert.equal(gap, null);
  assert.equal(after, 1);
});

test("the unit of smoothing is the spacing of the densest curve", () => {
  assert.equal(densestSpacing([[0, 10, 20], [0, 100], [5], []]), 10);
  assert.equal(densestSpacing([[5], []]), 1);
});

test("few points are not thinned", () => {
  assert.deepEqual(thin([3, 1, null], 3), [0, 1, 2]);
  assert.deepEqual(thin([], 3), []);
});

test("thinning keeps the ends, every spike and every gap, in order", () => {
  const values = /** @type {(number | null)[]} */ (Array.from({ length: 50_000 }, (_, index) => Math.sin(index / 900)));
  values[31_234] = 40;
  values[12_345] = -40;
  values[44_444] = null;
  const kept = thin(values, 1000);
  assert.ok(kept.length <= 1500);
  for (const index of [0, 49_999, 31_234, 12_345, 44_444]) assert.ok(kept.includes(index), String(index));
  assert.ok(kept.every((index, place) => place === 0 || index > /** @type {number} */ (kept[place - 1])));
});

test("thinning a part considers that part alone", () => {
  const kept = thin(
    Array.from({ length: 10_000 }, (_, index) => index),
    100,
    2000,
    4000,
  );
  assert.equal(kept[0], 2000);
  assert.equal(kept.at(-1), 3999);
});

test("what a window shows has a neighbour on each side, so that the line reaches its edges", () => {
  const xs = [0, 1, 2, 3, 4, 5];
  assert.deepEqual(visiblePart(xs, [1.5, 3.5]), [1, 5]);
  assert.deepEqual(visiblePart(xs, [2, 3]), [1, 5]);
  assert.deepEqual(visiblePart(xs, [-5, 50]), [0, 6]);
  assert.deepEqual(visiblePart(xs, null), [0, 6]);
});

test("the crosshair finds the nearest point", () => {
  const xs = [0, 10, 11, 50];
  for (const [x, index] of [
    [-3, 0],
    [4.9, 0],
    [5.1, 1],
    [10.6, 2],
    [31, 3],
    [99, 3],
  ]) {
    assert.equal(nearestIndex(xs, Number(x)), index);
  }
  assert.equal(nearestIndex([], 5), -1);
  const line = { series: "a", label: "", colour: 1 };
  const sparse = { line, xs: [0, 100], raw: [1, 2], drawn: [1, 2] };
  const dense = { line, xs: [40, 41], raw: [1, 2], drawn: [1, 2] };
  assert.equal(nearestPoint([sparse, dense], 45)?.x, 41);
  assert.equal(nearestPoint([], 45), null);
});

test("pixels and positions are the same place", () => {
  assert.equal(toPixel(15, [10, 20], 50, 300), 200);
  assert.equal(fromPixel(200, [10, 20], 50, 300), 15);
});

test("a moment is told in steps, epochs and time", () => {
  const store = new RunStore();
  store.append(envelope(1, attempt(1, 0, { steps_per_epoch: 400 })));
  store.append(envelope(2, scalars(100, { lr: 1 }), 10));
  store.append(envelope(3, scalars(1234, { lr: 1 }), 135));
  assert.equal(momentText(store, "lr", 1), "step 1,234 · epoch 3.08 · 2 min 05 s");
  assert.equal(momentText(store, "lr", 9), "");
});

/** A clock on which drawing takes time. */
class Clock {
  now_ms = 0;
  draw_ms = 0;
  /** @type {number[]} */
  drawnAt = [];
  /** @type {{at_ms: number, run: () => void}[]} */
  timers = [];
  pacer = new Pacer(
    () => {
      this.drawnAt.push(this.now_ms);
      this.now_ms += this.draw_ms;
    },
    {
      now: () => this.now_ms,
      setTimer: (run, delay_ms) => this.timers.push({ at_ms: this.now_ms + delay_ms, run }),
      nextFrame: (run) => this.timers.push({ at_ms: this.now_ms + 16, run }),
    },
  );

  /** @param {number} until_ms */
  run(until_ms) {
    for (;;) {
      const due = this.timers.filter(({ at_ms }) => at_ms <= until_ms).sort((a, b) => a.at_ms - b.at_ms)[0];
      if (!due) break;
      this.timers = this.timers.filter((timer) => timer !== due);
      this.now_ms = Math.max(this.now_ms, due.at_ms);
      due.run();
    }
    this.now_ms = Math.max(this.now_ms, until_ms);
  }
}

test("the first drawing waits for the next frame only, and many wishes are one", () => {
  const clock = new Clock();
  for (let wish = 0; wish < 20; wish += 1) clock.pacer.request();
  clock.run(1000);
  assert.deepEqual(clock.drawnAt, [16]);
});

test("drawing takes at most a third of the time", () => {
  const clock = new Clock();
  clock.draw_ms = 100;
  for (let moment_ms = 0; moment_ms < 10_000; moment_ms += 10) {
    clock.pacer.request();
    clock.run(Math.max(moment_ms, clock.now_ms));
  }
  const gaps = clock.drawnAt.slice(1).map((at, index) => at - /** @type {number} */ (clock.drawnAt[index]));
  assert.ok(clock.drawnAt.length > 20);
  for (const gap of gaps) assert.ok(gap >= 300 && gap <= 340, String(gap));
});

test("a quick drawing is not held back", () => {
  const clock = new Clock();
  clock.draw_ms = 2;
  clock.pacer.request();
  clock.run(200);
  clock.pacer.request();
  clock.run(400);
  assert.deepEqual(clock.drawnAt, [16, 216]);
});
