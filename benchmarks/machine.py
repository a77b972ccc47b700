"""Peak speed and memory bandwidth of the machine, measured between the rounds of a benchmark by bare loops in C."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from pathlib import Path

from .harness import percentile

HERE = Path(__file__).resolve().parent


def cpu_name() -> str:
    """Return the processor's model name from /proc/cpuinfo, or the architecture if it is not listed."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


class Loop:
    """A C program that runs one round for each line that it reads."""

    def __init__(self, source: str, *arguments: str, options: tuple[str, ...] = ()):
        self.folder = tempfile.TemporaryDirectory()
        program = os.path.join(self.folder.name, Path(source).stem)
        subprocess.run(["cc", "-O2", str(HERE / source), "-o", program, *options], check=True)
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def read(self) -> list[float]:
        assert self.process.stdout is not None
        return [float(word) for word in self.process.stdout.readline().split()]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


class Peak(Loop):
    """Fused multiply-adds of one core: GFLOPS with 512-bit and with 256-bit vectors."""

    def __init__(self):
        super().__init__("fma_peak.c")

    def round(self) -> tuple[float, float]:
        self.start()
        wide, narrow = self.read()
        return wide, narrow


class Machine:
    """The peak of ``threads`` cores at once and, on request, the memory bandwidth by size of the working set."""

    def __init__(self, threads: int, bandwidth: bool = False):
        self.peaks = [Peak() for _ in range(threads)]
        self.wide: list[float] = []
        self.narrow: list[float] = []
        self.memory = Loop("bandwidth.c", str(threads), options=("-pthread",)) if bandwidth else None
        self.sizes = [int(size) for size in self.memory.read()] if self.memory else []
        self.speeds: list[list[float]] = []

    def round(self) -> None:
        for peak in self.peaks:
            peak.start()
        rows = [peak.read() for peak in self.peaks]
        self.wide.append(sum(row[0] for row in rows))
        self.narrow.append(sum(row[1] for row in rows))
        if self.memory:
            self.memory.start()
            self.speeds.append(self.memory.read())

    def gflops(self, vectors: str = "wide") -> float:
        """Return the peak of all cores together: the 80th percentile of the rounds."""
        seen = self.wide if vectors == "wide" and max(self.wide) > 0 else self.narrow
        return percentile(seen, 80)

    def bandwidth(self) -> dict[int, float]:
        """Return bytes per second by size of the working set."""
        columns = zip(*self.speeds)
        return {size: percentile(list(column), 80) * 1e9 for size, column in zip(self.sizes, columns)}

    def close(self) -> None:
        for peak in self.peaks:
            peak.close()
        if self.memory:
            self.memory.close()
