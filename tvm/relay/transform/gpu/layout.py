"""Convert half-precision convolutions to NHWC.

In NHWC the image is contiguous along the K dimension of the implicit GEMM, and its tiles are copied to shared memory in
whole vectors."""

from __future__ import annotations

from ....ir.module import IRModule
from ....ir.transform import PassContext
from ....target import Target
from ....topi.gpu import tensor_cores
from ...expr import Call, Function, RelayExpr
from ...infer import infer_function
from ..convert_layout import Desired
from ..function_pass import RelayFunctionPass, function_pass, is_call
from ..layouts import Layouts

HALF_PRECISION = ("float16", "bfloat16")


class HalfPrecisionNHWC(Desired):
    """Converts float16 and bfloat16 convolutions from NCHW to NHWC."""

    def __init__(self, target: Target):
        super().__init__({"nn.conv2d": ["NHWC", "default"]})
        self.target = target

    def __call__(self, node: Call) -> RelayExpr | None:
        if not is_call(node, "nn.conv2d"):
            return None
        dtypes = {a.checked_type_.dtype for a in node.args}
        if dtypes.isdisjoint(HALF_PRECISION) or not tensor_cores.fits(dtypes, node.checked_type_.dtype, self.target):
            return None
        if node.attrs.data_layout != "NCHW" or node.attrs.kernel_layout != "OIHW":
            return None
        return super().__call__(node)


def GPULayout(target: Target) -> RelayFunctionPass:
    """Convert float16 and bfloat16 convolutions to NHWC if the target has tensor cores for them."""

    @function_pass(opt_level=3, name="GPULayout", required=["InferType"])
    def lay_out(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        new = Layouts(HalfPrecisionNHWC(target), fold=True).run(func)
        return func if new is func else infer_function(new, mod)

    return lay_out


__all__ = ["GPULayout"]
