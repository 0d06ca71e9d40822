"""Try a bundle as somebody does who has nothing else: ``scripts/bundle_in_venv.py BUNDLE.zip [IMAGE ...]``.

Makes a virtual environment with what its requirements.txt names, in a folder that is removed afterwards, and runs
verify.py and predict.py there; without images the golden ones are taken. Ends with 0 where both are content.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> Path:
    """The one folder that is in it."""
    with zipfile.ZipFile(archive) as bundle:
        bundle.extractall(folder)
    (top,) = folder.iterdir()
    return top


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    archive, *images = (Path(name).resolve() for name in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="fovea-bundle-") as made:
        place = Path(made)
        top = unpack(archive, place / "bundle")
        venv.create(place / "venv", with_pip=True)
        python = place / "venv" / "bin" / "python"
        # Nothing of this checkout is to be found from there.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        shown = images or sorted((top / "golden").glob("*.png"))
        steps = (
            [*install, "-r", "requirements.txt"],
            [str(python), "-m", "pip", "list", "--disable-pip-version-check"],
            [str(python), "verify.py"],
            [str(python), "predict.py", *map(str, shown)],
        )
        for step in steps:
            print(f"$ {' '.join(step[1:])}", flush=True)
            if code := subprocess.run(step, cwd=top, env=clean, check=False).returncode:
                print(f"ended with {code}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
