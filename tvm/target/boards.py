"""Target options of known boards, microcontrollers and processors, for the constructors in ``tvm.target.target``."""

from __future__ import annotations

from typing import NamedTuple


class Board(NamedTuple):
    """The processor of a board: its instruction set, LLVM's name of its large cores, and its number of cores."""

    arch: str
    cpu: str
    cores: int


# By the value of ``-model``; from documents of the vendors.
BOARDS: dict[str, Board] = {
    "bcm2837": Board("aarch64", "cortex-a53", 4),
    "bcm2711": Board("aarch64", "cortex-a72", 4),
    "bcm2712": Board("aarch64", "cortex-a76", 4),
    "rk3399": Board("aarch64", "cortex-a72", 6),
    "rk3588": Board("aarch64", "cortex-a76", 8),
    "snapdragon835": Board("aarch64", "cortex-a73", 8),
    "kirin970": Board("aarch64", "cortex-a73", 8),
    "ultra96": Board("aarch64", "cortex-a53", 4),
    "thunderx": Board("aarch64", "thunderxt88", 48),
    "jetson-nano": Board("aarch64", "cortex-a57", 4),
    "jetson-tx1": Board("aarch64", "cortex-a57", 4),
    "jetson-tx2": Board("aarch64", "cortex-a57", 4),
    "jetson-xavier-nx": Board("aarch64", "carmel", 6),
    "jetson-agx-xavier": Board("aarch64", "carmel", 8),
    "jetson-orin-nano": Board("aarch64", "cortex-a78ae", 6),
    "jetson-orin-nx": Board("aarch64", "cortex-a78ae", 8),
    "jetson-agx-orin-32gb": Board("aarch64", "cortex-a78ae", 8),
    "jetson-agx-orin-64gb": Board("aarch64", "cortex-a78ae", 12),
    "pynq": Board("arm", "cortex-a9", 2),
    "beagleai": Board("arm", "cortex-a15", 2),
    "stm32mp1": Board("arm", "cortex-a7", 2),
    "sifive-u54": Board("riscv", "sifive-u54", 4),
    "sifive-u74": Board("riscv", "sifive-u74", 4),
    "visionfive2": Board("riscv", "sifive-u74", 4),
    "spacemit-k1": Board("riscv", "spacemit-x60", 8),
}

ARM_BOARDS: dict[str, str] = {
    "pixel2": "-model=snapdragon835 -mtriple=arm64-linux-android -mattr=+neon",
    "mate10": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "mate10pro": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "p20": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "p20pro": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "rasp3b": "-model=bcm2837 -mtriple=armv7l-linux-gnueabihf -mattr=+neon",
    "rasp4b": "-model=bcm2711 -mtriple=armv8l-linux-gnueabihf -mattr=+neon -mcpu=cortex-a72",
    "rasp4b64": "-model=bcm2711 -mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a72",
    "rasp5": "-model=bcm2712 -mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a76",
    "rk3399": "-model=rk3399 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "rk3588": "-model=rk3588 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "pynq": "-model=pynq -mtriple=armv7a-linux-eabi -mattr=+neon",
    "ultra96": "-model=ultra96 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "beagleai": "-model=beagleai -mtriple=armv7a-linux-gnueabihf -mattr=+neon,+vfp4,+thumb2 -mcpu=cortex-a15",
    "stm32mp1": "-model=stm32mp1 -mtriple=armv7a-linux-gnueabihf -mattr=+neon,+vfp4,+thumb2 -mcpu=cortex-a7",
    "thunderx": "-model=thunderx -mtriple=aarch64-linux-gnu -mattr=+neon,+crc,+lse -mcpu=thunderxt88",
    **{name: f"-model={name} -mtriple=aarch64-linux-gnu -mattr=+neon" for name in BOARDS if name.startswith("jetson-")},
}

MICRO_MODELS: dict[str, str] = {
    "host": "",
    "atsamd51": "-mcpu=cortex-m4",
    "cxd5602gg": "-mcpu=cortex-m4",
    "esp32": "",
    "imxrt10xx": "-mcpu=cortex-m7",
    "mps2_an385": "-mcpu=cortex-m3",
    "mps2_an386": "-mcpu=cortex-m4",
    "mps2_an521": "-mcpu=cortex-m33",
    "mps3_an547": "-mcpu=cortex-m55",
    "nrf52840": "-mcpu=cortex-m4+nodsp",
    "nrf5340dk": "-mcpu=cortex-m33",
    "rp2040": "-mcpu=cortex-m0",
    "sam3x8e": "-mcpu=cortex-m3",
    "stm32f746xx": "-mcpu=cortex-m7 -march=armv7e-m",
    "stm32h7xx": "-mcpu=cortex-m7",
    "stm32l4r5zi": "-mcpu=cortex-m4",
    "stm32u5xx": "-mcpu=cortex-m33",
    "zynq_mp_r5": "-mcpu=cortex-r5",
}

STM32_SERIES: dict[str, str] = {
    "stm32F7xx": "-mcpu=cortex-m7",
    "stm32H7xx": "-mcpu=cortex-m7",
    "stm32L4xx": "-mcpu=cortex-m4",
    "stm32F4xx": "-mcpu=cortex-m4",
    "stm32U5xx": "-mcpu=cortex-m33",
}

RISCV_CPUS: dict[str, str] = {
    "sifive-e31": "-mtriple=riscv32-unknown-elf -mcpu=sifive-e31 -mabi=ilp32",
    "sifive-e76": "-mtriple=riscv32-unknown-elf -mcpu=sifive-e76 -mabi=ilp32",
    "sifive-u54": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u54 -mabi=lp64d",
    "sifive-u74": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u74 -mabi=lp64d",
    "visionfive2": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u74 -mabi=lp64d",
    "spacemit-k1": "-mtriple=riscv64-unknown-linux-gnu -mcpu=spacemit-x60 -mabi=lp64d",
}

# Version of the Hexagon DSP -> size of its tightly coupled memory in bytes.
HEXAGON_VTCM: dict[str, int] = {
    "v65": 256 << 10,
    "v66": 256 << 10,
    "v67": 256 << 10,
    "v68": 4 << 20,
    "v69": 8 << 20,
    "v71": 8 << 20,
    "v73": 8 << 20,
    "v75": 8 << 20,
}
