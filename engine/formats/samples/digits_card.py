"""The sample that needs no network: it comes with scikit-learn."""

from __future__ import annotations

from wire.cards import SampleCard

CARD = SampleCard(
    name="digits",
    label="Handwritten digits",
    summary="1,797 scans of handwritten digits, 8 x 8 pixels, ten classes. Trains in a minute on any computer.",
    implementation="engine.formats.samples.digits:write",
    task="classification",
    licence="CC BY 4.0 (UCI Optical Recognition of Handwritten Digits, the copy in scikit-learn)",
    n_images=1797,
    n_classes=10,
    tags=("offline", "small"),
)
