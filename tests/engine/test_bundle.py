"""What stands in a bundle, and what can not get in. Its programs are tried in test_bundle_programs.py."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.bundle.contents import Curve, Entry, Overridden, RunFacts, bundle, labels_txt
from engine.bundle.wording import folder_name, plain
from engine.catalog import model_cards
from tests.kits.exported import CHECKPOINT, LOST, write_export_folder
from tests.kits.stored import manifest_of
from wire.evaluation import EvaluationReport, SplitEvaluation
from wire.exports import Failed, NotRun, Passed
from wire.layout import ExportDir
from wire.manifests import Warned
from wire.specs import Choice, FromCheckpoint, FromPublished, TrainSpec

HOSTILE = "]|x|\n\n# Owned\n<script>alert(1)</script> [a](http://evil) `b` \u202e\x1b[31m ../../=cmd"
OVERRIDDEN_AT = datetime(2026, 2, 3, tzinfo=UTC)


def entry(tmp_path, backend="onnx", precision="fp32", outcome="passed", *, reason="We accept it.", **changes):
    folder = ExportDir(tmp_path / f"{backend}-{precision}")
    report = write_export_folder(folder, backend=backend, precision=precision, outcome=outcome, **changes)
    verdict = report.verdict
    if isinstance(verdict, Failed):
        verdict = Overridden(by="ada", at=OVERRIDDEN_AT, reason=reason, failed=verdict)
    return Entry(report, folder, verdict)


def facts(title="Owls", *, model="lenet5", **changes):
    recipe = changes.pop("recipe", TrainSpec(dataset="../1/artifacts/dataset", model=Choice(name=model)))
    return RunFacts(**{"id": 7, "title": title, "recipe": recipe, "model": model_cards().get(model), **changes})


def unpacked(contents):
    """Path -> content, without the folder that all is in."""
    data = b"".join(contents.stream())
    assert len(data) == contents.size_bytes
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        assert {name.partition("/")[0] for name in read.namelist()} == {contents.name}
        return {name.partition("/")[2]: read.read(name) for name in read.namelist()}


@pytest.fixture
def entries(tmp_path):
    """One of each verdict and of each kind."""
    return [
        entry(tmp_path, "tensorrt_rtx", "fp16", "not_run"),
        entry(tmp_path, "onnx", "int8", "failed"),
        entry(tmp_path, "onnx", "fp16"),
        entry(tmp_path, "pytorch"),
    ]


def test_the_tree_of_a_bundle(entries):
    files = unpacked(bundle(entries, facts()))
    assert set(files) == {
        *("MODEL_CARD.md", "README.md", "SHA256SUMS", "bundle.json", "golden.json", "labels.txt", "requirements.txt"),
        *("predict.py", "verify.py", "server.py", "Dockerfile", ".dockerignore", "run_engine.py", "build_engine.py"),
        *("weights/weights.safetensors", "weights/report.json", "weights/load_weights.py", "weights/network.py"),
        *("models/onnx-fp16/model.onnx", "models/onnx-fp16/report.json"),
        *("models/onnx-int8/model.onnx", "models/onnx-int8/report.json"),
        *(f"models/tensorrt_rtx-fp16/{name}" for name in ("sm86.engine", "sm89.engine", "model.onnx")),
        *("models/tensorrt_rtx-fp16/report.json", "models/tensorrt_rtx-fp16/PASSPORT.md"),
        *(f"model_repository/owls/{name}" for name in ("config.pbtxt", "labels.txt", "1/model.onnx")),
        *("golden/1.png", "golden/2.png"),
    }  # fmt: skip
    assert files["models/onnx-int8/model.onnx"] == b"onnx int8 " * 20
    assert files["model_repository/owls/1/model.onnx"] == files["models/onnx-fp16/model.onnx"]
    readme = files["README.md"].decode()
    assert [path for path in files if "/" not in path and path[0] != "." and f"`{path}`" not in readme] == ["README.md"]


def test_the_sums_are_those_of_all_other_files(entries):
    files = unpacked(bundle(entries, facts()))
    sums = dict(reversed(line.split("  ")) for line in files.pop("SHA256SUMS").decode().splitlines())
    assert sums == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def test_the_same_exports_give_the_same_bytes_in_whatever_order(entries):
    once, again = bundle(entries, facts()), bundle(list(reversed(entries)), facts())
    assert b"".join(once.stream()) == b"".join(again.stream())
    assert once.sha256 == again.sha256 != bundle(entries[:3], facts()).sha256


def test_the_index_tells_programs_what_is_there(entries):
    files = unpacked(bundle(entries, facts()))
    index = json.loads(files["bundle.json"])
    models = {model["name"]: model for model in index["models"]}
    assert list(models) == ["pytorch-fp32", "onnx-fp16", "onnx-int8", "tensorrt_rtx-fp16"]
    verdicts = [models[name]["verdict"] for name in ("onnx-fp16", "onnx-int8", "tensorrt_rtx-fp16")]
    assert verdicts == ["passed", "overridden", "not_run"]
    assert index["default"] == "onnx-fp16"
    assert models["onnx-int8"]["reasons"] == [LOST]
    assert models["onnx-int8"]["override"] == {
        "by": "ada",
        "at": "2026-02-03T00:00:00+00:00",
        "reason": "We accept it.",
    }
    assert models["tensorrt_rtx-fp16"]["profile"]["most_batch"] == 32
    for model in models.values():
        for file in model["files"]:
            assert hashlib.sha256(files[file["path"]]).hexdigest() == file["sha256"]
    cases = json.loads(files["golden.json"])["cases"]
    assert {case["image"] for case in cases} == {"golden/1.png", "golden/2.png"}
    assert {case["model"] for case in cases} == set(models)
    assert {case["is_measured"] for case in cases if case["model"] == "tensorrt_rtx-fp16"} == {False}


def test_one_that_passed_is_the_default_before_a_more_exact_one_that_did_not(tmp_path):
    made = [entry(tmp_path, "onnx", "fp32", "failed"), entry(tmp_path, "onnx", "int8")]
    assert json.loads(unpacked(bundle(made, facts()))["bundle.json"])["default"] == "onnx-int8"
    assert json.loads(unpacked(bundle(made[:1], facts()))["bundle.json"])["default"] == "onnx-fp32"


def test_without_onnx_there_is_no_server_and_no_triton(tmp_path):
    files = unpacked(bundle([entry(tmp_path, "tensorrt_rtx")], facts()))
    assert not {"server.py", "Dockerfile"} & set(files)
    assert not [path for path in files if path.startswith(("model_repository", "weights"))]
    assert json.loads(files["bundle.json"])["default"] is None


def test_what_failed_gets_in_by_an_override_alone(tmp_path):
    made = entry(tmp_path, outcome="failed")
    failed = made.report.verdict
    for verdict in (Passed(), NotRun(reason="no CUDA device"), failed):
        with pytest.raises(ValueError, match="measured as failed"):
            Entry(made.report, made.folder, verdict)
    good = entry(tmp_path, precision="fp16")
    with pytest.raises(ValueError, match="measured as passed"):
        Entry(good.report, good.folder, Overridden("ada", OVERRIDDEN_AT, "because", failed))


def test_what_does_not_go_together_is_refused(tmp_path):
    one = entry(tmp_path)
    other = entry(tmp_path, precision="int8", checkpoint=CHECKPOINT.model_copy(update={"sha256": "d" * 64}))
    for entries, words in (([], "nothing"), ([one, one], "one target"), ([one, other], "checkpoints")):
        with pytest.raises(ValueError, match=words):
            bundle(entries, facts())


def card_of(entries, **changes):
    return unpacked(bundle(entries, facts(**changes)))["MODEL_CARD.md"].decode()


def test_the_model_card_begins_with_what_failed(entries):
    card = card_of(entries)
    warning = card.partition("## Data")[0]
    assert "**Warning: not all of this passed" in warning
    assert "**onnx-int8** failed: It loses 3.20 points" in warning
    assert "by ada on 2026-02-03, who says: We accept it." in warning
    assert "**Failed, overridden**" in card
    assert "Not run: no CUDA device" in card
    assert "Warning" not in card_of(entries[:1])


def test_the_model_card_has_data_recipe_scores_curves_and_verification(entries):
    split = SplitEvaluation(
        split="val", n_images=3000, loss=0.31, top1=0.912, top5=None, macro_precision=0.9, macro_recall=0.9,
        macro_f1=0.905, ece=0.021, classes=(), reliability=(), confusion=(),
    )  # fmt: skip
    report = entries[0].report
    card = card_of(
        entries,
        dataset=manifest_of(
            ["cat", "dog"],
            {"train": (900, 800), "val": (90, 80)},
            warnings=(Warned(code="few", text="Few of dog."),),
            licence="CC-BY-4.0",
                n_found=1870,
        ),
        evaluation=EvaluationReport(
            checkpoint=report.checkpoint, run=7, dataset=1, dataset_name="Digits", samples_sha256="5" * 64,
            classes=("cat", "dog"), splits=(split,), device="CPU", created_at=OVERRIDDEN_AT,
        ),
        curves=(
            Curve("train/loss", "", tuple((step, 2 / (1 + step)) for step in range(0, 301, 10))),
            Curve("val/top1", "%", ((100, 70.5), (200, None), (300, 91.2))),
        ),
        steps_per_epoch=100,
    )  # fmt: skip
    for line in (
        "| cat | 900 | 90 |", "| **all** | 1,700 | 170 |", "- Caution: Few of dog.", "- Licence: CC-BY-4.0",
        "| Learning rate | 0.001 |", "| began with | random weights |",
        "| val | 3,000 | 91.20 % |  | 0.9050 | 0.31 | 0.0210 |",
        "| Step | Epoch | train/loss | val/top1, % |", "| 200 | 2 | 0.00995 |  |", "| 300 | 3 | 0.006645 | 91.2 |",
        "| onnx-fp16 | Passed | 91.10 % (89.00 to 93.00) | -0.10 (-0.50 to +0.30) | 99.60 % | 0.02 | 0.50 / 0.60 |",
        " | 1,900.0 | 200 bytes |",
        "- onnx-fp16: 1,000 of 3,000 images of val of Digits, drawn from each class in proportion with seed 0",
        "- onnx-int8: in float: conv1, fc3",
    ):  # fmt: skip
        assert line in card, line


def test_the_dataset_of_the_verification_is_not_taken_for_that_of_the_training(tmp_path):
    data = card_of([entry(tmp_path, dataset_name="Others")]).partition("## Data")[2].partition("## Recipe")[0]
    assert "not there any more, or is private" in data
    assert "Others" not in data


@pytest.mark.parametrize(
    ("init", "weights", "words"),
    [
        (FromPublished(weights="imagenet1k_v1"), True, "fine-tuned from published weights (torchvision): None"),
        (FromPublished(weights="gone"), False, "whose licence is **not stated**"),
        (FromCheckpoint(path="../3/x.pt"), False, "- Weights: fine-tuned from a checkpoint"),
    ],
)  # fmt: skip
def test_the_model_card_names_the_licences(tmp_path, init, weights, words):
    recipe = TrainSpec(dataset="../1/artifacts/dataset", model=Choice(name="resnet18"), init=init)
    began_with = model_cards()["resnet18"].weights[0] if weights else None
    card = card_of([entry(tmp_path)], model="resnet18", recipe=recipe, began_with=began_with)
    assert words in card
    assert "- Data: **not stated** when it was imported" in card
    assert "- Code of the network: BSD-3-Clause \\(torchvision\\)" in card


def test_names_that_people_give_become_neither_markup_nor_lines(tmp_path):
    made = entry(
        tmp_path, outcome="failed", reason=HOSTILE, classes=(HOSTILE, "=dog"), dataset_name=HOSTILE, notes=(HOSTILE,),
        verdict=Failed(reasons=(HOSTILE,)), golden=(),
    )  # fmt: skip
    dataset = manifest_of(
        [HOSTILE, "=dog"], {"train": (1, 1)}, name=HOSTILE, licence=HOSTILE, notes=(HOSTILE,), n_found=2
    )
    contents = bundle([made], facts(HOSTILE, dataset=dataset))
    files = unpacked(contents)
    assert re.fullmatch(r"[a-z0-9-]+", contents.name)
    for name in ("MODEL_CARD.md", "README.md"):
        text = files[name].decode()
        assert "<script" not in text
        assert not re.search(r"^# Owned", text, re.MULTILINE)
        assert not re.search(r"(?<!\\)\]\(", text)
        assert "://evil" not in text
        assert all(sign.isprintable() or sign == "\n" for sign in text)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        columns = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
        assert all(
            now == before for now, before, row in zip(columns[1:], columns, rows[1:], strict=False) if ":--" in row
        )
        assert set(columns) <= {3, 10}
    assert files["labels.txt"].decode().count("\n") == 2
    assert files["model_repository/" + contents.name + "/labels.txt"] == files["labels.txt"]
    assert json.loads(files["bundle.json"])["classes"][0] == HOSTILE


def test_a_thousand_classes_have_all_their_names_and_a_short_card(tmp_path):
    names = tuple(f"class\n{number}" for number in range(1000))
    made = [entry(tmp_path, classes=names)]
    files = unpacked(bundle(made, facts()))
    assert files["labels.txt"].decode().splitlines() == [f"class\\n{number}" for number in range(1000)]
    assert json.loads(files["bundle.json"])["classes"] == [*names]
    card = card_of(made, dataset=manifest_of([*names], {"train": (3,) * 1000}, n_found=3000))
    assert "And 950 more classes" in card
    assert len(card) < 10_000


def test_a_label_is_one_line_whatever_it_holds():
    assert labels_txt(["a", "b\nc\r\x85\u2028d", "=e", "\u732b"]) == "a\nb\\nc\\r\\x85\\u2028d\n=e\n\u732b\n"


@pytest.mark.parametrize(
    ("title", "name"),
    [("LeNet-5 on Digits!", "lenet-5-on-digits"), ("\u732b", "run-7"), ("../../etc", "etc"), ("x" * 300, "x" * 60)],
)
def test_the_folder_has_a_name_that_every_disk_takes(title, name):
    assert folder_name(title, "run-7") == name


def test_markup_is_text():
    assert plain("a|b *c* <d>\n# e") == r"a\|b \*c\* &lt;d&gt;\\n\# e"


def test_triton_is_told_shapes_types_and_classes(tmp_path):
    config = unpacked(bundle([entry(tmp_path)], facts()))["model_repository/owls/config.pbtxt"].decode()
    for line in ('platform: "onnxruntime_onnx"', "max_batch_size: 32", "dims: [ -1, -1, 3 ]", "dims: [ 3 ]"):
        assert line in config
    assert config.count("{") == config.count("}")


def test_an_engine_has_a_passport(entries):
    passport = unpacked(bundle(entries, facts()))["models/tensorrt_rtx-fp16/PASSPORT.md"].decode()
    assert "| models/tensorrt_rtx-fp16/sm89.engine | 8.9 | " in passport
    assert "| batch | 1 | 8 | 32 |" in passport
    assert "python build_engine.py --model tensorrt_rtx-fp16" in passport


def test_requirements_are_what_is_installed_here_or_what_an_export_was_verified_with(tmp_path):
    pinned = dict(line.split("==") for line in Path("requirements/base.in").read_text().splitlines() if "==" in line)
    made = unpacked(bundle([entry(tmp_path)], facts()))["requirements.txt"].decode()
    for name in ("numpy", "onnxruntime", "pillow"):
        assert f"{name}=={pinned[name]}\n" in made
    older = entry(tmp_path, precision="fp16", versions={"onnxruntime": "1.30.0", "Pillow": "12.9"})
    made = unpacked(bundle([older], facts()))["requirements.txt"].decode()
    assert "onnxruntime==1.30.0\n" in made
    assert "pillow==12.9\n" in made
