// @ts-check
/**
 * What a page knows about one job: a snapshot up to some seq, then every event after it, once and in order.
 * No DOM and no network, so that it runs and is tested anywhere.
 */

/** @typedef {import("./generated/events").Envelope} Envelope */
/** @typedef {import("./generated/events").Scalars} Scalars */
/** @typedef {import("./generated/events").AttemptStarted} AttemptStarted */
/** @typedef {import("./generated/events").Progress} Progress */
/** @typedef {import("./generated/events").CheckpointBest} CheckpointBest */
/** @typedef {import("./generated/events").RunEnded} RunEnded */

/**
 * One curve as parallel lists in the order of seq. `at` is in seconds since 1970; a null value is a gap.
 * @typedef {{name: string, unit: string, better: string, seq: number[], step: number[], at: number[],
 *   value: (number | null)[], revision: number}} Series
 */
/** @typedef {{n: number, started_seq: number, from_step: number, steps_per_epoch: number, total_steps: number}} Attempt */
/** @typedef {{at: number, done: number}} ProgressSample */
/** @typedef {{unit: string, better: string, seq: number[], step: number[], at: number[], value: (number | null)[]}} SeriesSnapshot */
/** @typedef {{last_seq: number, attempts: Attempt[], series: Record<string, SeriesSnapshot>}} CurvesSnapshot */

/** How much of the recent progress is kept to estimate the time left. */
const PROGRESS_WINDOW_S = 120;

export class RunStore {
  /** Every event up to here has been taken in. */
  lastSeq = 0;
  /** Grows with every change; a reader that remembers it knows whether to look again. */
  revision = 0;
  /** @type {Attempt[]} */
  attempts = [];
  /** @type {Map<string, Series>} */
  series = new Map();
  /** @type {Progress | null} */
  progress = null;
  /** Recent steps of the present stage, oldest first. @type {ProgressSample[]} */
  progressSamples = [];
  /** @type {CheckpointBest | null} */
  best = null;
  /** The last word of the latest attempt. @type {RunEnded | null} */
  ended = null;

  /**
   * Takes the snapshot as the truth up to its `last_seq`, and forgets the curves known before.
   * @param {CurvesSnapshot} snapshot
   */
  load(snapshot) {
    this.lastSeq = snapshot.last_seq;
    this.attempts = snapshot.attempts.map((attempt) => ({ ...attempt }));
    this.revision += 1;
    this.series.clear();
    for (const [name, given] of Object.entries(snapshot.series)) {
      this.series.set(name, {
        name,
        unit: given.unit,
        better: given.better,
        seq: [...given.seq],
        step: [...given.step],
        at: [...given.at],
        value: [...given.value],
        revision: this.revision,
      });
    }
  }

  /**
   * Takes in one event. What is already known changes nothing; what comes too early is refused, for the events
   * between have to be fetched first.
   * @param {Envelope} envelope
   * @returns {"applied" | "known" | "gap"}
   */
  append(envelope) {
    if (envelope.seq <= this.lastSeq) return "known";
    if (envelope.seq !== this.lastSeq + 1) return "gap";
    this.lastSeq = envelope.seq;
    this.revision += 1;
    this.#apply(envelope);
    return "applied";
  }

  /** The attempt that is running or ran last. */
  get attempt() {
    return this.attempts.at(-1) ?? null;
  }

  get stepsPerEpoch() {
    return this.attempts.findLast((attempt) => attempt.steps_per_epoch > 0)?.steps_per_epoch ?? 0;
  }

  /**
   * The newest finite value of a series.
   * @param {string} name
   */
  latest(name) {
    return this.series.get(name)?.value.findLast((value) => value !== null) ?? null;
  }

  /** @param {Envelope} envelope */
  #apply(envelope) {
    const event = envelope.event;
    switch (event.kind) {
      case "scalars":
        return this.#addScalars(envelope, event);
      case "attempt.started":
        return this.#beginAttempt(envelope, event);
      case "progress":
        return this.#addProgress(envelope, event);
      case "checkpoint.best":
        this.best = event;
        return;
      case "run.ended":
        this.ended = event;
        return;
      case "notice":
      case "artifact.made":
      case "artifact.dropped":
        // Shown by parts of the page that the server renders again; nothing of them is kept here.
        return;
      default:
        return passOver(event);
    }
  }

  /**
   * @param {Envelope} envelope
   * @param {Scalars} event
   */
  #addScalars(envelope, event) {
    const at = Date.parse(envelope.at) / 1000;
    for (const [name, value] of Object.entries(event.values)) {
      const series = this.#seriesOf(name);
      series.seq.push(envelope.seq);
      series.step.push(event.step);
      series.at.push(at);
      series.value.push(value);
      series.revision = this.revision;
    }
  }

  /**
   * A new attempt goes on from a checkpoint: what earlier ones wrote past it will be written again.
   * @param {Envelope} envelope
   * @param {AttemptStarted} event
   */
  #beginAttempt(envelope, event) {
    this.attempts.push({
      n: event.n,
      started_seq: envelope.seq,
      from_step: event.from_step,
      steps_per_epoch: event.steps_per_epoch,
      total_steps: event.total_steps,
    });
    this.progressSamples = [];
    this.ended = null;
    if (this.best && this.best.step > event.from_step) this.best = null;
    for (const series of this.series.values()) this.#supersede(series, event.from_step);
    for (const info of event.series) {
      const series = this.#seriesOf(info.name);
      series.unit = info.unit;
      series.better = info.better;
    }
  }

  /**
   * @param {Series} series
   * @param {number} fromStep
   */
  #supersede(series, fromStep) {
    const kept = series.step.flatMap((step, index) => (step <= fromStep ? [index] : []));
    if (kept.length === series.step.length) return;
    series.seq = kept.map((index) => /** @type {number} */ (series.seq[index]));
    series.step = kept.map((index) => /** @type {number} */ (series.step[index]));
    series.at = kept.map((index) => /** @type {number} */ (series.at[index]));
    series.value = kept.map((index) => /** @type {number | null} */ (series.value[index]));
    series.revision = this.revision;
  }

  /**
   * @param {Envelope} envelope
   * @param {Progress} event
   */
  #addProgress(envelope, event) {
    const at = Date.parse(envelope.at) / 1000;
    const continues = this.progress?.stage === event.stage && this.progress.done <= event.done;
    const recent = continues ? this.progressSamples.filter((sample) => sample.at >= at - PROGRESS_WINDOW_S) : [];
    this.progressSamples = [...recent, { at, done: event.done }];
    this.progress = event;
  }

  /**
   * @param {string} name
   * @returns {Series}
   */
  #seriesOf(name) {
    const known = this.series.get(name);
    if (known) return known;
    const made = { name, unit: "", better: "", seq: [], step: [], at: [], value: [], revision: this.revision };
    this.series.set(name, made);
    return made;
  }
}

/**
 * For the type checker: every kind has its case. While it runs, a page older than the server may meet a kind that it
 * does not know; passing over it keeps the other curves going.
 * @param {never} _event
 */
function passOver(_event) {}
