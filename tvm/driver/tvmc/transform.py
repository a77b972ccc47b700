"""Graph transforms before compilation: layouts and mixed precision."""

from __future__ import annotations

from ...ir.attrs import near_matches
from ...ir.op import OPS
from ...ir.transform import PassContext, Sequential
from .errors import TVMCException
from .parser import detail_group

DEFAULT_OPS = ["nn.conv2d", "nn.conv2d_transpose", "qnn.conv2d"]
DEFAULT_MIXED_OPS = ["nn.conv2d", "nn.dense"]


def convert_graph_layout(mod, desired_layouts, ops=None):
    """Convert convolutions to other layouts: ``["NHWC"]`` for all, or one layout such as ``NHWC:HWIO`` per operator."""
    from ... import relay

    ops = list(ops) if ops is not None else DEFAULT_OPS
    layouts = [desired_layouts] if isinstance(desired_layouts, str) else list(desired_layouts)
    if len(layouts) not in (1, len(ops)):
        raise TVMCException(f"Expected 1 or {len(ops)} layouts but got {len(layouts)}")
    if len(layouts) == 1:
        layouts = layouts * len(ops)
    _check_ops("--desired-layout-ops", ops)
    for op, layout in zip(ops, layouts):
        _check_layout(op, layout)
    table = {o: [*layout.split(":"), "default"][:2] for o, layout in zip(ops, layouts)}
    passes = (relay.transform.RemoveUnusedFunctions(), relay.transform.ConvertLayout(table))
    given = PassContext.current()
    # The user requested the layouts, so the passes run at any optimization level.
    with PassContext(3, given.required_pass, given.disabled_pass, instruments=given.instruments, config=given.config):
        return Sequential([*passes, relay.transform.FoldConstant()])(mod)


def _check_ops(option: str, names) -> None:
    unknown = [n for n in names if OPS.get(n) is None]
    if unknown:
        raise TVMCException(f"{option}: unknown operator '{unknown[0]}'; {near_matches(unknown[0], OPS.names())}")


def _check_layout(op: str, text: str) -> None:
    """Raise an error for an invalid layout, even if the graph does not contain the operator."""
    from ...relay.op.layout import is_blocked
    from ...relay.op.nn.convolution import without_blocks
    from ...relay.transform.convert_layout import KERNELS

    layout, _, kernel = text.partition(":")
    has_axes = any(sorted(without_blocks(layout)) == sorted(name) for name in KERNELS)
    needs_kernel = "conv" in op and not is_blocked(layout) and layout not in KERNELS
    if layout != "default" and not (has_axes and (kernel or not needs_kernel)):
        raise TVMCException(
            f"--desired-layout {text}: '{layout}' is not a layout of {op}; valid layouts are {', '.join(KERNELS)}, "
            "blocked "
            "layouts such as NCHW8c, and any other order of these axes with a layout of the weights (NHCW:OIHW)"
        )


RULE = "FTVMMixedPrecisionConversionType"
_ALWAYS = 0


class MixedPrecision:
    """A scope in which ``ops`` are computed in the smaller type with accumulation in ``acc_type``."""

    def __init__(self, ops, acc_type: str):
        self.ops, self.acc_type = list(ops), acc_type
        self.before: dict[str, object] = {}

    def __enter__(self) -> MixedPrecision:
        def rule(call, narrow: str) -> list:
            return [_ALWAYS, self.acc_type, narrow]

        _check_ops("--mixed-precision-ops", self.ops)
        for name in self.ops:
            self.before[name] = OPS.get(name).attrs.get(RULE)
            OPS.get(name).attrs[RULE] = rule
        return self

    def __exit__(self, *exc) -> None:
        for name, rule in self.before.items():
            if rule is None:
                OPS.get(name).attrs.pop(RULE)
            else:
                OPS.get(name).attrs[RULE] = rule


def convert_to_mixed_precision(mod, ops=None, calculation_type="float16", acc_type=None):
    """Convert compute-intensive operators to a smaller float type; float32 changes nothing.

    By default the accumulation type is float16, or float32 if the calculation type is bfloat16."""
    from ... import relay

    mod = relay.transform.InferType()(mod)
    if calculation_type == "float32":
        return mod
    if calculation_type == "bfloat16":
        # Normalizations become a multiplication and an addition, which are computed before the result is rounded.
        mod = relay.transform.SimplifyInference()(mod)
    given = PassContext.current()
    config = {**given.config, "relay.ToMixedPrecision.keep_orig_output_dtype": True}
    if acc_type is None:
        acc_type = "float32" if calculation_type == "bfloat16" else "float16"
    with MixedPrecision(DEFAULT_MIXED_OPS if ops is None else ops, acc_type):
        with PassContext(given.opt_level, given.required_pass, given.disabled_pass, config=config):
            return relay.transform.ToMixedPrecision(calculation_type)(mod)


# Options that modify another option, and their defaults.
DETAILS = {
    "desired_layout_ops": ("desired_layout", DEFAULT_OPS),
    "mixed_precision_ops": ("mixed_precision", DEFAULT_MIXED_OPS),
    "mixed_precision_calculation_type": ("mixed_precision", "float16"),
    "mixed_precision_acc_type": ("mixed_precision", None),
}


def check_transform_args(args) -> None:
    """Raise an error for options that would have no effect."""
    for option, (needed, usual) in DETAILS.items():
        if getattr(args, option) != usual and not getattr(args, needed):
            raise TVMCException(f"--{option.replace('_', '-')} needs --{needed.replace('_', '-')}")


def apply_graph_transforms(mod, args):
    """Apply all transforms that the arguments request."""
    if not args:
        return mod
    if args.get("desired_layout"):
        mod = convert_graph_layout(mod, args["desired_layout"], args.get("desired_layout_ops"))
    if args.get("mixed_precision"):
        mod = convert_to_mixed_precision(
            mod,
            args.get("mixed_precision_ops"),
            args.get("mixed_precision_calculation_type") or "float16",
            args.get("mixed_precision_acc_type"),
        )
    return mod


TRANSFORM_ARGS = (
    "desired_layout",
    "desired_layout_ops",
    "mixed_precision",
    "mixed_precision_ops",
    "mixed_precision_calculation_type",
    "mixed_precision_acc_type",
)


def parse_graph_transform_args(args) -> dict:
    """Return the transform options among all arguments."""
    values = vars(args) if not isinstance(args, dict) else args
    return {k: values.get(k) for k in TRANSFORM_ARGS}


def generate_transform_args(parser) -> None:
    parser.add_argument(
        "--desired-layout",
        nargs="+",
        default=None,
        metavar="LAYOUT",
        help="data layout of convolutions: NCHW, or NHWC:HWIO with the kernel's; one, or one per operator",
    )
    parser.add_argument("--mixed-precision", action="store_true", help="use a smaller float type where it is safe")
    group = detail_group(parser, "layouts and mixed precision")
    group.add_argument("--desired-layout-ops", nargs="+", default=DEFAULT_OPS, metavar="OP", help="operators to change")
    group.add_argument(
        "--mixed-precision-ops",
        nargs="+",
        default=DEFAULT_MIXED_OPS,
        metavar="OP",
        help="operators to compute in the smaller type",
    )
    group.add_argument(
        "--mixed-precision-calculation-type",
        choices=["float16", "bfloat16", "float32"],
        default="float16",
        help="element type of the computation",
    )
    group.add_argument(
        "--mixed-precision-acc-type",
        choices=["float16", "bfloat16", "float32"],
        default=None,
        help="element type of accumulation (default: float16, or float32 for bfloat16)",
    )
