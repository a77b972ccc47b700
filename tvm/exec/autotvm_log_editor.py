"""Keep the best records of a file or of all files in a folder: ``python -m tvm.exec.autotvm_log_editor``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..autotvm.record import pick_best


def main() -> None:
    parser = argparse.ArgumentParser(description="keep the best tuning record of each workload")
    parser.add_argument("--act", choices=["pick-best"], required=True)
    parser.add_argument("--i", required=True, help="record file, or a folder of them")
    parser.add_argument("--o", default=None, help="file to write")
    args = parser.parse_args()
    if os.path.isfile(args.i):
        pick_best(args.i, args.o or args.i + ".best.log")
        return
    out = args.o or "best.log"
    for path in sorted(Path(args.i).glob("*.log")):
        if path.resolve() != Path(out).resolve():
            pick_best(path, out)


if __name__ == "__main__":
    main()
