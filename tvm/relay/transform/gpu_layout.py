"""Half-precision convolutions on GPUs with channels last: there the image lies along the sum of the product, and strips
of it come to the tensor cores in whole pieces of memory."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...target import Target
from ...topi.gpu import tensor_cores
from ..expr import Call, Function, RelayExpr
from ..infer import infer_function
from .convert_layout import Desired
from .function_pass import RelayFunctionPass, function_pass, is_call
from .layouts import Layouts

HALVES = ("float16", "bfloat16")


class Halves(Desired):
    """Channels last for convolutions of halves in the usual layout."""

    def __init__(self, target: Target):
        super().__init__({"nn.conv2d": ["NHWC", "default"]})
        self.target = target

    def __call__(self, node: Call) -> RelayExpr | None:
        if not is_call(node, "nn.conv2d"):
            return None
        dtypes = {a.checked_type_.dtype for a in node.args}
        if dtypes.isdisjoint(HALVES) or not tensor_cores.fits(dtypes, node.checked_type_.dtype, self.target):
            return None
        if node.attrs.data_layout != "NCHW" or node.attrs.kernel_layout != "OIHW":
            return None
        return super().__call__(node)


def GPULayout() -> RelayFunctionPass:
    """Convolutions of halves with channels last, where the target has tensor cores for them."""

    @function_pass(opt_level=3, name="GPULayout", required=["InferType"])
    def lay_out(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        target = Target.current(allow_none=True)
        if target is None or target.kind.name != "cuda":
            return func
        new = Layouts(Halves(target), fold=True).run(func)
        return func if new is func else infer_function(new, mod)

    return lay_out


__all__ = ["GPULayout"]
