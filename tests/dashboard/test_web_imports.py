from __future__ import annotations

import subprocess
import sys

from config.env import BASE_DIR

HEAVY = ["torch", "torchvision", "numpy", "sklearn", "PIL", "lmdb"]


def test_the_web_process_loads_nothing_heavy():
    """In a fresh interpreter, for this one has loaded all sorts of things for other tests."""
    program = f"import sys, config.asgi, config.urls; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=BASE_DIR, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
