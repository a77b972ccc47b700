"""Replace training operators by the simpler operators that are equivalent in inference."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...target import Target
from ..expr import Call, Function
from .expand_ops import expand_function, typed
from .function_pass import RelayFunctionPass, function_pass, target_of_pass

NAMES = frozenset({"nn.batch_norm", "nn.dropout", "nn.instance_norm", "nn.layer_norm", "nn.group_norm"})


def SimplifyInference(target: Target | None = None) -> RelayFunctionPass:
    """Expand normalizations and dropout for inference.

    Operators with a separate kernel on the target stay unchanged (``stays_whole(attrs, types, target)`` in their
    records).

    Parameters
    ----------
    target : Target, optional
        The target; None selects the current target.

    Returns
    -------
    RelayFunctionPass
    """

    @function_pass(opt_level=0, name="SimplifyInference", required=["InferType"])
    def simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        device = target_of_pass(target)

        def is_expanded(node: Call) -> bool:
            stays = node.op.attrs.get("stays_whole")
            if node.op.name not in NAMES or stays is None or device is None:
                return node.op.name in NAMES
            return not stays(node.attrs, [typed(a).checked_type_ for a in node.args], device)

        return expand_function(func, is_expanded, mod)

    return simplify
