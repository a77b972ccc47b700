"""Changes of a graph before it is compiled: layouts and mixed precision."""

from __future__ import annotations

from ...ir.transform import PassContext, Sequential
from .errors import TVMCException

DEFAULT_OPS = ["nn.conv2d", "nn.conv2d_transpose", "qnn.conv2d"]


def convert_graph_layout(mod, desired_layouts, ops=None):
    """The graph with its convolutions in other layouts: ``["NHWC"]`` or one such as ``NHWC:HWIO`` for each operator."""
    from ... import relay

    ops = list(ops) if ops is not None else DEFAULT_OPS
    layouts = [desired_layouts] if isinstance(desired_layouts, str) else list(desired_layouts)
    if len(layouts) not in (1, len(ops)):
        raise TVMCException(f"Expected 1 or {len(ops)} layouts but got {len(layouts)}")
    if len(layouts) == 1:
        layouts = layouts * len(ops)
    table = {o: [*layout.split(":"), "default"][:2] for o, layout in zip(ops, layouts)}
    convert = getattr(relay.transform, "ConvertLayout", None)
    if convert is None:
        raise TVMCException("changing layouts is not supported yet; leave --desired-layout out")
    return Sequential([convert(table), relay.transform.FoldConstant()])(mod)


def convert_to_mixed_precision(mod, ops=None, calculation_type="float16", acc_type="float16"):
    """The graph with its heavy operators in a smaller float type."""
    from ... import relay

    make = getattr(relay.transform, "ToMixedPrecision", None)
    if make is None:
        raise TVMCException("mixed precision is not supported yet; leave --mixed-precision out")
    with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        return make(calculation_type)(relay.transform.InferType()(mod))


def apply_graph_transforms(mod, args):
    """All transforms the arguments ask for."""
    if not args:
        return mod
    if args.get("desired_layout"):
        mod = convert_graph_layout(mod, args["desired_layout"], args.get("desired_layout_ops"))
    if args.get("mixed_precision"):
        mod = convert_to_mixed_precision(mod, args.get("mixed_precision_ops"),
                                         args.get("mixed_precision_calculation_type") or "float16",
                                         args.get("mixed_precision_acc_type") or "float16")
    return mod


TRANSFORM_ARGS = ("desired_layout", "desired_layout_ops", "mixed_precision", "mixed_precision_ops",
                  "mixed_precision_calculation_type", "mixed_precision_acc_type")


def parse_graph_transform_args(args) -> dict:
    """The transform options out of all arguments."""
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
    parser.add_argument(
        "--desired-layout-ops", nargs="+", default=DEFAULT_OPS, metavar="OP", help="operators to change"
    )
    parser.add_argument("--mixed-precision", action="store_true", help="use a smaller float type where it is safe")
    parser.add_argument("--mixed-precision-ops", nargs="+", default=["nn.conv2d", "nn.dense"], metavar="OP",
                        help="operators to compute in the smaller type")
    parser.add_argument("--mixed-precision-calculation-type", choices=["float16", "float32"], default="float16",
                        help="element type of the computation")
    parser.add_argument("--mixed-precision-acc-type", choices=["float16", "float32"], default="float16",
                        help="element type of accumulation")
