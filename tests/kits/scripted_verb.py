"""A verb without torch, for tests of everything around a verb.

``python -m tests.kits.scripted_verb`` takes the arguments of ``python -m engine``.

The environment says what it does: ``SCRIPT`` is ``succeed``, ``wait`` (until asked to stop), ``abort``, or an exception
to raise.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from engine import __main__ as engine_main
from engine.context import Context
from wire.errors import LossNotFinite
from wire.events import AttemptStarted, Outcome


def run(_spec: Any, context: Context) -> Outcome:
    context.sink.emit(AttemptStarted(n=context.n))
    match os.environ["SCRIPT"]:
        case "succeed":
            return "succeeded"
        case "wait":
            while not context.stop.asked:
                time.sleep(0.01)
            return context.stop.outcome
        case "abort":
            os.abort()
        case "user":
            raise LossNotFinite("The loss became nan at step 3.", hint="Lower the learning rate.")
        case "memory":
            raise MemoryError
        case other:
            raise ZeroDivisionError(other)


if __name__ == "__main__":
    engine_main.VERBS["train"] = "tests.kits.scripted_verb:run"
    if os.environ.get("IGNORE_SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(engine_main.main(sys.argv[1:]))
