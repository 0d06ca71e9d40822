from __future__ import annotations

import os
import subprocess
from datetime import timedelta

import psutil
import pytest
from django.utils import timezone

from jobs import services
from jobs.devices import DeviceWatch, cpu_slot, drain_if_lost, present
from jobs.host import host_name
from jobs.models import Attempt, Device, DeviceLease
from jobs.nvml import REOPEN_AFTER_S, Driver
from jobs.selectors import devices_list
from tests.kits import fake_nvml
from tests.kits.fake_nvml import MIB
from tests.kits.gpus import fake_gpus
from tests.surroundings import until
from wire.errors import ActionRefused, NotFound

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpus(tmp_path):
    with fake_gpus(tmp_path) as gpus:
        yield gpus


def gpu(index):
    return Device.objects.get(uuid=f"GPU-0000000{index}-fake")


def running_on(index, job, *, pid):
    attempt = Attempt.objects.create(job=job, n=1, fence=1, host=host_name(), pid=pid)
    DeviceLease.objects.create(device=gpu(index), attempt=attempt, expires_at=timezone.now())
    return attempt


def test_every_gpu_with_its_numbers(gpus):
    DeviceWatch().look()
    one = gpu(1)
    assert not gpu(0).bf16
    assert (one.name, one.kind, one.driver, one.bf16) == ("GPU 1 (Fake 3000)", "cuda", "999.1", True)
    assert (one.memory_bytes, one.memory_used_bytes) == (24_576 * MIB, 400 * MIB)
    assert (one.utilisation_pct, one.temperature_c, one.power_w) == (37.0, 61.0, None)
    assert (one.drained, one.lost, one.warning, one.strangers) == (False, False, "", [])


def test_one_that_falls_off_the_bus_goes_out_of_service_and_the_other_stays(gpus):
    watch = DeviceWatch()
    watch.look()
    gpus.fall_off_bus(0)
    watch.look()
    assert (gpu(0).drained, gpu(0).lost) == (True, True)
    assert "does not answer its driver any more (GPU is lost)" in gpu(0).drained_reason
    assert gpu(1).is_usable
    # Not seen any more, and shown all the same: somebody has to look after it.
    Device.objects.filter(pk=gpu(0).pk).update(seen_at=timezone.now() - timedelta(days=3))
    assert gpu(0).uuid in {device.uuid for device in devices_list()}
    assert gpu(0) not in present(Device.objects.all())


@pytest.mark.parametrize(
    ("xid", "drained", "lost", "told"),
    [
        (79, True, True, "fallen off the bus"),
        (48, True, True, "double-bit"),
        (95, True, True, "uncontained"),
        (64, True, False, "could not be replaced"),
        (94, False, False, "contained memory error"),
        (63, False, False, "at its next reset"),
        (31, False, False, ""),  # the program's own fault
    ],
)
def test_what_the_driver_reports(gpus, xid, drained, lost, told):
    watch = DeviceWatch()
    watch.look()
    gpus.report(1, xid)
    watch.look()
    watch.look()
    one = gpu(1)
    assert (one.drained, one.lost) == (drained, lost)
    assert told in (one.drained_reason if drained else one.warning)
    assert gpu(0).is_usable


def test_one_that_is_slowed_down_is_used_and_says_so(gpus):
    watch = DeviceWatch()
    gpus.throttle(0, 0x40 | 0x4)
    watch.look()
    assert gpu(0).is_usable
    assert gpu(0).warning == "it is slowed down by the hardware because it is hot"
    gpus.throttle(0, 0x4)  # it saves power, as it should
    watch.look()
    assert gpu(0).warning == ""


def test_a_process_that_nobody_here_started_is_shown_with_its_name(gpus):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        until(lambda: psutil.Process(stranger.pid).name() == "sleep")  # the kernel gives it its name a moment late
        gpus.occupy(0, (os.getpid(), 3 * MIB), (stranger.pid, 8000 * MIB))
        watch = DeviceWatch()
        watch.look()
        first, second = gpu(0).strangers
        assert first == {"pid": stranger.pid, "name": "sleep", "memory_bytes": 8000 * MIB}
        assert second["pid"] == os.getpid()
        assert not gpu(0).is_usable
        stranger.kill()
    gpus.occupy(0)
    watch.look()
    assert gpu(0).is_usable


def test_our_own_engine_and_its_children_are_no_strangers(gpus, make_job):
    watch = DeviceWatch()
    watch.look()
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as engine:
        attempt = running_on(0, make_job(), pid=engine.pid)
        (child,) = until(psutil.Process(engine.pid).children)
        # The last one is a number of another container, which the driver may use for our own.
        gpus.occupy(0, (engine.pid, 9 * MIB), (child.pid, MIB), (2**22 + 7, MIB))
        watch.look()
        assert gpu(0).strangers == []
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
        watch.look()
        assert len(gpu(0).strangers) == 3
        os.killpg(engine.pid, 9)


def test_a_driver_that_fits_not_its_library_is_said_once_and_shown(gpus, caplog):
    gpus.refuse(fake_nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    watch = DeviceWatch()
    for _ in range(3):
        watch.look()
    assert caplog.text.count("of different versions") == 1
    assert not Device.objects.filter(kind="cuda").exists()
    assert "No GPU can be used" in Device.objects.get(uuid=cpu_slot()).warning


def test_no_driver_is_no_trouble(gpus):
    gpus.refuse(fake_nvml.NVML_ERROR_DRIVER_NOT_LOADED)
    DeviceWatch().look()
    assert Device.objects.get(uuid=cpu_slot()).warning == ""


def test_a_driver_that_was_loaded_anew_is_found_again(gpus):
    now_s = 0.0
    driver = Driver(lambda: fake_nvml, clock=lambda: now_s)
    assert driver.open() is fake_nvml
    gpus.refuse(999)
    driver.failed(fake_nvml.NVMLError(999))
    assert driver.open() is None
    assert "does not answer" in driver.trouble
    gpus.refuse(0)
    assert driver.open() is None  # not asked at every look
    now_s = REOPEN_AFTER_S
    assert driver.open() is fake_nvml
    assert driver.trouble == ""


def test_a_job_that_says_that_its_gpu_is_gone_is_believed_where_the_driver_says_so_too(gpus):
    DeviceWatch().look()
    both = [gpu(0).uuid, gpu(1).uuid]
    drain_if_lost(both, job_id=7)
    assert gpu(0).is_usable
    gpus.fall_off_bus(1)
    drain_if_lost(both, job_id=7)
    assert gpu(0).is_usable
    assert gpu(1).lost
    assert "job 7" in gpu(1).drained_reason


def test_an_administrator_takes_a_device_out_of_service_and_puts_it_back(gpus, user, admin_user):
    watch = DeviceWatch()
    watch.look()
    with pytest.raises(ActionRefused, match="Only administrators"):
        services.device_drain(user, gpu(0).uuid)
    services.device_drain(admin_user, gpu(0).uuid, "new fan on Monday")
    assert (gpu(0).drained, gpu(0).drained_reason, gpu(0).lost) == (True, "new fan on Monday", False)
    services.device_drain(admin_user, gpu(1).uuid)
    assert gpu(1).drained_reason == "taken out of service by root"
    watch.look()
    services.device_restore(admin_user, gpu(0).uuid)
    assert gpu(0).is_usable
    with pytest.raises(ActionRefused):
        services.device_restore(user, gpu(0).uuid)
    with pytest.raises(NotFound):
        services.device_drain(admin_user, "GPU-none")


def test_one_that_is_put_back_and_still_lost_goes_out_again(gpus, admin_user):
    watch = DeviceWatch()
    watch.look()
    gpus.fall_off_bus(0)
    watch.look()
    services.device_restore(admin_user, gpu(0).uuid)
    watch.look()
    assert gpu(0).lost
    gpus.come_back(0)
    services.device_restore(admin_user, gpu(0).uuid)
    watch.look()
    assert gpu(0).is_usable
