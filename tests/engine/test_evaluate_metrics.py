"""Metrics against the slow way, written out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn  # noqa: F401 - sets variables of the environment: not inside a test
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from engine.evaluate.metrics import split_evaluation
from engine.predict.answers import Answers

pytestmark = pytest.mark.slow  # answers come from torch


def _answers(labels, shares_NK, *, finite=None) -> Answers:
    """As ``read_answers`` gives them, by plain sorting."""
    shares_NK = np.asarray(shares_NK, np.float64)
    top = min(5, shares_NK.shape[1])
    order_NT = np.argsort(-shares_NK, axis=1, kind="stable")[:, :top]
    truth_N = shares_NK[np.arange(len(labels)), labels]
    is_finite_N = np.ones(len(labels), bool) if finite is None else np.asarray(finite)
    return Answers(
        labels_N=np.asarray(labels, np.int64),
        top_labels_NT=order_NT,
        top_shares_NT=np.take_along_axis(shares_NK, order_NT, axis=1),
        truth_shares_N=truth_N,
        loss_N=np.where(is_finite_N, -np.log(np.maximum(truth_N, 1e-30)), np.nan),
        is_finite_N=is_finite_N,
    )


@st.composite
def splits(draw):
    n_classes = draw(st.integers(2, 8))
    n_images = draw(st.integers(1, 30))
    labels = draw(st.lists(st.integers(0, n_classes - 1), min_size=n_images, max_size=n_images))
    # Few values, so that ties and edges of bins are common.
    weights = draw(st_numpy.arrays(np.float64, (n_images, n_classes), elements=st.sampled_from([1.0, 2.0, 3.0, 12.0])))
    finite = draw(st.lists(st.booleans(), min_size=n_images, max_size=n_images))
    return labels, weights / weights.sum(axis=1, keepdims=True), finite


@given(splits())
@example(([0], np.array([[0.5, 0.5]]), [True]))
@example(([1, 1], np.array([[0.9, 0.1], [0.9, 0.1]]), [False, False]))
def test_all_numbers_are_those_of_the_slow_way(split):
    labels, shares_NK, finite = split
    n_images, n_classes = shares_NK.shape
    names = [f"class {label}" for label in range(n_classes)]
    result = split_evaluation("val", _answers(labels, shares_NK, finite=finite), names)

    order = [sorted(range(n_classes), key=lambda label, row=row: (-row[label], label)) for row in shares_NK]
    predicted = [order[i][0] if finite[i] else None for i in range(n_images)]
    pairs = list(zip(labels, predicted, strict=True))
    assert result.n_images == n_images
    assert result.top1 == pytest.approx(sum(label == guess for label, guess in pairs) / n_images)
    if n_classes > 5:
        n_among = sum(finite[i] and labels[i] in order[i][:5] for i in range(n_images))
        assert result.top5 == pytest.approx(n_among / n_images)
    else:
        assert result.top5 is None
    if all(finite):
        expected = sum(-math.log(shares_NK[i][labels[i]]) for i in range(n_images)) / n_images
        assert result.loss == pytest.approx(expected)
    else:
        assert result.loss is None

    _assert_class_scores(result, labels, predicted)
    cells = {(cell.label, cell.predicted): cell.n_images for cell in result.confusion}
    known = [pair for pair in pairs if pair[1] is not None]
    assert cells == {pair: known.count(pair) for pair in known}
    assert list(cells) == sorted(cells)
    seen = [
        (max(row), guess == label) for row, (label, guess) in zip(shares_NK, pairs, strict=True) if guess is not None
    ]
    _assert_reliability(result, seen)
    result.model_dump_json()


def _assert_class_scores(result, labels, predicted):
    pairs = list(zip(labels, predicted, strict=True))
    for label, score in enumerate(result.classes):
        n_hit = pairs.count((label, label))
        n_of, n_as = labels.count(label), predicted.count(label)
        assert (score.label, score.name, score.support, score.n_predicted) == (label, f"class {label}", n_of, n_as)
        assert score.recall == (pytest.approx(n_hit / n_of) if n_of else None)
        assert score.precision == (pytest.approx(n_hit / n_as) if n_of and n_as else None)
        assert score.f1 == (pytest.approx(2 * n_hit / (n_of + n_as)) if n_of else None)
    there = [score for score in result.classes if score.support]
    assert result.macro_recall == pytest.approx(sum(score.recall for score in there) / len(there))
    assert result.macro_precision == pytest.approx(sum(score.precision or 0 for score in there) / len(there))
    assert result.macro_f1 == pytest.approx(sum(score.f1 for score in there) / len(there))


def _assert_reliability(result, seen):
    """``seen``: highest probability and whether it was right, of the images that have an answer."""
    error = 0.0
    for index, one in enumerate(result.reliability):
        assert (one.lower, one.upper) == pytest.approx((index / 15, (index + 1) / 15))
        inside = [(share, is_right) for share, is_right in seen if one.lower < share <= one.upper]
        assert one.n_images == len(inside)
        if not inside:
            assert one.confidence is one.accuracy is None
            continue
        confidence = sum(share for share, _ in inside) / len(inside)
        accuracy = sum(is_right for _, is_right in inside) / len(inside)
        assert (one.confidence, one.accuracy) == pytest.approx((confidence, accuracy))
        error += len(inside) / len(seen) * abs(accuracy - confidence)
    assert result.ece == pytest.approx(error)


def test_a_class_without_images_has_no_shares_and_is_in_no_mean():
    # Nothing is a dog; one cat is taken for one.
    result = split_evaluation(
        "val", _answers([0, 0, 2], [[0.9, 0.1, 0], [0.2, 0.8, 0], [0, 0.1, 0.9]]), ("cat", "dog", "emu")
    )
    dog = result.classes[1]
    assert (dog.support, dog.n_predicted, dog.precision, dog.recall, dog.f1) == (0, 1, None, None, None)
    assert result.macro_recall == pytest.approx((0.5 + 1) / 2)
    assert result.macro_precision == pytest.approx(1)


def test_a_class_that_nothing_is_taken_for_has_no_precision_and_counts_as_0():
    result = split_evaluation("val", _answers([0, 1], [[0.9, 0.1], [0.8, 0.2]]), ("cat", "dog"))
    assert (result.classes[1].precision, result.classes[1].recall, result.classes[1].f1) == (None, 0, 0)
    assert result.macro_precision == pytest.approx(0.25)


def test_calibration_by_hand():
    # Bin (0.8, 0.8667]: 0.85 twice, half right. Bin (0.9333, 1]: 1.0 once, right.
    shares = [[0.85, 0.15], [0.85, 0.15], [1.0, 0.0]]
    result = split_evaluation("test", _answers([0, 1, 0], shares), ("cat", "dog"))
    assert result.ece == pytest.approx(2 / 3 * 0.35)
    assert [one.n_images for one in result.reliability if one.n_images] == [2, 1]
    assert result.reliability[14].upper == 1


def test_nothing_but_broken_outputs_still_makes_a_report():
    result = split_evaluation("val", _answers([0, 1], [[0.5, 0.5]] * 2, finite=[False, False]), ("cat", "dog"))
    assert (result.top1, result.loss, result.ece, result.confusion) == (0, None, 0, ())
    assert "NaN" not in result.model_dump_json()
