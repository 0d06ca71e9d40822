"""``python -m engine serve --root DIR --socket PATH``: pictures at once, and answers of trained networks when asked.

Starts with Pillow alone. torch is loaded by the first prediction; when nobody has asked for anything in a while the
process then ends, with status 0, so that whoever keeps it running starts it anew and small. It works on the CPU and
never looks at another device: a training keeps all of its own.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import BaseModel

from engine.serve.http import Route, Sent, Server
from engine.serve.pictures import Picture, Pictures
from engine.serve.stored import Datasets
from wire.serving import ExplainRequest, LayersRequest, LayerTilesRequest, PictureRequest, PredictRequest

IDLE_S = 900.0
END_PATIENCE_S = 8.0
"""For requests in work when it is told to stop."""
_LOOK_EVERY_S = 0.2
_TIDY_EVERY_S = 10.0
_IN_USE = 75

log = logging.getLogger("engine.serve")


class Service:
    """The routes, and the parts of them that are loaded when first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.datasets = Datasets(self._root)
        self._pictures = Pictures(self.datasets)
        self._predictor: Any = None
        self._loading = threading.Lock()
        self.routes = {
            "picture": Route(PictureRequest, lambda asked, _: self._pictures.of_sample(asked), is_prediction=False),
            "predict": Route(PredictRequest, self._asked("predict")),
            "explain": Route(ExplainRequest, self._asked("explain")),
            "layers": Route(LayersRequest, self._asked("layers")),
            "layer-tiles": Route(LayerTilesRequest, self._asked("layer_tiles")),
        }

    @property
    def has_loaded_torch(self) -> bool:
        return self._predictor is not None

    def _asked(self, method: str) -> Callable[[Any, Sent], BaseModel | Picture]:
        def answer(asked: Any, sent: Sent) -> BaseModel | Picture:
            made: BaseModel | Picture = getattr(self._loaded(), method)(asked, sent)
            return made

        return answer

    def _loaded(self) -> Any:
        """What answers with networks; the first to ask waits for torch."""
        with self._loading:
            if self._predictor is None:
                # Before torch is imported, which looks for devices once.
                os.environ["CUDA_VISIBLE_DEVICES"] = ""
                from engine.serve.predictor import Predictor

                self._predictor = Predictor(self._root, self.datasets)
            return self._predictor


def main(argv: Sequence[str]) -> int:
    """Serve until told to stop or idle; returns the exit status, 75 where another process serves there."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S")
    socket_path: Path = arguments.socket
    with _alone(socket_path) as alone:
        if not alone:
            print(f"Another process serves at {socket_path}. Stop it first.", file=sys.stderr)  # noqa: T201
            return _IN_USE
        # Nobody serves there, so whatever lies there was left by one that was killed.
        socket_path.unlink(missing_ok=True)
        _serve(Service(arguments.root), socket_path, arguments.idle_s)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine serve", description="Pictures of datasets and answers of trained networks, on call."
    )
    parser.add_argument("--root", type=Path, required=True, help="the storage root; nothing outside is read")
    parser.add_argument("--socket", type=Path, required=True, help="the unix socket to listen on")
    parser.add_argument(
        "--idle-s", type=float, default=IDLE_S, help="end after this time without a request, once torch is loaded"
    )
    return parser


@contextmanager
def _alone(socket_path: Path) -> Iterator[bool]:
    """Whether nobody else serves at this path; for as long as the block lasts nobody else can."""
    socket_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with socket_path.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _serve(service: Service, socket_path: Path, idle_s: float) -> None:
    ending = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ending.set()

    # From here on: a signal that comes earlier ends the process at once, which holds nothing yet.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    umask = os.umask(0o077)
    server = Server(socket_path, service.routes)
    os.umask(umask)
    accepting = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="accepting")
    accepting.start()
    log.info("Serving at %s.", socket_path)
    _wait(server, service, ending, idle_s)
    # Whoever comes now finds no socket and tries again; whoever has come is answered.
    socket_path.unlink(missing_ok=True)
    server.shutdown()
    accepting.join()
    server.finish_queue(patience_s=END_PATIENCE_S)
    server.server_close()
    log.info("Ended.")


def _wait(server: Server, service: Service, ending: threading.Event, idle_s: float) -> None:
    tidied_s = time.monotonic()
    while not ending.wait(_LOOK_EVERY_S):
        now_s = time.monotonic()
        if now_s - tidied_s > _TIDY_EVERY_S:
            tidied_s = now_s
            service.datasets.close_unused()
        if service.has_loaded_torch and not server.n_running and now_s - server.last_asked_s >= idle_s:
            log.info("Nobody asked for anything for %.0f s; ending to free the memory of torch.", idle_s)
            return
