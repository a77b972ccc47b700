"""``ChangeDatatype``: a pass that replaces one element type of a model by another."""

from __future__ import annotations

from typing import Any

from ...dtype import canonical, info
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType, Type
from ..expr import Call, Function, Var, const
from ..expr_functor import ExprMutator
from ..transform import function_pass


@function_pass(opt_level=0)
class ChangeDatatype(ExprMutator):
    """A pass that replaces an element type in variables, constants and the type attributes of operators.

    The caller converts the parameters.

    Parameters
    ----------
    src : str
        The type that is replaced.
    dst : str
        The type that takes its place.
    """

    def __init__(self, src: str, dst: str):
        super().__init__()
        self.src, self.dst = canonical(src), canonical(dst)

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Function:
        return self.visit(func)

    def _changed(self, kind: Type | None) -> Type | None:
        if isinstance(kind, TensorType) and kind.dtype == self.src:
            return TensorType(kind.shape, self.dst)
        if isinstance(kind, TupleType):
            return TupleType([self._changed(field) for field in kind.fields])
        return kind

    def visit_var(self, var):
        return Var(var.name_hint, self._changed(var.type_annotation), var.span)

    def visit_constant(self, const_):
        if const_.data.dtype != self.src:
            return const_
        # Constants of a custom type are converted by the program at run time.
        return const_.astype(self.dst) if info(self.dst).is_custom else const(const_.data.numpy(), self.dst)

    def visit_call(self, call):
        new = super().visit_call(call)
        named = {name: self.dst for name in ("dtype", "out_dtype") if call.attrs and call.attrs.get(name) == self.src}
        if not named:
            return new
        return Call(new.op, new.args, type(call.attrs)({**call.attrs, **named}), new.type_args, new.span)

    def visit_function(self, fn):
        params = [self.visit(p) for p in fn.params]
        return Function(params, self.visit(fn.body), self._changed(fn.ret_type), fn.type_params, fn.attrs, fn.span)


__all__ = ["ChangeDatatype"]
