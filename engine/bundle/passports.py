"""What whoever gets an engine has to know: where it runs, what it takes, and what to do where it does not load."""

from __future__ import annotations

from engine.bundle.facts import Entry
from engine.bundle.places import path_of
from engine.bundle.wording import listing, plain, size, table
from wire.exports import InputProfile


def passport_md(entry: Entry) -> str:
    """Of all engines of an export; they differ in the compute capability alone."""
    report = entry.report
    engines = [
        [path_of(entry, file), file.compute_capability or "not stated", size(file.bytes), f"`{file.sha256[:16]}`"]
        for file in entry.files("engine")
    ]
    versions = listing(f"{plain(name)} {plain(version)}" for name, version in sorted(report.versions.items()))
    sources = listing(path_of(entry, file) for file in entry.files("source"))
    return (
        f"# Passport of {entry.name}\n\n"
        f"{table(['Engine', 'Compute capability', 'Size', 'SHA-256 begins with'], engines, numbers=False)}\n"
        f"Built on {report.created_at:%Y-%m-%d} with:\n\n{versions}\n"
        f"## What it takes\n\n{_profile(report.profile)}\n"
        "## Where it loads\n\n"
        "On GPUs of the compute capability that stands above, with the version of TensorRT that stands above; on\n"
        "others it is refused, which is no sign that it is damaged. NVIDIA lists the compute capability of GPUs at\n"
        "<https://developer.nvidia.com/cuda-gpus>; `nvidia-smi --query-gpu=compute_cap --format=csv` prints it.\n\n"
        "## Where it does not load\n\n"
        "Rebuild it there, which takes seconds to minutes and needs no training data:\n\n"
        "    pip install tensorrt-rtx-cu13\n"
        f"    python build_engine.py --model {entry.name}\n\n"
        f"The new engine lies in `rebuilt/{entry.name}/`, and `verify.py` tries it. It is made from:\n\n{sources}\n"
        "TensorRT for RTX knows the GPUs of desktops and workstations. Where it does not know yours, run the ONNX\n"
        "model with ONNX Runtime's CUDA provider, or give the graph to the TensorRT that is made for data centres.\n"
    )


def _profile(profile: InputProfile | None) -> str:
    if profile is None:
        return "`images`: bytes, batch x height x width x 3 (red, green, blue).\n"
    rows = [
        ["batch", str(profile.least_batch), str(profile.typical_batch), str(profile.most_batch)],
        ["height and width, px", str(profile.least_px), str(profile.typical_px), str(profile.most_px)],
    ]
    return (
        "`images`: bytes, batch x height x width x 3 (red, green, blue), within these limits. It gives\n"
        f"`probabilities`: float32, batch x classes.\n\n{table(['', 'Least', 'Fastest at', 'Most'], rows)}"
    )
