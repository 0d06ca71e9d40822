// Written by `manage.py export_schema` from wire/events.py. Change it there.

/** One curve: `split/name` (`train/loss`, `val/top1`, `lr`, `gpu0/memory_gib`), declared once. */
export interface SeriesInfo {
  name: string;
  unit: string;
  better: "lower" | "higher" | "";
}

/** A process began, or began again from the checkpoint of `from_step`. Points of earlier attempts with a step greater than `from_step` are superseded by what this attempt will write. */
export interface AttemptStarted {
  kind: "attempt.started";
  n: number;
  from_step: number;
  schema_version: number;
  total_steps: number;
  steps_per_epoch: number;
  series: SeriesInfo[];
}

/** `done` of `total` in the present stage; a total of 0 means unknown. */
export interface Progress {
  kind: "progress";
  stage: string;
  done: number;
  total: number;
}

/** Values of several series at one step; a value that is not finite is null here and named in `nonfinite`. */
export interface Scalars {
  kind: "scalars";
  step: number;
  values: Record<string, number | null>;
  nonfinite: Record<string, "nan" | "inf" | "-inf">;
}

/** Something a person should read on the run page; warnings and above also stand in the log. */
export interface Notice {
  kind: "notice";
  level: "info" | "warning" | "error";
  code: string;
  text: string;
}

/** A file or folder is complete and durable. `path` is relative to the job's directory. */
export interface ArtifactMade {
  kind: "artifact.made";
  artifact: "dataset" | "checkpoint" | "report" | "predictions" | "export";
  name: string;
  path: string;
  sha256: string;
  bytes: number;
  meta: Record<string, unknown>;
}

/** An artifact of this job was removed by its own retention rule. */
export interface ArtifactDropped {
  kind: "artifact.dropped";
  name: string;
  reason: string;
}

/** The best checkpoint so far, by `series`. */
export interface CheckpointBest {
  kind: "checkpoint.best";
  step: number;
  series: string;
  value: number;
  artifact: string;
}

/** The attempt's last word. `code`, `message` and `hint` are those of `wire.errors`. */
export interface RunEnded {
  kind: "run.ended";
  outcome: "succeeded" | "failed" | "errored" | "cancelled" | "paused";
  code: string;
  message: string;
  hint: string;
}

export type Event =
  | AttemptStarted
  | Progress
  | Scalars
  | Notice
  | ArtifactMade
  | ArtifactDropped
  | CheckpointBest
  | RunEnded;

export type EventKind = Event["kind"];

/** An event with its place in the job: `seq` counts from 1 without gaps, over all attempts. */
export interface Envelope {
  seq: number;
  at: string;
  event: Event;
}
