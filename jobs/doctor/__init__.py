"""Is this installation well? Each finding says what was found, and what to do next where that is not good."""

from __future__ import annotations

from jobs.doctor import database, devices, jobs, services, storage, versions
from jobs.doctor.finding import Finding, Level, look

QUICK = (database.answers, storage.writable, storage.room, services.redis, services.agents)
"""Cheap enough to be asked every few seconds."""
ALL_BUT_SLOW = (
    database.answers,
    database.migrations,
    database.journal,
    storage.writable,
    storage.cache,
    storage.room,
    storage.folders,
    storage.locks,
    storage.backups,
    services.redis,
    services.programs,
    services.agents,
    services.clocks,
    devices.devices,
    versions.python,
    versions.packages,
    jobs.stuck,
    jobs.orphans,
    jobs.temporary_files,
)
ALL = (*ALL_BUT_SLOW, jobs.records)

__all__ = ["ALL", "ALL_BUT_SLOW", "QUICK", "Finding", "Level", "look"]
