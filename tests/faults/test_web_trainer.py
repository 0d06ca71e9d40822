"""A real training while its database crashes and the browser that watches it sleeps."""

from __future__ import annotations

import psutil
import pytest
from django.db import connection

from jobs import transitions
from jobs.services import job_cancel
from jobs.states import Status
from tests.faults.ledger import fault
from tests.faults.sockets import Follower
from tests.faults.web import served
from tests.kits.trees import class_tree, imported
from tests.surroundings import until
from wire.specs import Choice, TrainOptions, TrainSpec

pytestmark = pytest.mark.slow


@pytest.fixture
def trains(scene, real_engine, user, tmp_path):
    """A training of LeNet-5 on a few images, which ends when it is told to."""
    dataset = imported(class_tree(tmp_path / "tree", {"cat": 24, "dog": 23}), tmp_path / "job", val_pct=21)
    options = TrainOptions(epochs=10_000, batch_size=8, log_every=2)
    spec = TrainSpec(dataset=str(dataset), model=Choice(name="lenet5"), options=options, device="cpu")
    columns = {"verb": "train", "spec": spec.model_dump(mode="json"), "title": "LeNet-5", "wants": ["cpu"]}
    job = transitions.begin(status=Status.QUEUED, owner=user, **columns)
    scene.turn()
    return job


@fault("15", title="Database crashes under a real training", how="real", inject="pg_ctl stop -m immediate, then start")
@fault("43", title="Browser asleep during a real training", how="real", inject="the socket closed meanwhile")
def test_a_training_goes_on_and_is_seen_whole(scene, postgres, trains, user):
    """The same process trains on; the browser gets, once and in order, what came before, meanwhile and after."""
    with served(user) as web:
        browser = Follower(web, trains.pk)
        browser.open()
        browser.hear_up_to(5)
        browser.close()
        pid = scene.pid(trains)
        postgres.crash()
        written = len(scene.events(trains))
        until(lambda: len(scene.events(trains)) >= written + 20)
        assert psutil.pid_exists(pid)
        postgres.start()
        connection.close()

        browser.open()
        browser.hear_up_to(written + 20)
        job_cancel(user, trains.pk)
        scene.finish(trains)
        browser.hear_up_to(trains.last_seq)
        assert browser.has_all(trains.last_seq)
        browser.close()
    assert [attempt.pid for attempt in scene.attempts(trains)] == [pid]
    scene.check(trains, status=Status.CANCELLED)
