"""Tags: named machines, which can be used instead of a target text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tvm.registry import Registry
from tvm.target.boards import BOARDS

TAGS: Registry[Mapping[str, object]] = Registry("target tag")


def register_tag(name: str, config: Mapping[str, object], override: bool = False) -> object:
    """Register a tag; ``config`` is a target dict, which is validated by creating the target.

    Parameters
    ----------
    name : str
        The name.
    config : Mapping[str, object]
        The target.
    override : bool, optional
        Whether to replace an existing tag of this name.

    Returns
    -------
    object
        The target of the tag.
    """
    from tvm.target.record import Target

    target = Target(config)
    TAGS.register(name, dict(config), override)
    return target


def list_tags() -> dict[str, object]:
    """All tags with their targets.

    Returns
    -------
    dict
        Targets by tag.
    """
    from tvm.target.record import Target

    return {name: Target(name) for name in TAGS.names()}


# ---- NVIDIA ----
# Entries: compute capability, registers per block, products; an entry continues in indented lines. All have warps of 32
# threads, blocks of 1024 threads and 48 KiB of shared memory per block by default.
_NVIDIA = """
sm_20 32768 tesla-c2075 tesla-c2050 tesla-c2070 geforce-gtx-590 geforce-gtx-580 geforce-gtx-570 geforce-gtx-480
  geforce-gtx-470 geforce-gtx-465 quadro-6000 quadro-5000 quadro-4000
sm_21 32768 geforce-gtx-560-ti geforce-gtx-550-ti geforce-gtx-460 geforce-gts-450 geforce-gt-640-gddr3 geforce-gt-630
  geforce-gt-620 geforce-gt-610 geforce-gt-520 geforce-gt-440 geforce-gt-430 quadro-2000 quadro-600
sm_30 65536 tesla-k10 geforce-gtx-770 geforce-gtx-760 geforce-gtx-690 geforce-gtx-680 geforce-gtx-670
  geforce-gtx-660-ti geforce-gtx-660 geforce-gtx-650-ti geforce-gtx-650 geforce-gt-740 quadro-k5000 quadro-k4000
  quadro-k2000 quadro-k600 grid-k520
sm_32 65536 jetson-tk1
sm_35 65536 tesla-k40 tesla-k20 geforce-gtx-titan-z geforce-gtx-titan-black geforce-gtx-titan geforce-gtx-780-ti
  geforce-gtx-780 geforce-gt-730 geforce-gt-720 geforce-gt-640-gddr5 quadro-k6000 quadro-k5200
sm_37 65536 tesla-k80
sm_50 65536 tesla-m10 geforce-gtx-750-ti geforce-gtx-750 geforce-gtx-960m geforce-gtx-950m geforce-940m geforce-930m
  geforce-850m geforce-840m geforce-830m quadro-k2200 quadro-k1200 quadro-k620 quadro-m2000m quadro-m1000m
  quadro-m600m quadro-m500m nvs-810
sm_52 65536 tesla-m60 tesla-m40 tesla-m6 tesla-m4 geforce-gtx-titan-x geforce-gtx-980-ti geforce-gtx-980
  geforce-gtx-970 geforce-gtx-960 geforce-gtx-950 geforce-gtx-980m geforce-gtx-970m geforce-gtx-965m geforce-910m
  quadro-m6000-24gb quadro-m6000 quadro-m5000 quadro-m4000 quadro-m2000 quadro-m5500m quadro-m5000m quadro-m4000m
  quadro-m3000m quadro-m2200
sm_53 32768 jetson-nano jetson-tx1
sm_60 65536 tesla-p100 nvidia-p100 quadro-gp100
sm_61 65536 tesla-p40 tesla-p4 nvidia-titan-xp nvidia-titan-x geforce-gtx-1080-ti geforce-gtx-1080 geforce-gtx-1070-ti
  geforce-gtx-1070 geforce-gtx-1060 geforce-gtx-1050 geforce-gtx-1050-ti geforce-mx150 quadro-p6000 quadro-p5000
  quadro-p4000 quadro-p2200 quadro-p2000 quadro-p1000 quadro-p620 quadro-p600 quadro-p400 quadro-p5200 quadro-p4200
  quadro-p3200 quadro-p3000 quadro-p500
sm_62 32768 jetson-tx2
sm_70 65536 tesla-v100 nvidia-v100 nvidia-titan-v quadro-gv100
sm_72 65536 jetson-agx-xavier jetson-xavier-nx
sm_75 65536 tesla-t4 nvidia-t4 nvidia-titan-rtx geforce-rtx-2080-ti geforce-rtx-2080-super geforce-rtx-2080
  geforce-rtx-2070-super geforce-rtx-2070 geforce-rtx-2060-super geforce-rtx-2060 geforce-gtx-1660-ti
  geforce-gtx-1660-super geforce-gtx-1660 geforce-gtx-1650-ti geforce-gtx-1650 quadro-rtx-8000 quadro-rtx-6000
  quadro-rtx-5000 quadro-rtx-4000 quadro-rtx-3000 quadro-t2000 quadro-t1000 nvidia-t1200 nvidia-t600 nvidia-t500
sm_80 65536 nvidia-a100 nvidia-a30
sm_86 65536 nvidia-a40 nvidia-a10 nvidia-a10g nvidia-a16 nvidia-a2 geforce-rtx-3090-ti geforce-rtx-3090
  geforce-rtx-3080-ti geforce-rtx-3080 geforce-rtx-3070-ti geforce-rtx-3070 geforce-rtx-3060-ti geforce-rtx-3060
  geforce-rtx-3050-ti geforce-rtx-3050 rtx-a6000 rtx-a5000 rtx-a4000 rtx-a3000 rtx-a2000
sm_87 65536 jetson-orin-nano jetson-orin-nx jetson-agx-orin-32gb jetson-agx-orin-64gb
sm_89 65536 nvidia-l4 nvidia-l40 nvidia-l40s rtx-6000-ada geforce-rtx-4090 geforce-rtx-4080 geforce-rtx-4070-ti
  geforce-rtx-4070 geforce-rtx-4060-ti geforce-rtx-4060 geforce-rtx-4050
sm_90 65536 nvidia-h100 nvidia-h200 nvidia-gh200
"""

_L2_BYTES = {
    "nvidia-a100": 41943040,
    "nvidia-h100": 52428800,
    "nvidia-h200": 52428800,
    "geforce-rtx-4090": 75497472,
    "geforce-rtx-3090": 6291456,
    "nvidia-v100": 6291456,
    "nvidia-t4": 4194304,
}


def _nvidia_tags() -> Iterator[tuple[str, dict[str, object]]]:
    for row in _NVIDIA.strip().replace("\n  ", " ").splitlines():
        arch, registers, *names = row.split()
        for name in names:
            config: dict[str, object] = {
                "kind": "cuda",
                "arch": arch,
                "max_shared_memory_per_block": 49152,
                "max_threads_per_block": 1024,
                "thread_warp_size": 32,
                "registers_per_block": int(registers),
            }
            if name in _L2_BYTES:
                config["l2_cache_size_bytes"] = _L2_BYTES[name]
            if name in BOARDS:
                # The host is the CPU of the board.
                board = BOARDS[name]
                config["host"] = {
                    "kind": "llvm",
                    "mtriple": "aarch64-linux-gnu",
                    "mcpu": board.cpu,
                    "num-cores": board.cores,
                }
            yield f"nvidia/{name}", config


# ---- CPUs ----
_AWS_C5 = (
    ("c5.large", 1, "skylake-avx512"),
    ("c5.xlarge", 2, "skylake-avx512"),
    ("c5.2xlarge", 4, "skylake-avx512"),
    ("c5.4xlarge", 8, "skylake-avx512"),
    ("c5.9xlarge", 18, "skylake-avx512"),
    ("c5.12xlarge", 24, "cascadelake"),
    ("c5.18xlarge", 36, "skylake-avx512"),
    ("c5.24xlarge", 48, "cascadelake"),
)


def _cpu_tags() -> Iterator[tuple[str, dict[str, object]]]:
    for name, cores, mcpu in _AWS_C5:
        yield f"aws/cpu/{name}", {"kind": "llvm", "keys": ["x86", "cpu"], "mcpu": mcpu, "num-cores": cores}
    for name, mcpu, mattr in (
        ("raspberry-pi/4b-aarch64", "cortex-a72", ["+neon"]),
        ("raspberry-pi/5-aarch64", "cortex-a76", ["+neon"]),
    ):
        board = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": mcpu, "mattr": mattr, "num-cores": 4}
        yield name, {**board, "host": dict(board)}


for _name, _config in (*_nvidia_tags(), *_cpu_tags()):
    TAGS.register(_name, _config)
