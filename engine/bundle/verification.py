"""The table that stands before the download, as it stands in the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.bundle.facts import Entry, Overridden
from engine.bundle.wording import listing, percent, plain, size, table
from wire.exports import Agreement, ExportReport, NotRun

_HEADER: Final = (
    *("Export", "Verdict", "Accuracy (95 %)", "Against PyTorch, points (95 %)", "Same first answer"),
    *("Largest difference", "p50 / p95 ms, batch 1", "Images/s, batch 32", "Size"),
)


def verification_md(entries: Sequence[Entry]) -> str:
    details = listing(detail for entry in entries for detail in _details(entry))
    return f"{table(_HEADER, map(_row, entries))}\n{details}"


def _row(entry: Entry) -> list[str]:
    report = entry.report
    return [entry.name, _verdict(entry), *_answers(report.agreement), *_speed(report), size(report.bytes)]


def _verdict(entry: Entry) -> str:
    match entry.verdict:
        case Overridden(failed=failed):
            return f"**Failed, overridden**: {plain(' '.join(failed.reasons))}"
        case NotRun(reason=reason):
            return f"Not run: {plain(reason)}"
        case _:
            return "Passed"


def _answers(agreement: Agreement | None) -> list[str]:
    if agreement is None:
        return [""] * 4
    known, change = agreement.accuracy_interval, agreement.change_interval
    return [
        f"{percent(agreement.accuracy)} ({100 * known.lower:.2f} to {100 * known.upper:.2f})",
        f"{agreement.change_points:+.2f} ({change.lower:+.2f} to {change.upper:+.2f})",
        percent(agreement.agreement),
        f"{agreement.max_difference:.2g}",
    ]


def _speed(report: ExportReport) -> list[str]:
    by_batch = {each.batch: each for each in report.speed.latencies} if report.speed else {}
    one, many = by_batch.get(1), by_batch.get(32)
    return [
        f"{one.p50_ms:.2f} / {one.p95_ms:.2f}" if one else "",
        f"{many.images_per_s:,.1f}" if many else "",
    ]


def _details(entry: Entry) -> list[str]:
    """What the table has no place for."""
    report, told = entry.report, []
    if agreement := report.agreement:
        whole = (
            f"all {agreement.n_images:,}" if agreement.seed is None else f"{agreement.n_images:,} of {agreement.n_of:,}"
        )
        drawn = "" if agreement.seed is None else f", drawn from each class in proportion with seed {agreement.seed}"
        where = f"{agreement.split} of {plain(report.dataset_name)}"
        told.append(
            f"{whole} images of {where}{drawn}; PyTorch: {percent(agreement.reference_accuracy)}; "
            f"probabilities differ by {agreement.mean_difference:.2g} on average"
        )
    if speed := report.speed:
        threads = f", {speed.threads} threads" if speed.threads else ""
        told.append(f"timed on {plain(speed.device)}{threads}, with images of {speed.image_px} px")
    if quantisation := report.quantisation:
        told.append(
            f"INT8 ranges from {quantisation.n_images:,} training images, seed {quantisation.seed}; "
            f"{quantisation.n_layers - len(quantisation.kept)} of {quantisation.n_layers} layers are INT8"
        )
        if quantisation.kept:
            told.append(f"in float: {', '.join(plain(layer.name) for layer in quantisation.kept)}")
    versions = ", ".join(f"{plain(name)} {plain(version)}" for name, version in sorted(report.versions.items()))
    told += [f"made on {report.created_at:%Y-%m-%d} with {versions}", *map(plain, report.notes)]
    return [f"{entry.name}: {each}" for each in told]
