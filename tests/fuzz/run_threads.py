"""python -m tests.fuzz.run_threads TARGET FIRST COUNT: the outcome of each case on a line of its own.

A program apart, because compilers of OpenCL crash: PoCL's, with LLVM 15, on about one in two thousand random kernels.
"""

from __future__ import annotations

import sys

from tests.fuzz.threads import ThreadCase


def main() -> None:
    target, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, first + count):
        case = ThreadCase(number, target)
        try:
            print(case.run(), flush=True)
        except Exception as error:
            steps = "\n".join(str(s) for s in case.made.schedule.steps) if case.made else ""
            sys.exit(f"ThreadCase({number}, '{target}').run() repeats it: {error}\nsteps:\n{steps}")


if __name__ == "__main__":
    main()
