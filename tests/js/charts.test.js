import assert from "node:assert/strict";
import { test } from "node:test";
import { domainOf, labelling, positions, resumePositions } from "../../static/js/charts/axis.js";
import { contentOf, figureOf, standAlone } from "../../static/js/charts/figure.js";
import { KINDS, panelsFor } from "../../static/js/charts/index.js";
import { escapeText } from "../../static/js/charts/plotly.js";
import { RunStore } from "../../static/js/store.js";
import { attempt, envelope, scalars } from "./events.js";

const SIZE = { width: 400, height: 240 };
const PALETTE = {
  text: "#000",
  muted: "#555",
  line: "#ddd",
  surface: "#fff",
  ok: "#080",
  font: "sans-serif",
  series: ["#1", "#2", "#3", "#4", "#5", "#6", "#7", "#8"],
};
const OWN = { log: false, hidden: new Set(), yWindow: null };

/** Series of every kind of chart, and two that no kind knows. */
const NAMES = [
  "train/loss",
  "val/loss",
  "train/top1",
  "val/top1",
  "lr",
  "time/images_s",
  "time/data_wait_pct",
  "cpu/util_pct",
  "ram/used_gib",
  "gpu0/util_pct",
  "gpu0/memory_gib",
  "gpu0/temperature_c",
  "gpu0/power_w",
  "gpu1/util_pct",
  "val/top5",
  "train/top5",
];

/** @param {number} nPoints @param {string[]} [names] */
function storeOf(nPoints, names = NAMES) {
  const store = new RunStore();
  store.append(envelope(1, attempt(1, 0, { total_steps: 20_000, steps_per_epoch: 100 })));
  for (let point = 0; point < nPoints; point += 1) {
    const values = Object.fromEntries(names.map((name) => [name, 50 + Math.sin(point)]));
    store.append(envelope(point + 2, scalars(point + 1, values)));
  }
  return store;
}

/** @param {RunStore} store */
function viewOf(store, more = {}) {
  const view = { x: /** @type {const} */ ("step"), smoothing: 0, window: null, ...more };
  return { ...view, domain: domainOf(store, view.x, false) };
}

/** @param {RunStore} store @param {string} id @returns {any} */
function drawn(store, id, more = {}, own = OWN) {
  const panel = panelsFor(new Set(store.series.keys())).find((candidate) => candidate.id === id);
  assert.ok(panel, `no chart ${id}`);
  const view = viewOf(store, more);
  return figureOf(panel, contentOf(panel, store, view), store, view, own, PALETTE, SIZE);
}

for (const kind of KINDS) {
  for (const nPoints of [0, 1, 10_000]) {
    test(`${kind.kind}: a store of ${nPoints} points`, () => {
      const store = storeOf(nPoints);
      const view = viewOf(store, { smoothing: 0.5 });
      const panels = kind.panels(new Set(store.series.keys()));
      if (nPoints > 0) assert.ok(panels.some((panel) => panel.lines.length > 0));
      for (const panel of panels) {
        const content = contentOf(panel, store, view);
        assert.equal(content.curves.length, panel.lines.length);
        const figure = /** @type {any} */ (figureOf(panel, content, store, view, OWN, PALETTE, SIZE));
        for (const trace of figure.data) {
          assert.equal(trace.x.length, trace.y.length);
          assert.ok(trace.x.length >= 1 && trace.x.length <= 1500);
          assert.ok(trace.x.every(Number.isFinite));
        }
      }
    });
  }
}

test("every series is drawn by exactly one chart", () => {
  const lines = panelsFor(new Set(NAMES)).flatMap((panel) => panel.lines.map((line) => line.series));
  assert.deepEqual([...lines].sort(), [...NAMES].sort());
});

test("chart ids and titles are unique, and each chart has a unit or measures without one", () => {
  const panels = panelsFor(new Set(NAMES));
  assert.equal(new Set(panels.map((panel) => panel.id)).size, panels.length);
  assert.equal(new Set(panels.map((panel) => panel.title)).size, panels.length);
});

test("a metric that no kind knows has one chart for all its splits, validation dashed", () => {
  const panel = panelsFor(new Set(NAMES)).find((candidate) => candidate.title === "top5");
  assert.deepEqual(
    panel?.lines.map(({ series, label, dash }) => [series, label, dash]),
    [
      ["train/top5", "train", "solid"],
      ["val/top5", "val", "dash"],
    ],
  );
});

test("what plotly is given is what the store holds, gaps as gaps", () => {
  const store = storeOf(0);
  for (const [index, value] of [3, null, 1].entries()) {
    store.append(envelope(index + 2, scalars(index + 1, { "train/loss": value })));
  }
  const [trace] = drawn(store, "loss").data;
  assert.deepEqual([trace.x, trace.y, trace.connectgaps], [[1, 2, 3], [3, null, 1], false]);
  assert.equal(trace.line.dash, "solid");
});

test("a point between two gaps has a marker, for it has no line", () => {
  const store = storeOf(0);
  for (let step = 1; step <= 60; step += 1) {
    store.append(envelope(step + 1, scalars(step, { "train/loss": step === 30 || step === 32 ? null : 1 })));
  }
  const [trace] = drawn(store, "loss").data;
  assert.deepEqual(
    trace.marker.opacity.flatMap((/** @type {number} */ seen, /** @type {number} */ at) => (seen ? [at] : [])),
    [30],
  );
  assert.equal(drawn(storeOf(60), "loss").data[0].mode, "lines");
});

test("smoothing keeps the raw line, faint, and leaves the learning rate alone", () => {
  const store = storeOf(100);
  const loss = drawn(store, "loss", { smoothing: 0.9 }).data;
  assert.deepEqual(
    loss.map((/** @type {any} */ trace) => trace.opacity ?? 1),
    [0.28, 1, 0.28, 1],
  );
  assert.deepEqual(loss[0].y, store.series.get("train/loss")?.value);
  assert.notDeepEqual(loss[1].y, loss[0].y);
  assert.deepEqual(drawn(store, "learning-rate", { smoothing: 0.9 }).data.length, 1);
});

test("the best checkpoint is marked on validation curves, at its own step", () => {
  const store = storeOf(20);
  store.best = { kind: "checkpoint.best", step: 7, series: "val/top1", value: 0, artifact: "step-7" };
  for (const id of ["loss", "accuracy"]) {
    const best = drawn(store, id).data.at(-1);
    assert.equal(best.name, "best");
    assert.deepEqual(best.x, [7]);
    assert.deepEqual(best.y, [50 + Math.sin(6)]);
  }
  assert.ok(!drawn(store, "throughput").data.some((/** @type {any} */ trace) => trace.name === "best"));
  const hidden = drawn(store, "loss", {}, { ...OWN, hidden: new Set(["val/loss"]) });
  assert.deepEqual(
    hidden.data.map((/** @type {any} */ trace) => trace.name),
    ["train"],
  );
});

test("where an attempt went on there is a vertical line", () => {
  const store = storeOf(50);
  store.append(envelope(52, attempt(2, 20, { total_steps: 20_000, steps_per_epoch: 100 }), 300));
  store.append(envelope(53, scalars(21, { lr: 1 }), 310));
  const at = (/** @type {any} */ x) =>
    drawn(store, "loss", { x }).layout.shapes.map((/** @type {any} */ shape) => shape.x0);
  assert.deepEqual(at("step"), [20]);
  assert.deepEqual(at("epoch"), [0.2]);
  assert.deepEqual(resumePositions(store, "time"), [308]);
});

test("the horizontal axis is step, epoch or time since the first point", () => {
  const store = storeOf(3);
  const series = store.series.get("lr");
  assert.ok(series);
  assert.deepEqual(positions(series, "step", store), [1, 2, 3]);
  assert.deepEqual(positions(series, "epoch", store), [0.01, 0.02, 0.03]);
  assert.deepEqual(positions(series, "time", store), [0, 1, 2]);
});

test("without epochs the axis says step", () => {
  const store = new RunStore();
  store.append(envelope(1, scalars(5, { a: 1 })));
  assert.equal(labelling("epoch", 10, store).title, "step");
  assert.deepEqual(positions(/** @type {any} */ (store.series.get("a")), "epoch", store), [5]);
});

test("a long run is labelled in minutes or hours, and drawn in them", () => {
  const store = storeOf(1000);
  const { data, layout } = drawn(store, "loss", { x: "time" });
  assert.equal(layout.xaxis.title.text, "time (min)");
  assert.equal(data[0].x.at(-1), 999 / 60);
  assert.ok(layout.xaxis.range[1] >= 999 / 60 && layout.xaxis.range[1] < 18);
  assert.equal(labelling("time", 4 * 3600, store).title, "time (h)");
});

test("the axis runs a little ahead of a live run, never beyond its end, and fits an ended one", () => {
  const store = storeOf(1234);
  const [start, end] = domainOf(store, "step", false);
  assert.equal(start, 0);
  assert.ok(end >= 1234 && end <= 1234 * 1.06, String(end));
  assert.deepEqual(domainOf(store, "step", true), [0, 1234]);
  assert.deepEqual(domainOf(new RunStore(), "step", false), [0, 1]);
  const nearEnd = storeOf(9);
  const running = nearEnd.attempt;
  assert.ok(running);
  running.total_steps = 9;
  assert.deepEqual(domainOf(nearEnd, "step", false), [0, 9]);
});

test("a zoom stays when points come, and draws what lies in it at full resolution", () => {
  const store = storeOf(10_000);
  const window = /** @type {const} */ ([2000.5, 2100.5]);
  const before = drawn(store, "loss", { window });
  assert.deepEqual(before.layout.xaxis.range, [2000.5, 2100.5]);
  assert.deepEqual(
    before.data[0].x,
    Array.from({ length: 102 }, (_, index) => 2000 + index),
  );
  store.append(envelope(10_002, scalars(10_001, { "train/loss": 1 })));
  assert.deepEqual(drawn(store, "loss", { window }), before);
});

test("a logarithmic axis has whole numbers as labels", () => {
  const store = new RunStore();
  for (const [index, value] of [0.011, 0.5, 2].entries()) {
    store.append(envelope(index + 1, scalars(index, { "train/loss": value })));
  }
  const { yaxis } = drawn(store, "loss", {}, { ...OWN, log: true }).layout;
  assert.equal(yaxis.type, "log");
  assert.ok(yaxis.tickvals.includes(0.1) && yaxis.tickvals.includes(3));
  assert.equal(yaxis.ticktext[yaxis.tickvals.indexOf(0.1)], "0.1");
  const zoomed = drawn(store, "loss", {}, { ...OWN, log: true, yWindow: /** @type {const} */ ([-1, 0]) }).layout.yaxis;
  assert.deepEqual([zoomed.range, zoomed.autorange], [[-1, 0], undefined]);
});

test("a logarithmic axis survives values that have no logarithm", () => {
  const store = new RunStore();
  store.append(envelope(1, scalars(1, { "train/loss": 0 })));
  const { yaxis } = drawn(store, "loss", {}, { ...OWN, log: true }).layout;
  assert.ok(yaxis.tickvals.every((/** @type {number} */ value) => value > 0 && Number.isFinite(value)));
});

test("a share has a fixed axis, and large values are shortened", () => {
  const store = storeOf(5);
  assert.deepEqual(drawn(store, "cpu").layout.yaxis.range, [0, 103]);
  store.append(envelope(7, scalars(6, { "time/images_s": 12_000 })));
  assert.equal(drawn(store, "throughput").layout.yaxis.exponentformat, "SI");
  assert.equal(drawn(store, "learning-rate").layout.yaxis.exponentformat, "e");
});

test("a picture that stands alone has ground, title and legend, in the colours of the theme", () => {
  const store = storeOf(3);
  const { layout, data } = /** @type {any} */ (standAlone(drawn(store, "loss"), "<b>loss</b>", PALETTE));
  assert.equal(layout.paper_bgcolor, "#fff");
  assert.equal(layout.title.text, "&lt;b&gt;loss&lt;/b&gt;");
  assert.equal(layout.showlegend, true);
  assert.equal(data[0].line.color, "#1");
});

test("names that people chose reach plotly as text", () => {
  assert.equal(escapeText(`<a href="x">&</a>`), `&lt;a href="x"&gt;&amp;&lt;/a&gt;`);
  const store = storeOf(2, ["val/<b>dog</b>", "<i>/<b>dog</b>"]);
  const id = panelsFor(new Set(store.series.keys())).find((panel) => panel.id.startsWith("series-"))?.id ?? "";
  assert.equal(
    drawn(store, id).data.some((/** @type {any} */ trace) => trace.name.includes("<")),
    false,
  );
});
