"""The configuration of quantization: ``qconfig``."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...error import did_you_mean

CALIBRATE_MODES = ("global_scale", "max", "percentile", "kl_divergence")
WEIGHT_SCALES = ("power2", "max", "channel")


@dataclass(frozen=True)
class QConfig:
    """The configuration of ``quantize`` inside ``with qconfig(...)``.

    Parameters
    ----------
    nbit_input : int
        The bits of integers between layers, 2 to 8; ``dtype_input`` is their storage type.
    nbit_weight : int
        The bits of weights, 2 to 8, stored as int8.
    nbit_activation : int
        The bits of accumulators: 32.
    dtype_input : str
        The type of integers between layers: int8 or uint8.
    dtype_weight : str
        The type of weights: int8.
    dtype_activation : str
        The type of accumulators: int32.
    calibrate_mode : str
        How the range of a tensor is chosen. ``global_scale``: from minus to plus ``global_scale`` for all tensors; no
        data set is needed. ``max``: the minimum and maximum over the data set. ``percentile``: the range that contains
        ``percentile`` percent of the values. ``kl_divergence``: the range with the least Kullback-Leibler divergence.
    global_scale : float
        The bound of all ranges in mode ``global_scale``.
    percentile : float
        The percentage of values inside the range in mode ``percentile``.
    weight_scale : str
        How the range of weights is chosen. ``max``: from the largest absolute weight. ``power2``: the next power of two
        of it. ``channel``: from the largest absolute weight of each output channel.
    skip_dense_layer : bool
        Whether to leave dense layers in float.
    skip_conv_layers : list of int, optional
        The indices of convolutions, in graph order, to leave in float.
    skip_layers : list of str, optional
        The node names of layers to leave in float. Operator names have no effect here.
    do_simulation : bool
        Whether to return a float model that simulates the integer arithmetic.
    round_for_shift : bool
        Whether requantization rounds; must be True.
    debug_enabled_ops : list of str, optional
        The operators to quantize; None means all.
    rounding : str
        ``UPWARD`` rounds ties toward positive infinity, ``TONEAREST`` away from zero.
    calibrate_chunk_by : int
        The number of tensors to calibrate in one pass over the data set, which limits memory; -1 means all.
    partition_conversions : str
        Must be ``disabled``: the inputs and outputs of the model stay float.
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
            raise ValueError(f"qconfig: global_scale must be positive, got {self.global_scale}")
        if not 50 < self.percentile <= 100:
            raise ValueError(f"qconfig: percentile must be above 50 and at most 100, got {self.percentile}")
        if self.calibrate_chunk_by != -1 and self.calibrate_chunk_by < 1:
            raise ValueError(
                f"qconfig: calibrate_chunk_by must be a positive number of tensors or -1, got {self.calibrate_chunk_by}"
            )

    def guard(self, name: str, number: int, node: str) -> bool:
        """Return whether to quantize a layer, given its operator, its index among convolutions and its node name."""
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
        raise ValueError(f"qconfig: {field} must be one of {shown}, got {value!r}")


_ENTERED: ContextVar[tuple[QConfig, ...]] = ContextVar("qconfig", default=())
_DEFAULT = QConfig()


def current_qconfig() -> QConfig:
    """Return the current configuration.

    Returns
    -------
    QConfig
        The configuration of the innermost ``with qconfig(...)``, or the default configuration.
    """
    entered = _ENTERED.get()
    return entered[-1] if entered else _DEFAULT


def qconfig(**kwargs: Any) -> QConfig:
    """Return a configuration for use in a ``with`` block. Fields that are not given have their current values.

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
        A field does not exist, or its value is invalid.
    """
    names = [f.name for f in fields(QConfig)]
    for name in kwargs:
        if name not in names:
            hint = did_you_mean(name, names, "; ")
            raise ValueError(f"qconfig: unknown field '{name}'{hint}")
    return QConfig(**{**asdict(current_qconfig()), **kwargs})


__all__ = ["CALIBRATE_MODES", "QConfig", "WEIGHT_SCALES", "current_qconfig", "qconfig"]
