from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from jobs.requests import TrainingRequest
from jobs.services import training_submit
from wire.specs import TrainSpec


def spec_of(user: User, request: TrainingRequest) -> TrainSpec:
    """The spec that submitting this request would write: it is submitted, and taken back before anyone sees it.

    So the two cannot differ. All that a submit does besides rows happens on commit, hence never here.

    Raises:
        UserError: what submitting would raise.
    """
    with transaction.atomic():
        spec = TrainSpec.model_validate(training_submit(user, request).spec)
        transaction.set_rollback(True)
    return spec
