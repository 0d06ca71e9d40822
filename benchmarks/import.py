# ruff: noqa: N999 - the name is that of what is measured
"""How fast images are imported, against a plain loop that reads, decodes once and hashes each file.

Crops of real photographs are written as JPEG into a temporary folder, with seeded places and sizes; then loop and
import take turns, and each pair gives a ratio. The import runs as it does in use, ``python -m engine import`` in a
process of its own, so its start, its workers, its checks and the flush to disk are all in its time; the loop is one
process too and writes nothing. The first pair is thrown away: it reads the files into the page cache.

    python -m benchmarks.import PHOTOGRAPHS.zip [--pairs 5] [--large 2000] [--small 20000]

``PHOTOGRAPHS.zip`` holds photographs; at least 500 px on their shorter side is best.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.photographs import cut_photographs
from wire.layout import JobDir
from wire.manifests import DatasetManifest
from wire.specs import FromFolder, ImportSpec

LARGE_PX = 500
SMALL_PX = 32
PLAIN_LOOP = """
import hashlib, io, sys, time
from pathlib import Path
from PIL import Image

began_at = time.perf_counter()
for path in sorted(Path(sys.argv[1]).rglob("*.jpg")):
    data = path.read_bytes()
    with Image.open(io.BytesIO(data)) as image:
        image.load()
    hashlib.sha256(data).hexdigest()
print(time.perf_counter() - began_at)
"""


def measure(photographs: Path, *, n_images: int, image_px: int, n_pairs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "images"
        cut_photographs(photographs, root, n_images=n_images, px=image_px)
        plain_s, import_s, peak_mib = [], [], 0
        for pair in range(n_pairs + 1):
            plain_s.append(_plain_loop(root))
            seconds, mib = _import(root, Path(folder) / f"job-{pair}", n_images)
            import_s.append(seconds)
            peak_mib = max(peak_mib, mib)
    ratios = [plain / imported for plain, imported in zip(plain_s[1:], import_s[1:], strict=True)]
    return {
        "images": n_images,
        "px": image_px,
        "pairs": n_pairs,
        "plain_images_s": round(n_images / statistics.median(plain_s[1:])),
        "import_images_s": round(n_images / statistics.median(import_s[1:])),
        "ratio_median": round(statistics.median(ratios), 2),
        "ratio_lowest": round(min(ratios), 2),
        "peak_mib_of_the_largest_process": peak_mib,
    }


def _plain_loop(root: Path) -> float:
    done = subprocess.run([sys.executable, "-c", PLAIN_LOOP, str(root)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _import(root: Path, folder: Path, n_images: int) -> tuple[float, int]:
    """Seconds, and the memory of the largest process in MiB."""
    folder.mkdir()
    job = JobDir(folder)
    job.spec_path.write_text(ImportSpec(name="crops", source=FromFolder(path=str(root))).model_dump_json())
    began_at = time.perf_counter()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", "import", "--dir", str(folder)], stdout=log, stderr=log
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began_at
    if status:
        raise SystemExit((folder / "log.txt").read_text())
    manifest = DatasetManifest.model_validate_json((job.dataset_dir / "manifest.json").read_bytes())
    if manifest.n_found != n_images:
        raise SystemExit(f"{manifest.n_found} of {n_images} files were found.")
    # Children counts those that have ended, of those the largest: the import's workers are among them.
    largest_kib = max(usage.ru_maxrss, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    return seconds, largest_kib // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--large", type=int, default=2000, help=f"images of {LARGE_PX} px")
    parser.add_argument("--small", type=int, default=20_000, help=f"images of {SMALL_PX} px")
    arguments = parser.parse_args()
    for n_images, image_px in ((arguments.large, LARGE_PX), (arguments.small, SMALL_PX)):
        if n_images:
            measured = measure(arguments.photographs, n_images=n_images, image_px=image_px, n_pairs=arguments.pairs)
            print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
