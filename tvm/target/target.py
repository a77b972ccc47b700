"""Constructors of targets by names of machines; ``Target`` itself is defined in ``record.py`` and re-exported here."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.error import TargetError
from tvm.target import boards, parse
from tvm.target.record import Target


def _compose(kind: str, own: str, options: str | list[str] | None) -> Target:
    """Create a target from ``own`` options and the user's options; identical options are allowed."""
    given = options.split() if isinstance(options, str) else list(options or ())
    return Target(" ".join([kind, *dict.fromkeys([*own.split(), *given])]))


def cuda(model: str = "unknown", arch: str | None = None, options: str | list[str] | None = None) -> Target:
    """The target of an NVIDIA GPU.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    arch : str, optional
        The architecture, such as "sm_80"; by default that of the local GPU.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("cuda", f"-model={model}" + (f" -arch={arch}" if arch else ""), options)


def rocm(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """The target of an AMD GPU.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("rocm", f"-model={model}", options)


def mali(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """The target of an Arm Mali GPU, through OpenCL.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("opencl", f"-device=mali -model={model}", options)


def bifrost(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """The target of an Arm Mali GPU of the Bifrost generation, through OpenCL.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("opencl", f"-device=bifrost -model={model}", options)


def adreno(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """The target of a Qualcomm Adreno GPU, through OpenCL.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("opencl", f"-device=adreno -model={model}", options)


def intel_graphics(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """The target of an Intel GPU, through OpenCL.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("opencl", f"-device=intel_graphics -model={model} -thread_warp_size=16", options)


def vta(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """The target of the accelerator VTA.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("ext_dev", f"-device=vta -keys=vta,cpu -model={model}", options)


def arm_cpu(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """An Arm CPU by board name (rasp4b, rk3399, ...). For an unknown board, pass ``options`` with an ``-mtriple``; its
    name then only sets ``-model``.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return _compose("llvm", f"-device=arm_cpu {_board('arm_cpu', boards.ARM_BOARDS, model, options)}", options)


def _board(constructor: str, known: Mapping[str, str], model: str, options: str | list[str] | None) -> str:
    """Return the options of a board. An unknown board needs a triple, because the default is the triple of the host."""
    if model in known:
        return known[model]
    if model != "unknown" and "-mtriple" not in str(options):
        raise TargetError(
            f"{constructor}: unknown board '{model}'{parse.near(model, known)}; known: {', '.join(known)}. For another "
            "board specify its machine in options: -mtriple=... -mcpu=..."
        )
    return f"-model={model}"


def rasp(options: str | list[str] | None = None) -> Target:
    """Raspberry Pi 3B; deprecated name of ``arm_cpu("rasp3b")``.

    Parameters
    ----------
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: str | list[str] | None = None) -> Target:
    """The target of a RISC-V CPU by board name.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target
    """
    own = _board("riscv_cpu", boards.RISCV_CPUS, model, options)
    return _compose("llvm", f"-device=riscv_cpu -model={model} {own}", options)


def micro(model: str = "unknown", options: str | list[str] | None = None) -> Target:
    """A target for a microcontroller, compiled through C, by the name of the chip or board.

    Parameters
    ----------
    model : str, optional
        The name of the device.
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target

    Raises
    ------
    TargetError
        The model is unknown.
    """
    if model not in boards.MICRO_MODELS:
        known = ", ".join(sorted(boards.MICRO_MODELS))
        raise TargetError(f"micro: unknown model '{model}'{parse.near(model, boards.MICRO_MODELS)}; known: {known}")
    return _compose("c", f"{boards.MICRO_MODELS[model]} -model={model}", options)


def stm32(series: str = "unknown", options: str | list[str] | None = None) -> Target:
    """A target for a microcontroller of the STM32 family, compiled through C.

    Parameters
    ----------
    series : str, optional
        The series, such as "stm32F7xx".
    options : str | list[str], optional
        Further options, as text or a list of texts.

    Returns
    -------
    Target

    Raises
    ------
    TargetError
        The series is unknown.
    """
    if series not in boards.STM32_SERIES:
        known = ", ".join(sorted(boards.STM32_SERIES))
        raise TargetError(f"stm32: unknown series '{series}'{parse.near(series, boards.STM32_SERIES)}; known: {known}")
    return _compose("c", f"-keys=arm_cpu,cpu -device=arm_cpu -model={series} {boards.STM32_SERIES[series]}", options)


def hexagon(
    cpu_ver: str = "v68",
    hvx: int = 128,
    num_cores: int = 4,
    vtcm_capacity: int | None = None,
    use_qfloat: bool | None = None,
    use_ieee_fp: bool = False,
    llvm_options: str | list[str] | None = None,
) -> Target:
    """A Hexagon DSP. ``hvx`` is the vector length in bytes: 64, 128, or 0 for none.

    Parameters
    ----------
    cpu_ver : str, optional
        The version, such as "v68".
    hvx : int, optional
        The vector length in bytes.
    num_cores : int, optional
        The number of cores.
    vtcm_capacity : int, optional
        The size of the vector memory (VTCM) in bytes.
    use_qfloat : bool, optional
        Whether to use the DSP's own float format.
    use_ieee_fp : bool, optional
        Whether to use IEEE floats.
    llvm_options : str | list[str], optional
        Options of LLVM.

    Returns
    -------
    Target

    Raises
    ------
    TargetError
        The version is unknown, or the vector length is not 0, 64 or 128 bytes.
    """
    if cpu_ver not in boards.HEXAGON_VTCM:
        known = ", ".join(boards.HEXAGON_VTCM)
        raise TargetError(f"hexagon: unknown version '{cpu_ver}'; known: {known}")
    if hvx not in (0, 64, 128):
        raise TargetError(f"hexagon: hvx must be 0, 64 or 128 bytes, got {hvx}")
    newer = int(cpu_ver[1:]) >= 68
    features = [f"+hvx{cpu_ver}", f"+hvx-length{hvx}b"] if hvx else []
    if hvx and newer and use_qfloat is not False:
        features.append("+hvx-qfloat")
    if hvx and newer and use_ieee_fp:
        features.append("+hvx-ieee-fp")
    config: dict[str, object] = {
        "kind": "hexagon",
        "mtriple": "hexagon",
        "mcpu": f"hexagon{cpu_ver}",
        "mattr": features or None,
        "num-cores": num_cores,
        "vtcm-capacity": boards.HEXAGON_VTCM[cpu_ver] if vtcm_capacity is None else vtcm_capacity,
        "llvm-options": llvm_options.split() if isinstance(llvm_options, str) else llvm_options,
    }
    return Target(config)


def create(target: str | Mapping | Target) -> Target:
    """``Target(target)``, under the name that old scripts use.

    Parameters
    ----------
    target : str, dict or Target
        The target.

    Returns
    -------
    Target
    """
    return Target(target)


__all__ = [
    "Target",
    "adreno",
    "arm_cpu",
    "bifrost",
    "create",
    "cuda",
    "hexagon",
    "intel_graphics",
    "mali",
    "micro",
    "rasp",
    "riscv_cpu",
    "rocm",
    "stm32",
    "vta",
]
