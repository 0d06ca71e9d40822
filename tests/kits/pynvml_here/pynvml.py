"""In the place of the real one, for processes that a test starts."""

from __future__ import annotations

from tests.kits.fake_nvml import *  # noqa: F403
