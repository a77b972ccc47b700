"""Implements the command ``python -m tvm.runtime.measure_files FOLDER``; see ``tvm.runtime.measure.files``."""

from __future__ import annotations

import sys

from .measure.files import main

if __name__ == "__main__":
    sys.exit(main())
