"""How a float model is quantized: the fields of ``qconfig``."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...error import did_you_mean

CALIBRATE_MODES = ("global_scale", "max", "percentile", "kl_divergence")
WEIGHT_SCALES = ("power2", "max", "channel")


@dataclass(frozen=True)
class QConfig:
    """What ``quantize`` follows inside ``with qconfig(...)``.

    Parameters
    ----------
    nbit_input : int
        Bits of the integers between layers, 2 to 8; ``dtype_input`` is the type that holds them.
    nbit_weight : int
        Bits of the integers of weights, 2 to 8, held as int8.
    nbit_activation : int
        Bits of sums of products: 32.
    dtype_input : str
        int8 or uint8.
    dtype_weight : str
        int8.
    dtype_activation : str
        int32.
    calibrate_mode : str
        Where the range of a tensor comes from. ``global_scale``: it is ``global_scale`` to both sides, for all of them,
        and no data is needed. ``max``: the least and the largest value of the data set. ``percentile``: all but the
        share of values beyond ``percentile``. ``kl_divergence``: the range whose integers lose least information.
    global_scale : float
        The range of every tensor in that mode.
    percentile : float
        The share of values inside the range in that mode, in percent.
    weight_scale : str
        ``max``: the largest weight is the end of the range. ``power2``: the power of two above it. ``channel``: the
        largest weight of each output channel.
    skip_dense_layer : bool
        Whether dense layers stay in float.
    skip_conv_layers : list of int, optional
        Convolutions that stay in float, by their number in the order of the graph.
    skip_layers : list of str, optional
        Layers that stay in float, by the names of their nodes in the model; names of operators have no effect here.
    do_simulation : bool
        Whether the result computes in float what the integers would.
    round_for_shift : bool
        Whether what is cut off by a change of scale is rounded; True.
    debug_enabled_ops : list of str, optional
        The operators that may be quantized; all, if None.
    rounding : str
        ``UPWARD``: ties are rounded towards positive infinity; ``TONEAREST``: away from zero.
    calibrate_chunk_by : int
        How many tensors are looked at in one pass over the data set, which bounds the memory it takes; -1: all of them.
    partition_conversions : str
        ``disabled``: the model's inputs and outputs stay float.
    """

    nbit_input: int = 8
    nbit_weight: int = 8
    nbit_activation: int = 32
    dtype_input: str = "int8"
    dtype_weight: str = "int8"
    dtype_activation: str = "int32"
    calibrate_mode: str = "global_scale"
    global_scale: float = 8.0
    percentile: float = 99.99
    weight_scale: str = "power2"
    skip_dense_layer: bool = True
    skip_conv_layers: Any = (0,)
    skip_layers: Any = None
    do_simulation: bool = False
    round_for_shift: bool = True
    debug_enabled_ops: Any = None
    rounding: str = "UPWARD"
    calibrate_chunk_by: int = -1
    partition_conversions: str = "disabled"

    def __post_init__(self) -> None:
        _among("calibrate_mode", self.calibrate_mode, CALIBRATE_MODES)
        _among("weight_scale", self.weight_scale, WEIGHT_SCALES)
        _among("dtype_input", self.dtype_input, ("int8", "uint8"))
        _among("dtype_weight", self.dtype_weight, ("int8",))
        _among("dtype_activation", self.dtype_activation, ("int32",))
        _among("nbit_activation", self.nbit_activation, (32,))
        _among("nbit_input", self.nbit_input, range(2, 9))
        _among("nbit_weight", self.nbit_weight, range(2, 9))
        _among("rounding", self.rounding, ("UPWARD", "TONEAREST"))
        _among("round_for_shift", self.round_for_shift, (True,))
        _among("partition_conversions", self.partition_conversions, ("disabled",))
        if not self.global_scale > 0:
            raise ValueError(f"qconfig: global_scale is a range above zero, got {self.global_scale}")
        if not 50 < self.percentile <= 100:
            raise ValueError(f"qconfig: percentile is above 50 and at most 100, got {self.percentile}")
        if self.calibrate_chunk_by != -1 and self.calibrate_chunk_by < 1:
            raise ValueError(f"qconfig: calibrate_chunk_by is a number of tensors or -1, got {self.calibrate_chunk_by}")

    def guard(self, name: str, number: int, node: str) -> bool:
        """Whether a layer is quantized: its operator, its number among convolutions, and the name of its node."""
        if node in (self.skip_layers or ()):
            return False
        if self.debug_enabled_ops is not None and name not in self.debug_enabled_ops:
            return False
        if name == "nn.dense":
            return not self.skip_dense_layer
        return not (name.startswith("nn.conv") and number in (self.skip_conv_layers or ()))

    def __enter__(self) -> QConfig:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _ENTERED.set(_ENTERED.get()[:-1])


def _among(field: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        shown = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise ValueError(f"qconfig: {field} is one of {shown}, got {value!r}")


_ENTERED: ContextVar[tuple[QConfig, ...]] = ContextVar("qconfig", default=())
_DEFAULT = QConfig()


def current_qconfig() -> QConfig:
    """The configuration that holds here.

    Returns
    -------
    QConfig
        That of the innermost ``with qconfig(...)``, else the defaults.
    """
    entered = _ENTERED.get()
    return entered[-1] if entered else _DEFAULT


def qconfig(**kwargs: Any) -> QConfig:
    """A configuration for ``quantize``, for use in a ``with`` block; what is not given is as it holds here.

    Parameters
    ----------
    **kwargs
        Fields of :class:`QConfig`.

    Returns
    -------
    QConfig

    Raises
    ------
    ValueError
        A field is not known, or its value is none it can have.
    """
    names = [f.name for f in fields(QConfig)]
    for name in kwargs:
        if name not in names:
            hint = did_you_mean(name, names, "; ")
            raise ValueError(f"qconfig: there is no field '{name}'{hint}")
    return QConfig(**{**asdict(current_qconfig()), **kwargs})


__all__ = ["CALIBRATE_MODES", "QConfig", "WEIGHT_SCALES", "current_qconfig", "qconfig"]
