// @ts-check
/** The newest values, each as a text. Pure. */

import { formatPercent, formatValue, MISSING } from "../format.js";

/** @typedef {import("../store.js").RunStore} RunStore */
/** @typedef {import("../store.js").Series} Series */

const GPU_LOAD = /^gpu\d+\/util_pct$/;

/**
 * @param {RunStore} store
 * @returns {Record<string, string>} by the name of the tile; `best` and `device-label` are words beside a value
 */
export function tileTexts(store) {
  const loads = [...store.series.values()].filter(
    (series) => GPU_LOAD.test(series.name) && isOfThisAttempt(series, store),
  );
  return {
    "train-loss": formatValue(store.latest("train/loss")),
    "val-loss": formatValue(store.latest("val/loss")),
    "val-accuracy": formatPercent(store.latest("val/top1"), 2),
    best: bestText(store),
    "learning-rate": formatValue(store.latest("lr")),
    images: formatValue(store.latest("time/images_s")),
    "data-wait": formatPercent(store.latest("time/data_wait_pct")),
    device: loads.length > 0 ? meanLoad(store, loads) : formatPercent(store.latest("cpu/util_pct"), 0),
    "device-label": loads.length === 0 ? "CPU in use" : loads.length === 1 ? "GPU in use" : "GPUs in use, mean",
  };
}

/** @param {RunStore} store */
function bestText(store) {
  if (!store.best) return "";
  const { series, value, step } = store.best;
  const text = store.series.get(series)?.unit === "%" ? formatPercent(value, 2) : formatValue(value);
  const perEpoch = store.stepsPerEpoch;
  return perEpoch > 0 ? `Best ${text}, epoch ${Math.ceil(step / perEpoch)}` : `Best ${text}, step ${step}`;
}

/**
 * An earlier attempt may have run on a device that this one has not got.
 * @param {Series} series
 * @param {RunStore} store
 */
function isOfThisAttempt(series, store) {
  return (series.seq.at(-1) ?? 0) > (store.attempt?.started_seq ?? 0);
}

/**
 * @param {RunStore} store
 * @param {Series[]} loads
 */
function meanLoad(store, loads) {
  const values = loads.map(({ name }) => store.latest(name)).filter((value) => value !== null);
  if (values.length === 0) return MISSING;
  return formatPercent(values.reduce((sum, value) => sum + value, 0) / values.length, 0);
}
