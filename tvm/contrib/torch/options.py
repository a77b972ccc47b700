"""The options of ``torch.compile(model, backend="pytvm", options={...})``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...error import TVMError
from ...ir.transform import PassContext
from ...relay.transform import InferType, ToMixedPrecision
from ...target import Target
from ...tuning.apply_records import records_of_file

# What PyTorch's devices are compiled for, unless the user says otherwise.
TARGETS = {"cpu": "llvm", "cuda": "cuda"}
_PRECISIONS = ("float32", "float16", "bfloat16")


class Options(NamedTuple):
    """What a graph is compiled with. Without a target a graph is compiled for the device that its tensors lie on."""

    target: str | Target | None = None
    opt_level: int = 3
    precision: str = "float32"
    tuning_records: str | os.PathLike | None = None
    cuda_graphs: bool = True

    def target_on(self, device: str) -> str | Target:
        """The target of a graph whose tensors lie on a device of this kind."""
        chosen = self.target if self.target is not None else TARGETS[device]
        if Target(chosen).get_target_device_type() != Target(TARGETS[device]).get_target_device_type():
            raise TVMError(f"the option target is '{chosen}', and the graph's tensors lie on the device '{device}'")
        return chosen

    def converted(self, mod):
        """The module in the precision that is asked for."""
        if self.precision == "float32":
            return mod
        with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
            return ToMixedPrecision(self.precision, 2)(InferType()(mod))

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """The pass context and the tuning records, around a compilation."""
        records = records_of_file(self.tuning_records)
        with PassContext(opt_level=self.opt_level, config=records.config), records.context:
            yield


def options_of(given: Mapping[str, Any] | None) -> Options:
    """The options that a caller gave, checked."""
    names = Options._fields
    unknown = sorted(set(given or {}) - set(names))
    if unknown:
        raise TVMError(f"pytvm: there is no option '{unknown[0]}'; the options are {', '.join(names)}")
    made = Options(**(given or {}))
    if made.precision not in _PRECISIONS:
        raise TVMError(f"pytvm: the option precision is one of {', '.join(_PRECISIONS)}, got {made.precision!r}")
    if made.tuning_records is not None and not os.path.isfile(made.tuning_records):
        raise TVMError(f"pytvm: the option tuning_records names '{os.fspath(made.tuning_records)}', which is no file")
    if made.target is not None:
        Target(made.target)
    return made


__all__ = ["TARGETS", "Options", "options_of"]
