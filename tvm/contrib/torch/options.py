"""The options of ``torch.compile(model, backend="tvm_classic", options={...})``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...error import TVMError
from ...ir.transform import PassContext
from ...ir.type import TupleType
from ...relay import op as relay
from ...relay.expr import Call, RelayExpr
from ...relay.expr_functor import ExprMutator
from ...relay.transform import InferType, ToMixedPrecision
from ...target import Target
from ...tuning.apply_records import records_of_file

# The default target of each PyTorch device.
TARGETS = {"cpu": "llvm", "cuda": "cuda"}
# Devices on which a half-precision model is computed in single precision.
_SINGLE = frozenset({"cpu"})
_PRECISIONS = ("float32", "float16", "bfloat16")


class Options(NamedTuple):
    """The compilation options of a graph. Without a target, the graph is compiled for the device of its tensors."""

    target: str | Target | None = None
    opt_level: int = 3
    precision: str | None = None
    tuning_records: str | os.PathLike | None = None
    cuda_graphs: bool = True

    def target_on(self, device: str) -> str | Target:
        """Return the target of a graph whose tensors are on a device of this type."""
        chosen = self.target if self.target is not None else TARGETS[device]
        if Target(chosen).get_target_device_type() != Target(TARGETS[device]).get_target_device_type():
            raise TVMError(f"the option target is '{chosen}', but the graph's tensors are on the device '{device}'")
        return chosen

    def converted(self, mod, device: str):
        """Convert a module to the requested precision. On a GPU, a half-precision model is computed in half precision,
        with accumulation and values between matmuls as in mixed precision; on the CPU in single precision, as in
        PyTorch.
        """
        mod = InferType()(mod)
        kind = self.precision
        if kind is None:
            kind = "float32" if device in _SINGLE else _half_of(mod)
        if kind == "float32":
            return mod
        with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
            return _without_round_trips(ToMixedPrecision(kind, 2)(_without_round_trips(mod)))

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Return a context with the pass context and the tuning records of a compilation."""
        records = records_of_file(self.tuning_records)
        with PassContext(opt_level=self.opt_level, config=records.config), records.context:
            yield


def _half_of(mod) -> str:
    """Return the half-precision type of a module's inputs and outputs, or float32."""
    main = mod["main"]
    results = main.ret_type.fields if isinstance(main.ret_type, TupleType) else [main.ret_type]
    found = {t.dtype for t in (*(p.type_annotation for p in main.params), *results)}
    return next((kind for kind in ("float16", "bfloat16") if kind in found), "float32")


# Layout-changing operators.
_MOVING = frozenset("reshape transpose squeeze expand_dims strided_slice broadcast_to".split())
_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}


class _Casts(ExprMutator):
    """Merges or removes casts of casts, also across layout-changing ops, so that values between matmuls keep their
    precision and matmuls read their operands without a copy."""

    def __init__(self):
        super().__init__()
        # The type of a cast's operand.
        self.sources: dict[RelayExpr, str] = {}

    def visit_call(self, call):
        post = super().visit_call(call)
        name = getattr(call.op, "name", "")
        if len(post.args) != 1 or name not in ("cast", *_MOVING):
            return post
        inner, between = post.args[0], call.args[0].checked_type.dtype
        first = self.sources.get(inner)
        if name != "cast":
            widened = first is not None and _BITS[first] < _BITS[between]
            return self.cast(Call(post.op, inner.args, post.attrs), between, first) if widened else post
        last = call.attrs.dtype
        if not {between, last} <= _BITS.keys():
            return post
        if first == last:
            return inner.args[0]
        if first is not None and between in (first, last):
            return self.cast(inner.args[0], last, first)
        self.sources[post] = between
        return post

    def cast(self, x, dtype: str, source: str):
        made = relay.cast(x, dtype)
        self.sources[made] = source
        return made


def _without_round_trips(mod):
    mod = InferType()(mod)
    mod["main"] = _Casts().visit(mod["main"])
    return InferType()(mod)


def options_of(given: Mapping[str, Any] | None) -> Options:
    """Return the validated options of a caller."""
    names = Options._fields
    unknown = sorted(set(given or {}) - set(names))
    if unknown:
        raise TVMError(f"tvm_classic: unknown option '{unknown[0]}'; the options are {', '.join(names)}")
    made = Options(**(given or {}))
    if made.precision is not None and made.precision not in _PRECISIONS:
        raise TVMError(
            f"tvm_classic: the option precision must be one of {', '.join(_PRECISIONS)}, got {made.precision!r}"
        )
    if not isinstance(made.opt_level, int):
        raise TVMError(f"tvm_classic: the option opt_level must be an integer, got {made.opt_level!r}")
    if made.tuning_records is not None and not os.path.isfile(made.tuning_records):
        records = os.fspath(made.tuning_records)
        raise TVMError(f"tvm_classic: the option tuning_records: '{records}' is not a file")
    if made.target is not None:
        Target(made.target)
    return made


__all__ = ["TARGETS", "Options", "options_of"]
