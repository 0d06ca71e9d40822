"""The real web server and the service of pictures over a run that was evaluated: no Redis, no agent, no training.

Started by ``manage.py shell -c`` with DATA_DIR and PORT; says the session and the runs' ids, and ends with stdin.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from engine.store.predictions import Prediction, PredictionsWriter
from jobs.models import Artifact, Job, JobInput
from jobs.storage import storage
from tests.browser.dataset_server import N_IMAGES, make_plain
from tests.browser.scripted_server import serve
from tests.dashboard.makers import checkpoint_of, evaluation_job, training_job
from tests.kits.serving import Serving
from wire.evaluation import ClassScore, Confusion, EvaluationReport, ReliabilityBin, SplitEvaluation
from wire.layout import PredictionsDir
from wire.manifests import SplitName
from wire.specs import CheckpointRef

FEW = ["<script>alert(1)</script>", "cat", "=dog"]
MANY = [f"class {number}" for number in range(60)]
N_PER_SPLIT = 120


def make_evaluated(owner: User, dataset: Job, names: list[str]) -> Job:
    """120 images a split; every fourth is taken for the class that follows its own."""
    run: Job = training_job(owner, dataset, status="succeeded", title=f"Run of {len(names)} <i>classes</i>")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    evaluation: Job = evaluation_job(owner, run, checkpoint_of(run), status="running")
    folder = PredictionsDir(storage().job(evaluation.pk).evaluation_dir)
    folder.path.mkdir(parents=True)
    found = []
    with PredictionsWriter(folder.predictions_path, names) as writer:
        for split, first_id in (("val", 1), ("test", 1 + N_PER_SPLIT)):
            rows = [_answer(split, first_id + number, number, names) for number in range(N_PER_SPLIT)]  # type: ignore[arg-type]
            writer.add(rows)
            found.append(_scores(split, rows, names))  # type: ignore[arg-type]
        writer.finish()
    report = EvaluationReport(
        checkpoint=CheckpointRef.model_validate(evaluation.spec["checkpoint"]),
        run=run.pk,
        dataset=dataset.pk,
        dataset_name=dataset.title,
        samples_sha256="5" * 64,
        classes=tuple(names),
        splits=tuple(found),
        device="CPU",
        created_at=datetime.now(UTC),
    )
    folder.report_path.write_text(report.model_dump_json())
    Artifact.objects.create(
        made_by=evaluation,
        kind="report",
        name="evaluation",
        path="artifacts/evaluation",
        sha256="e" * 64,
        bytes=9,
        meta=_meta(report),
    )
    now = datetime.now(UTC)
    Job.objects.filter(pk=evaluation.pk).update(status="succeeded", started_at=now, ended_at=now)
    return run


def _meta(report: EvaluationReport) -> dict[str, Any]:
    splits = {split.split: split.model_dump(include={"n_images", "top1", "macro_f1", "ece"}) for split in report.splits}
    return {"checkpoint": report.checkpoint.model_dump(), "splits": splits}


def _answer(split: SplitName, id_: int, number: int, names: list[str]) -> Prediction:
    label = number % len(names)
    predicted = (label + 1) % len(names) if number % 4 == 0 else label
    other = (predicted + 1) % len(names)
    share = 0.55 + number / 400
    truth = share if predicted == label else (1 - share) / 2
    top = ((predicted, share), (other, 1 - share))
    return Prediction(
        *(id_, split, 1 + (number % N_IMAGES), f"{number:03}.png", label, predicted, share, truth, -math.log(truth)),
        *(None, top),
    )


def _scores(split: SplitName, rows: list[Prediction], names: list[str]) -> SplitEvaluation:
    cells = Counter((row.label or 0, row.predicted or 0) for row in rows)
    support, taken = Counter(row.label for row in rows), Counter(row.predicted for row in rows)
    shares: dict[str, Any] = {"precision": 0.75, "recall": 0.75, "f1": 0.75}
    top1 = sum(count for (label, predicted), count in cells.items() if label == predicted) / len(rows)
    bins = [
        ReliabilityBin(lower=n / 15, upper=(n + 1) / 15, n_images=8, confidence=n / 15, accuracy=n / 20)
        for n in range(15)
    ]
    return SplitEvaluation(
        split=split,
        n_images=len(rows),
        loss=0.7,
        top1=top1,
        top5=None,
        ece=0.04,
        macro_precision=0.75,
        macro_recall=0.75,
        macro_f1=0.75,
        reliability=tuple(bins),
        classes=tuple(
            ClassScore(label=label, name=name, support=support[label], n_predicted=taken[label], **shares)
            for label, name in enumerate(names)
        ),
        confusion=tuple(
            Confusion(label=label, predicted=predicted, n_images=count)
            for (label, predicted), count in sorted(cells.items())
        ),
    )


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    owner = User.objects.create_user("ada", password="x")  # noqa: S106
    client = Client()
    client.force_login(owner)
    dataset = make_plain(owner)
    made = {"few": make_evaluated(owner, dataset, FEW).pk, "many": make_evaluated(owner, dataset, MANY).pk}
    serving = Serving(Path(os.environ["DATA_DIR"]), settings.SERVE_SOCKET)
    settings.SERVE_SOCKET.parent.mkdir(parents=True, exist_ok=True)
    serving.start()
    threading.Thread(target=serve, daemon=True).start()
    sys.stdout.write(json.dumps({**made, "session": client.cookies["sessionid"].value}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    serving.stop()
