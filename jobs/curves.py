"""Curves: stored whole in blocks of packed points, thinned when read.

Min/max buckets keep every spike. A point is left out when a later attempt began again before its step.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from jobs.models import Attempt, Curve, Job, Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Points: TypeAlias = NDArray[np.void]

POINT = struct.Struct("<QQdd")
"""seq, step, seconds since 1970, value (NaN where the value was not finite)."""
BLOCK_POINTS = 512


class AttemptInfo(BaseModel):
    n: int
    started_seq: int
    from_step: int
    steps_per_epoch: int
    total_steps: int


class SeriesPoints(BaseModel):
    unit: str
    better: str
    seq: list[int]
    step: list[int]
    at: list[float]
    value: list[float | None]


class CurvesSnapshot(BaseModel):
    """All that was recorded up to ``last_seq``; what came after is in the events after it."""

    job: int
    last_seq: int
    attempts: list[AttemptInfo]
    series: dict[str, SeriesPoints]


def curves_read(job: Job, *, names: Sequence[str] | None = None, max_points: int = 1000) -> CurvesSnapshot:
    """The curves of a job, at most about ``max_points`` a series. Cost: four queries.

    The cursor is read first: points that are recorded meanwhile come again as events, and are the same points.
    """
    last_seq = Job.objects.values_list("last_seq", flat=True).get(pk=job.pk)
    attempts = _attempts(job)
    found = {}
    for series, points in _stored(job, names):
        kept = _thinned(_not_superseded(_up_to(points, last_seq), attempts), max_points)
        found[series.name] = SeriesPoints(
            unit=series.unit,
            better=series.better,
            seq=kept["seq"].tolist(),
            step=kept["step"].tolist(),
            at=kept["at"].tolist(),
            value=[value if math.isfinite(value) else None for value in kept["value"].tolist()],
        )
    return CurvesSnapshot(job=job.pk, last_seq=last_seq, attempts=attempts, series=found)


def _attempts(job: Job) -> list[AttemptInfo]:
    started = Attempt.objects.filter(job=job, started_seq__isnull=False).order_by("started_seq")
    return [
        AttemptInfo(
            n=attempt.n,
            started_seq=attempt.started_seq or 0,
            from_step=attempt.from_step,
            steps_per_epoch=attempt.steps_per_epoch,
            total_steps=attempt.total_steps,
        )
        for attempt in started
    ]


def _stored(job: Job, names: Sequence[str] | None) -> Iterator[tuple[Series, Points]]:
    """Each series with all its points, in the order of ``seq``."""
    import numpy as np

    rows = Series.objects.filter(job=job).order_by("name")
    if names is not None:
        rows = rows.filter(name__in=names)
    wanted = list(rows)
    payloads: dict[int, list[bytes]] = defaultdict(list)
    blocks = Curve.objects.filter(series__in=[series.pk for series in wanted]).order_by("series", "block")
    for series_id, payload in blocks.values_list("series_id", "payload"):
        payloads[series_id].append(bytes(payload))
    fields: Any = [("seq", "<u8"), ("step", "<u8"), ("at", "<f8"), ("value", "<f8")]
    for series in wanted:
        yield series, np.frombuffer(b"".join(payloads[series.pk]), dtype=np.dtype(fields))


def _up_to(points: Points, last_seq: int) -> Points:
    recorded: Points = points[points["seq"] <= last_seq]
    return recorded


def _not_superseded(points: Points, attempts: Sequence[AttemptInfo]) -> Points:
    """Without what a later attempt did again: points before its start whose step is past where it began."""
    import numpy as np

    keep = np.ones(len(points), dtype=bool)
    for attempt in attempts:
        keep &= (points["seq"] > attempt.started_seq) | (points["step"] <= attempt.from_step)
    kept: Points = points[keep]
    return kept


def _thinned(points: Points, max_points: int) -> Points:
    """At most about ``max_points``: both extremes of every bucket, first and last point, and where gaps begin."""
    import numpy as np

    if len(points) <= max_points:
        return points
    value = points["value"]
    finite = np.flatnonzero(np.isfinite(value))
    n_out = max(4, max_points - max_points % 2)
    chosen = [np.array([0, len(points) - 1])]
    if len(finite) > n_out:
        chosen.append(finite[_extremes(np.ascontiguousarray(value[finite]), n_out)])
    else:
        chosen.append(finite)
    missing = ~np.isfinite(value)
    gaps = np.flatnonzero(missing & ~np.concatenate(([False], missing[:-1])))
    chosen.append(gaps[:: max(1, math.ceil(len(gaps) / max_points))])
    kept: Points = points[np.unique(np.concatenate(chosen))]
    return kept


def _extremes(values: NDArray[np.float64], n_out: int) -> NDArray[np.intp]:
    """Indices of the lowest and the highest value in each of ``n_out / 2`` buckets."""
    import numpy as np
    from tsdownsample import MinMaxDownsampler

    downsampler: Any = MinMaxDownsampler
    return np.asarray(downsampler().downsample(values, n_out=n_out), dtype=np.intp)
