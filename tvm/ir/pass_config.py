"""Options of passes: all keys that a PassContext accepts, with their types and defaults.

A layer declares its keys with ``register_pass_config``; undeclared keys are rejected, so a misspelt option is an error.
The keys of the lowering passes are declared here, because scripts use them before the passes are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..error import TVMError
from .attrs import Attrs, near_matches
from .prim import FloatImm, IntImm, StringImm


class PassConfigError(TVMError, AttributeError, TypeError):
    """An unknown option, or a value of the wrong type."""


class ConfigEntry(NamedTuple):
    """A declared option. ``kind`` is a Python type, an Attrs class, or None for any value."""

    key: str
    kind: type | None
    default: Any
    doc: str
    check: Callable[[Any], str | None] | None = None

    @property
    def type_name(self) -> str:
        if self.kind is None:
            return "object"
        return _TYPE_NAMES.get(self.kind) or getattr(self.kind, "_type_key", "") or self.kind.__name__


_TYPE_NAMES = {bool: "IntImm", int: "IntImm", float: "FloatImm", str: "runtime.String", list: "Array", dict: "Map"}

CONFIGS: dict[str, ConfigEntry] = {}

# Keys with these prefixes belong to code outside this repository (custom back ends) and accept any value.
FREE_PREFIXES: list[str] = ["relay.ext."]


def register_pass_config(
    key: str,
    kind: type | None = None,
    default: Any = None,
    doc: str = "",
    check: Callable[[Any], str | None] | None = None,
) -> None:
    """Declare an option. ``check(value)`` may return an error message. Repeating an identical declaration is allowed.

    Parameters
    ----------
    key : str
        The name of the option, such as "tir.disable_vectorize".
    kind : type, optional
        The type of its value.
    default : optional
        The default value.
    doc : str, optional
        A one-sentence description.
    check : callable, optional
        A function that returns an error message for a value, or None.

    Raises
    ------
    ValueError
        The option is already declared with another type or default.
    """
    entry = ConfigEntry(key, kind, default, doc, check)
    old = CONFIGS.get(key)
    if old is not None and (old.kind, old.default) != (kind, default):
        raise ValueError(f"pass option '{key}' is already declared, as {old.type_name} with default {old.default!r}")
    CONFIGS[key] = entry


def check_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with Python values; raise an error for an unknown key or a value of the wrong type."""
    out: dict[str, Any] = {}
    for key, value in config.items():
        entry = CONFIGS.get(key)
        if entry is None:
            if any(str(key).startswith(p) for p in FREE_PREFIXES):
                out[key] = value
                continue
            raise PassConfigError(
                f"PassContext: unknown option '{key}'; {near_matches(str(key), CONFIGS)} "
                "PassContext.list_configs() lists them all."
            )
        out[key] = _convert(entry, value)
    return out


def _convert(entry: ConfigEntry, value: Any) -> Any:
    kind = entry.kind
    if kind is None or value is None:
        return value
    where = f"PassContext option '{entry.key}'"
    if issubclass(kind, Attrs):
        value = _convert_record(kind, value, where)
    else:
        value = _convert_value(kind, value, where)
    complaint = entry.check(value) if entry.check is not None else None
    if complaint:
        raise ValueError(f"{where}: {complaint}")
    return value


def _convert_value(kind: type[Any], value: Any, where: str) -> Any:
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        value = value.value
    if kind is bool and isinstance(value, (bool, int)):
        if value not in (0, 1):
            raise PassConfigError(f"{where} must be a bool, got {value!r}")
        return bool(value)
    if kind is int and isinstance(value, (bool, int)):
        return int(value)
    if kind is float and isinstance(value, (int, float)):
        return float(value)
    if kind is list and isinstance(value, (list, tuple)):
        return list(value)
    if kind is dict and isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, kind) and kind not in (bool, int, float):
        return value
    raise PassConfigError(f"{where} must have the type {kind.__name__}, got {value!r} ({type(value).__name__})")


_FIELD_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "list": list, "dict": dict}


def _convert_record(kind: type[Any], value: Any, where: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise PassConfigError(f"{where} must be a dictionary with the fields {', '.join(kind._fields)}, got {value!r}")
    fields = {}
    for name, given in value.items():
        if name not in kind._fields:
            raise PassConfigError(f"{where} has no field '{name}'; {near_matches(str(name), kind._fields)}")
        wanted = _FIELD_TYPES.get(str(kind.__annotations__.get(name)))
        fields[name] = given if wanted is None else _convert_value(wanted, given, f"{where}, field '{name}'")
    return kind(**fields)


def list_configs() -> dict[str, dict[str, Any]]:
    """Return the type, default and description of every declared option."""
    return {
        key: {"type": entry.type_name, "default": entry.default, "doc": entry.doc}
        for key, entry in sorted(CONFIGS.items())
    }


class UnrollLoopConfig(Attrs, key="tir.transform.UnrollLoopConfig"):
    """The loops that the unroll pass expands."""

    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True
    unroll_local_access: bool = False


class LoopPartitionConfig(Attrs, key="tir.transform.LoopPartitionConfig"):
    """How loops are partitioned by conditions on their variable."""

    partition_const_loop: bool = False
    no_unroll_loop_with_extent_one: bool = False
    unroll_loop_with_partition_hint_no_interval: bool = False


class SimplifyConfig(Attrs, key="tir.transform.SimplifyConfig"):
    """The extent of the statement simplifier's analysis."""

    transitively_prove_inequalities: bool = False
    propagate_knowns_to_prove_conditional: bool = False
    propagate_knowns_to_simplify_expressions: bool = False
    convert_boolean_to_and_of_ors: bool = False
    apply_constraints_to_boolean_branches: bool = False


class HoistIfThenElseConfig(Attrs, key="tir.transform.HoistIfThenElseConfig"):
    support_block_scope_hosting: bool = False


class HoistExpressionConfig(Attrs, key="tir.transform.HoistExpressionConfig"):
    """Bit masks of the expressions that may be hoisted; see ``tir.transform.HoistExpression``."""

    hoisted_conditionals: int = 15
    hoisted_let_bindings: int = 15


class InjectDoubleBufferConfig(Attrs, key="tir.transform.InjectDoubleBufferConfig"):
    split_loop: int = 1


class RemoveNoOpConfig(Attrs, key="tir.transform.RemoveNoOpConfig"):
    use_dataflow_analysis: bool = False
    max_simplification_steps: int = 0


class ReduceBranchingThroughOvercomputeConfig(Attrs, key="tir.transform.ReduceBranchingThroughOvercomputeConfig"):
    use_dataflow_analysis: bool = False


def _check_lower_passes(value: list[Any]) -> str | None:
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            return f"each entry is a pair (phase, pass), got {pair!r}"
        phase, function = pair
        if not isinstance(phase, (int, IntImm)) or not 0 <= int(phase) <= 3:
            return f"the phase of a pass is 0, 1, 2 or 3, got {phase!r}"
        if not callable(function):
            return f"{function!r} is not a pass"
    return None


def _declare_known() -> None:
    for key, record, doc in (
        ("tir.UnrollLoop", UnrollLoopConfig, "loop unrolling"),
        ("tir.LoopPartition", LoopPartitionConfig, "loop partition"),
        ("tir.Simplify", SimplifyConfig, "statement simplifier"),
        ("tir.HoistIfThenElse", HoistIfThenElseConfig, "hoisting of conditions"),
        ("tir.HoistExpression", HoistExpressionConfig, "hoisting of expressions"),
        ("tir.InjectDoubleBuffer", InjectDoubleBufferConfig, "double buffering"),
        ("tir.RemoveNoOp", RemoveNoOpConfig, "removal of statements without effect"),
        ("tir.ReduceBranchingThroughOvercompute", ReduceBranchingThroughOvercomputeConfig, "branches on padding"),
    ):
        register_pass_config(key, record, None, doc)
    for key, default, doc in (
        ("tir.disable_vectorize", False, "run vectorized loops as plain loops"),
        ("tir.disable_storage_rewrite", False, "do not share memory between allocations"),
        ("tir.disable_cse_tir", False, "no common subexpression elimination"),
        ("tir.enable_equiv_terms_in_cse_tir", False, "find equal terms that are written differently"),
        ("tir.disable_assert", False, "drop assertions"),
        ("tir.noalias", True, "buffers given to a function do not overlap"),
        ("tir.detect_global_barrier", False, "insert barriers across thread blocks"),
        ("tir.instrument_bound_checkers", False, "check every index at run time"),
        ("tir.instrument_lwp", False, "light-weight profiling of loops"),
        ("tir.instr_siblings", True, "light-weight profiling: loops that have siblings only"),
        ("tir.lwp_disable_func_prof", False, "light-weight profiling: no function-level records"),
        ("tir.reset_start_id", False, "light-weight profiling: numbers begin anew"),
        ("tir.is_entry_func", False, "the lowered function is the entry of its module"),
        ("tir.use_async_copy", False, "asynchronous copies to shared memory"),
        ("tir.merge_async_commit_queue_scope", True, "one commit for neighbouring asynchronous copies"),
        ("tir.merge_static_smem", False, "one allocation for all static shared memory of a kernel"),
        ("tir.enable_debug", False, "keep names and lines for a debugger"),
        ("tir.debug_keep_trivial_loop", False, "keep loops of extent one"),
        ("tir.ptx_ldg32", False, "predicated 32-bit loads on NVIDIA GPUs"),
        ("tir.dma_bypass_cache", False, "copies that do not fill the cache"),
        ("tir.usmp.enable", False, "unified static memory planning"),
        ("tir.usmp.use_workspace_io", False, "inputs and outputs in the workspace"),
        ("te.keep_schedule_record", False, "record the steps of a schedule"),
        ("topi.allow_tf32", False, "float32 products on tensor cores, whose operands have ten bits of mantissa"),
        ("testing.immutable_module", False, "refuse changes of a module in place"),
        ("relay.backend.use_auto_scheduler", False, "schedules from the auto-scheduler"),
        ("relay.backend.use_meta_schedule", False, "schedules from meta-schedule"),
        ("relay.backend.disable_compile_engine_cache", False, "lower every function anew"),
        ("relay.backend.use_multitargets", False, "several targets in one module"),
        ("relay.FuseOps.link_params", False, "FuseOps puts constants into functions; relay.build takes them out again"),
        ("relay.frontend.fill_span", False, "importers record where each node came from"),
        ("relay.remove_standalone_reshapes.enable", True, "drop reshapes that stand alone"),
        ("relay.ToMixedPrecision.keep_orig_output_dtype", False, "cast outputs back to their type"),
    ):
        register_pass_config(key, bool, default, doc)
    for key, kind, default, doc in (
        ("tir.vtcm_capacity", int, 0, "bytes of tightly coupled memory"),
        ("tir.lwp_max_depth", int, 0, "light-weight profiling: deepest loop"),
        ("tir.lwp_min_height", int, 1, "light-weight profiling: smallest loop nest"),
        ("tir.usmp.algorithm", str, "search", "algorithm of the static memory planner"),
        ("tir.usmp.custom_algorithm", str, None, "registered function that plans memory"),
        ("relay.fallback_device_type", int, 1, "device of nodes nobody placed"),
        ("relay.FuseOps.max_depth", int, 256, "most operators in one fused function"),
        ("relay.backend.use_meta_schedule_dispatch", int, 0, "how tuned functions are found"),
        ("relay.backend.tir_converter", str, "default", "how fused functions become loops"),
        ("relay.collage.tvm_max_depth", int, 4, "collage: most operators in a native kernel"),
        ("relay.collage.byoc_max_depth", int, 4, "collage: most operators in an external kernel"),
    ):
        register_pass_config(key, kind, default, doc)
    register_pass_config(
        "tir.add_lower_pass", list, None, "a user's passes: pairs (phase 0 to 3, pass)", _check_lower_passes
    )


_declare_known()
