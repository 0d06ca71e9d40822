"""Figures and verdicts from answers."""

from __future__ import annotations

import numpy as np
import pytest

from engine.export.agreement import Tally, doubt, judged
from engine.export.sample import Drawn
from wire.exports import Failed, Passed
from wire.specs import VerificationOptions

OPTIONS = VerificationOptions()


def _drawn(n_of: int = 4) -> Drawn:
    return Drawn("val", (), (), n_of, None)


def _shares(*firsts: int, sure: float = 0.8) -> np.ndarray:
    shares_NK = np.full((len(firsts), 3), (1 - sure) / 2, np.float32)
    shares_NK[np.arange(len(firsts)), firsts] = sure
    return shares_NK


def _tally(answers: tuple[int, ...], reference: tuple[int, ...], labels: tuple[int, ...]) -> Tally:
    tally = Tally()
    tally.add(_shares(*answers), _shares(*reference), np.array(labels))
    return tally


def test_figures_of_four_images():
    # Right in both; lost; gained; wrong in both, differently.
    tally = _tally((0, 1, 2, 0), (0, 2, 1, 1), (0, 2, 2, 2))
    agreement = tally.agreement(_drawn(10))
    assert (agreement.n_images, agreement.n_of, agreement.seed) == (4, 10, None)
    assert (agreement.accuracy, agreement.reference_accuracy, agreement.change_points) == (0.5, 0.5, 0.0)
    assert agreement.agreement == 0.25
    assert agreement.max_difference == pytest.approx(0.7)
    assert agreement.mean_difference == pytest.approx(3 * 1.4 / 12)
    assert agreement.change_interval.lower < 0 < agreement.change_interval.upper


def test_batches_add_up():
    whole, parts = Tally(), Tally()
    answers, reference, labels = _shares(0, 1, 2, 0, 1), _shares(0, 2, 2, 1, 1, sure=0.7), np.array([0, 2, 2, 0, 1])
    whole.add(answers, reference, labels)
    parts.add(answers[:2], reference[:2], labels[:2])
    parts.add(answers[2:], reference[2:], labels[2:])
    assert parts == whole


def test_an_answer_that_is_not_finite_is_wrong_and_as_far_off_as_can_be():
    tally = Tally()
    answers = _shares(0, 0)
    answers[1, 2] = np.nan
    tally.add(answers, _shares(0, 0), np.array([0, 0]))
    agreement = tally.agreement(_drawn())
    assert (agreement.accuracy, agreement.agreement, agreement.max_difference) == (0.5, 0.5, 1.0)
    verdict = judged(agreement, tally.n_not_finite, OPTIONS, "int8")
    assert isinstance(verdict, Failed)
    assert verdict.reasons[0] == "For 1 of 2 images the outputs are not finite; none may be so."


def _verdict(n_wrong: int, n: int = 200, **options):
    """Of a model that is wrong about ``n_wrong`` images about which PyTorch, right in all, is right."""
    tally = _tally((0,) * (n - n_wrong) + (1,) * n_wrong, (0,) * n, (0,) * n)
    return judged(tally.agreement(_drawn()), 0, VerificationOptions(**options), "int8")


def test_accuracy_at_the_limit_passes_and_below_it_fails_with_both_figures():
    assert _verdict(2) == Passed()
    assert _verdict(3) == Failed(
        reasons=("Accuracy fell by 1.5 points, from 100.00 % to 98.50 %; the limit is 1 point.",)
    )
    assert _verdict(3, most_lost_points=2) == Passed()


def test_agreement_has_a_limit_of_its_own_by_precision():
    tally = _tally((0,) * 98 + (1, 1), (0,) * 100, (2,) * 100)  # no accuracy to lose
    agreement = tally.agreement(_drawn())
    assert judged(agreement, 0, OPTIONS, "int8") == Passed()
    (reason,) = judged(agreement, 0, OPTIONS, "fp16").reasons
    assert reason == "On 98.00 % of the images the first answer is PyTorch's; the limit is 99 %."
    assert "99.5 %" in judged(agreement, 0, OPTIONS, "fp32").reasons[0]
    assert judged(agreement, 0, VerificationOptions(least_agreement_pct=98), "fp32") == Passed()


def test_a_small_sample_leaves_a_doubt():
    agreed = {n: _tally((0,) * n, (0,) * n, (0,) * n).agreement(_drawn()) for n in (200, 1000)}
    some, most = (each.model_copy(update={"seed": 0, "max_difference": 1e-7}) for each in agreed.values())
    assert doubt(some, OPTIONS) == "On 200 images the loss may be up to 1.88 points; verify on more."
    assert doubt(most, OPTIONS) == ""
    assert doubt(some.model_copy(update={"seed": None}), OPTIONS) == (
        "The split has 200 images, all were tried; on others like them the loss may be up to 1.88 points."
    )
    assert doubt(some.model_copy(update={"max_difference": 0.0}), OPTIONS) == ""  # the very same answers
    assert doubt(_tally((1,) * 9, (0,) * 9, (0,) * 9).agreement(_drawn()), OPTIONS) == ""  # it has failed already
