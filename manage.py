#!/usr/bin/env python
from __future__ import annotations

import os
import sys

from config.env import SettingError


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except SettingError as problem:
        sys.stderr.write(f"Fovea cannot start: {problem}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
