"""Quantize a float model to 8-bit integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...ir.module import IRModule
from ...ir.transform import PassContext, Sequential
from .. import transform
from ..expr import Call, Function
from ..op.record import CallAttrs
from ..transform.function_pass import is_call, rewrite_typed
from .calibrate import Values, integers_of
from .config import QConfig, current_qconfig
from .plan import Plan, name_of
from .prepare import prerequisite_optimize
from .ranges import decibels


class Loss(NamedTuple):
    """The signal-to-noise ratio of a layer in decibels."""

    name: str
    operator: str
    noise: float


class Quantization:
    """The stages of quantization: the float model, the model that simulates integers in float, and the integer model.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        The parameters of the model by name.
    dataset : iterable of dict, optional
        Calibration samples: arrays by input name.
    config : QConfig, optional
        The configuration; None means that of the enclosing ``with`` block.

    Raises
    ------
    TVMError
        The data set is missing or does not match the model, or a layer to skip is not in the model.
    """

    def __init__(self, mod: IRModule, params: Mapping[str, Any] | None = None,
                 dataset: Iterable[Mapping[str, Any]] | None = None, config: QConfig | None = None):  # fmt: skip
        self.config = config or current_qconfig()
        self.mod = prerequisite_optimize(mod, params)
        function: Function = self.mod["main"]
        self.plan = Plan(function, self.config)
        self.integers = integers_of(self.mod, function, self.plan.points, dataset, self.config)
        self._made = self.plan.quantized(self.integers)
        simulated = self.mod.clone()
        simulated["main"] = function.replace(body=self._made[id(function.body)])
        self.simulated: IRModule = transform.InferType()(simulated)

    def realized(self) -> IRModule:
        """Return the integer model.

        Returns
        -------
        IRModule
        """
        given = PassContext.current()
        passes = [transform.FakeQuantizationToInteger(), transform.FoldConstant(), transform.InferType()]
        with PassContext(3, given.required_pass, given.disabled_pass, config=given.config):
            mod = Sequential(passes)(self.simulated)

        def rounded(node: Any) -> Call | None:
            if not is_call(node, "qnn.requantize") or node.attrs.rounding != "None":
                return None
            # With float32 scales, requantization is fused into a layer of any layout; with int64 it is not.
            how = {"rounding": self.config.rounding, "compute_dtype": "float32"}
            return Call(node.op, node.args, CallAttrs({**node.attrs.entries, **how}), (), node.span)

        func: Function = mod["main"]
        mod["main"] = func.replace(body=rewrite_typed(func.body, rounded, mod))
        return transform.InferType()(mod)

    def losses(self, dataset: Iterable[Mapping[str, Any]]) -> list[Loss]:
        """Compare the layers of the simulated model to those of the float model, in graph order.

        The noise of a layer includes that of earlier layers.

        Parameters
        ----------
        dataset : iterable of dict
            Samples: arrays by input name.

        Returns
        -------
        list of Loss
        """
        plan = self.plan
        layers = [e for e in plan.nodes if plan.layer_of(e) is not None and not plan.read_by_integers_alone(e)]
        if not layers:
            return []
        plain = Values(self.mod, plan.function, layers)
        noisy = Values(self.mod, plan.function, [self._made[id(e)] for e in layers])
        signal, noise = np.zeros(len(layers)), np.zeros(len(layers))
        for sample in dataset:
            for i, (a, b) in enumerate(zip(plain.of(sample), noisy.of(sample))):
                signal[i] += np.square(a, dtype="float64").sum()
                noise[i] += np.square(a.astype("float64") - b).sum()
        lost = decibels(signal, noise)
        named = [(layer, float(d)) for e, d in zip(layers, lost) if (layer := plan.layer_of(e)) is not None]
        return [Loss(name_of(layer), layer.op.name, noise) for layer, noise in named]


def quantize(mod: IRModule, params: Mapping[str, Any] | None = None, dataset: Any = None) -> IRModule:
    """Quantize a float model to 8-bit integers with the configuration of the enclosing ``with qconfig(...)``.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        The parameters of the model by name, which become constants.
    dataset : iterable of dict, optional
        Calibration samples: arrays by input name. ``calibrate_mode="global_scale"`` needs none.

    Returns
    -------
    IRModule
        The integer model, or with ``do_simulation`` a float model that simulates it.

    Raises
    ------
    TVMError
        The data set is missing or does not match the model.
    """
    made = Quantization(mod, params, dataset)
    return made.simulated if made.config.do_simulation else made.realized()


__all__ = ["Loss", "Quantization", "quantize"]
