"""An annotator for the code generator ``ccompiler`` of published tests."""

from __future__ import annotations

from ..expr import Call, RelayExpr, Var
from ..expr_functor import ExprMutator
from ..op import add, multiply, subtract
from ..op.annotation import compiler_begin, compiler_end

_NAME = "ccompiler"
_BUILD = {"multiply": multiply, "subtract": subtract}


class CcompilerAnnotator(ExprMutator):
    """Mark chains of add, subtract and multiply as regions of the code generator ``ccompiler``.

    A region starts at the operands of an add, and at variables that a subtract or multiply reads. It ends at a multiply
    whose operands contain such a chain.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_region = False
        self._has_add = False

    def visit_call(self, call: Call) -> RelayExpr:
        name = getattr(call.op, "name", "")
        if name == "multiply":
            self._in_region, self._has_add = True, False
            made = self._inner(call)
            self._in_region = False
            return compiler_end(made, _NAME) if self._has_add else made
        if self._in_region and name == "subtract":
            return self._inner(call)
        if self._in_region and name == "add":
            made = add(*(compiler_begin(self.visit(arg), _NAME) for arg in call.args))
            self._has_add = True
            return made
        return super().visit_call(call)

    def _inner(self, call: Call) -> RelayExpr:
        args = [self.visit(arg) for arg in call.args]
        return _BUILD[call.op.name](*(compiler_begin(a, _NAME) if isinstance(a, Var) else a for a in args))


__all__ = ["CcompilerAnnotator"]
