"""From images to a verified bundle through the HTTP API, on the running server or on one started for this.

DATA names an archive of images in class folders to upload; without it the bundled digits are taken. EPOCHS, MODEL and
SEED override what the server plans for the dataset; TARGETS (onnx:fp32 tensorrt_rtx:int8 ...) what it is exported to,
which is everything without it. DATA_DIR names the server, as for ``make run``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from demo_exports import exported, wanted
from demo_server import DemoError, Server, Unreachable, server

RESTART_PATIENCE_S = 60
POLL_S = 0.5
ENDED = {"succeeded", "failed", "errored", "cancelled"}
SPLITS = {"val": "validation", "test": "test"}


def archive() -> Path | None:
    """The file that DATA names."""
    named = os.environ.get("DATA", "")
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise DemoError(f"DATA={named} is no file. Name an archive of images in class folders (zip or tar).")
    return path


def brought(api: Server, path: Path) -> int:
    """Upload an archive and import it; returns the import's id."""
    upload_id = api.upload(path, lambda done, size: _show(f"upload: {done / 2**20:.1f} of {size / 2**20:.1f} MiB"))
    print(flush=True)
    made = api.post("/datasets", {"name": path.name[:200], "source": {"kind": "upload", "upload": upload_id}})
    wait_for(api, made["id"], "import")
    facts = api.get(f"/datasets/{made['id']}")["dataset_meta"]
    print(
        f"dataset: {facts['n_images']:,} images, {facts['n_classes']:,} classes, {facts['n_refused']:,} files refused"
    )
    return int(made["id"])


def digits(api: Server) -> int:
    """Id of the import of the digits; done again only where there is none."""
    source = {"kind": "sample", "name": "digits"}
    for dataset in api.get("/datasets?status=succeeded"):
        if api.get(f"/jobs/{dataset['id']}/spec")["source"] == source:
            return int(dataset["id"])
    made = api.post("/datasets", {"name": "Digits", "source": source})
    wait_for(api, made["id"], "import")
    return int(made["id"])


def overrides() -> dict[str, int]:
    """Training options that the environment sets."""
    variables = {"EPOCHS": "epochs", "SEED": "seed"}
    return {option: _whole_number(name) for name, option in variables.items() if os.environ.get(name)}


def train(api: Server, dataset_id: int, options: dict[str, int]) -> int:
    """Start a run with the planned options, but for those given, and return its id."""
    model = os.environ.get("MODEL", "")
    wish = api.get(f"/trainings/defaults?dataset={dataset_id}&model={model}")["request"]
    wish["options"] |= options
    wish["title"] = f"Demo: {wish['model']['name']}, {wish['options']['epochs']} epochs"
    return int(api.post("/trainings", wish)["id"])


def _whole_number(variable: str) -> int:
    value = os.environ[variable]
    try:
        return int(value)
    except ValueError:
        raise DemoError(f"{variable}={value} is not a whole number.") from None


def wait_for(api: Server, job_id: int, what: str) -> Any:
    """Print a job's progress until it ends, and give its last summary."""
    said = ""
    answered_at = time.monotonic()
    while True:
        try:
            job = api.get(f"/jobs/{job_id}")
        except Unreachable:
            # Trainings outlive the web server, which may be back in a moment.
            if time.monotonic() - answered_at > RESTART_PATIENCE_S:
                raise
            time.sleep(POLL_S)
            continue
        answered_at = time.monotonic()
        line = _progress(job, what)
        if line != said:
            _show(line)
            said = line
        if job["status"] in ENDED:
            break
        time.sleep(POLL_S)
    print(flush=True)
    if job["status"] != "succeeded":
        error = job["error"] or {"message": f"it is {job['status']}", "hint": ""}
        raise DemoError(f"The {what} did not succeed: {error['message']} {error['hint']}".rstrip())
    return job


def _progress(job: Any, what: str) -> str:
    parts = [f"{what}: {job['status']}"]
    # In a file one line an epoch is enough.
    if sys.stdout.isatty() and job["progress"] is not None and job["status"] not in ENDED:
        parts.append(f"{job['progress']:.0%}")
    if job["epoch"] is not None:
        parts.append(f"epoch {job['epoch']} of {job['epochs']}")
    if job["best"]:
        parts.append(f"best {job['best']['series']} {job['best']['value']:.4g}")
    if job["wait_reason"]:
        parts.append(job["wait_reason"])
    return ", ".join(parts)


def _show(line: str) -> None:
    # On a terminal the line is rewritten; in a file each one is kept.
    print(f"\r\033[K{line}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)


def evaluation(api: Server, run_id: int) -> None:
    """Wait for the evaluation that follows a training, and print what it found."""
    evaluations = api.get(f"/trainings/{run_id}/evaluations")
    if not evaluations:
        print("evaluation: none, for the dataset has neither validation nor test images", flush=True)
        return
    wait_for(api, evaluations[0]["id"], "evaluation")
    report = api.get(f"/evaluations/{evaluations[0]['id']}")
    checkpoint = report["checkpoint"]
    print(f"checkpoint: {checkpoint['name']}, epoch {checkpoint['epoch']:g}. {checkpoint['chosen']}")
    print(f"{'split':<12}{'images':>8}{'top-1':>10}{'top-5':>10}{'macro F1':>10}{'ECE':>8}")
    for split in report["splits"]:
        top5 = "-" if split["top5"] is None else f"{split['top5']:.2%}"
        print(
            f"{SPLITS[split['split']]:<12}{split['n_images']:>8,}{split['top1']:>10.2%}{top5:>10}"
            f"{split['macro_f1']:>10.3f}{split['ece']:>8.3f}"
        )


def main() -> None:
    options, path = overrides(), archive()
    wanted()
    with server() as api:
        run_id = train(api, brought(api, path) if path else digits(api), options)
        run_url = f"{api.address}runs/{run_id}/"
        print(run_url, flush=True)
        best = wait_for(api, run_id, "training")["best"]
        evaluation(api, run_id)
        print(
            f"accuracy: {best['value']:.2f} %"
            if best["series"] == "val/top1"
            else f"{best['series']}: {best['value']:.4g}"
        )
        print(f"run: {run_url}", flush=True)
        exported(api, run_id, wait_for)


if __name__ == "__main__":
    try:
        main()
    except DemoError as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
