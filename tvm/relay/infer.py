"""Type inference: sets ``checked_type`` of every expression; types of unannotated variables are inferred from their
use."""

from __future__ import annotations

from typing import Any

from ..error import DiagnosticError, TVMError
from ..hooks import Hook
from ..ir.adt import Constructor
from ..ir.module import GlobalVar, IRModule
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim import Any_, IntImm, PrimExpr, SizeVar, convert
from ..ir.prim import Var as PrimVar
from ..ir.structural import structural_equal
from ..ir.subst import substitute
from ..ir.tensor_type import TensorType
from ..ir.type import FuncType, GlobalTypeVar, IncompleteType, RelayRefType, TupleType, Type, TypeCall
from ..ir.visit import post_order
from ..topi.assumptions import agree, of_operator
from ..topi.utils import simplify
from .adt import Clause, pattern_variables, renamed_pattern
from .checked_type import with_type
from .expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem, Var
from .size_values import with_slice_sizes
from .sizes import check_shape, check_sizes


def dims(t: Type) -> tuple:
    """Return the shape of a tensor type: Python ints for static dimensions, expressions for symbolic ones."""
    if not isinstance(t, TensorType):
        raise TypeError(f"expected a tensor, got {t}")
    return tuple([d.value if isinstance(d, IntImm) else d for d in t.shape])


def same_dim(a: Any, b: Any) -> bool:
    """Return whether two dimensions may be equal; anonymous dynamic dimensions match any size."""
    if isinstance(a, IntImm):
        a = a.value
    if isinstance(b, IntImm):
        b = b.value
    if isinstance(a, Any_) or isinstance(b, Any_):
        return True
    if isinstance(a, PrimExpr) and isinstance(b, PrimExpr):
        return a is b or not (isinstance(a, PrimVar) and isinstance(b, PrimVar)) and agree(a, b, "sizes of a value")
    return agree(a, b, "the size of a value")


def applied(t: Type) -> Type:
    """Convert the name of a data type without type parameters to the type."""
    return TypeCall(t, ()) if type(t) is GlobalTypeVar else t


def unify(a: Type, b: Type) -> Type | None:
    """Return the type that merges the information of both types; None if they differ."""
    a, b = applied(a), applied(b)
    if isinstance(a, IncompleteType):
        return b
    if isinstance(b, IncompleteType) or a is b or a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            return None
        if not all(same_dim(x, y) for x, y in zip(a.shape, b.shape)):
            return None
        return TensorType([y if isinstance(x, Any_) else x for x, y in zip(a.shape, b.shape)], a.dtype)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        parts = [unify(x, y) for x, y in zip(a.fields, b.fields)]
        return None if any(p is None for p in parts) else TupleType(tuple(parts))
    if isinstance(a, RelayRefType) and isinstance(b, RelayRefType):
        # A later write may store a tensor of another shape.
        held = unify(*generalized(a.value, b.value))
        return None if held is None else RelayRefType(held)
    if isinstance(a, FuncType) and isinstance(b, FuncType) and bool(a.type_params) != bool(b.type_params):
        from .infer_adt import specialize

        return specialize(a, b) if a.type_params else specialize(b, a)
    if isinstance(a, FuncType) and isinstance(b, FuncType) and len(a.arg_types) == len(b.arg_types):
        parts = [unify(x, y) for x, y in zip(a.arg_types, b.arg_types)]
        result = unify(a.ret_type, b.ret_type)
        return None if result is None or any(p is None for p in parts) else FuncType(tuple(parts), result)
    if isinstance(a, TypeCall) and isinstance(b, TypeCall) and a.func is b.func and len(a.args) == len(b.args):
        parts = [unify(x, y) for x, y in zip(a.args, b.args)]
        return None if any(p is None for p in parts) else TypeCall(a.func, tuple(parts))
    return None


class Inference:
    """Infers the types of the functions of a module. ``typed``: whether the functions of the module already have
    correct types."""

    def __init__(self, mod: IRModule | None = None, typed: bool = False):
        self.mod = mod
        self.typed = typed
        # Types are reused unless the module has several functions: a call's type may change with the called global
        # function.
        self.reuse = mod is None or sum(isinstance(f, Function) for f in mod.functions.values()) <= 1
        self.held: list[Node] = []
        # The match that contains each clause.
        self.within: dict[int, Any] = {}
        self.types: dict[int, Type] = {}
        self.keep: list[Node] = []
        self.values: dict[Var, RelayExpr] = {}
        self.variables: dict[Var, Type] = {}
        self.active: set[GlobalVar] = set()
        # The call that determines the parameter types of each function without annotations.
        self.calls: dict[int, Call] = {}
        # By expression class: the type rule, and the action before the operands are visited.
        rules, self.enter_rules = ADT_RULES()
        self.rules = {**_RULES, **rules}

    def infer(self, root: RelayExpr) -> Type:
        stack: list[tuple[Any, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            key = id(node)
            if key in self.types and not isinstance(self.types[key], IncompleteType):
                continue
            if not ready:
                known = getattr(node, "checked_type_", None) if self.reuse else None
                if known is not None and type(node) is not Var and not _incomplete(known) and not _is_unannotated(node):
                    # Nodes are immutable, so an inferred type stays valid.
                    self.types[key] = known
                    self.held.append(node)
                    continue
                stack.append((node, True))
                self._enter(node)
                for child in reversed(self._children(node)):
                    if id(child) not in self.types:
                        stack.append((child, False))
                continue
            rule = self.rules.get(type(node))
            if rule is None:
                raise DiagnosticError(f"type inference does not support {type(node).__name__}")
            self.types[key] = rule(self, node)
            self.keep.append(node)
        return self.types[id(root)]

    def _children(self, node) -> list:
        """Return the operands in the order of inference: arguments before a function whose parameter types they
        determine."""
        if isinstance(node, (Op, Constructor, GlobalVar, Var, Constant)):
            return []
        if type(node) is Let and _has_untyped_params(node.value):
            return [node.body, node.value]
        if type(node) is Call and not isinstance(node.op, Op):
            callee = self._value(node.op)
            if _has_untyped_params(callee) and id(callee) not in self.types:
                self.calls[id(callee)] = node
                late = [a for a in node.args if _has_untyped_params(self._value(a))]
                early = [a for a in node.args if not _has_untyped_params(self._value(a))]
                return [*early, callee, node.op, *late]
            if not isinstance(callee, Function) or callee.type_params:
                # The other arguments determine the parameter types of such a function.
                return [node.op, *[a for a in node.args if not _has_untyped_params(a)]]
        return node.children()

    def _value(self, e: RelayExpr) -> RelayExpr:
        """Return the value that a variable is bound to; other expressions are returned unchanged."""
        while isinstance(e, Var) and e in self.values:
            e = self.values[e]
        return e

    def _enter(self, node) -> None:
        if type(node) is Let:
            self.values[node.var] = node.value
            if isinstance(node.value, Function) and node.var.type_annotation is None:
                # A local function may be recursive, in which case its annotations determine its type.
                params = [p.type_annotation for p in node.value.params]
                if all(p is not None for p in params) and node.value.ret_type is not None:
                    self.variables[node.var] = FuncType(tuple(params), node.value.ret_type, node.value.type_params)
        elif type(node) is Function:
            use = self.calls.get(id(node))
            for i, p in enumerate(node.params):
                if p.type_annotation is not None:
                    self.variables[p] = p.type_annotation
                elif use is not None and i < len(use.args):
                    if _has_untyped_params(self._value(use.args[i])):
                        # The function is typed at its own calls.
                        self.values[p] = use.args[i]
                    else:
                        self.variables[p] = self.type_of(use.args[i])
        elif type(node) in self.enter_rules:
            self.enter_rules[type(node)](self, node)

    def type_of(self, node: RelayExpr) -> Type:
        if isinstance(node, Var):
            return self.variable(node)
        return self.types[id(node)]

    def variable(self, node: Var) -> Type:
        known = self.variables.get(node)
        if known is None:
            known = node.type_annotation if node.type_annotation is not None or not self.reuse else node.checked_type_
            value = self.values.get(node)
            if value is not None:
                got = self.types.get(id(value))
                if got is None and known is None:
                    return IncompleteType()
                known = got if known is None else (unify(known, got) if got is not None else known)
            self.variables[node] = known = known if known is not None else IncompleteType()
        return known

    def learn(self, node: RelayExpr, found: Type) -> None:
        """Set the type of a variable from its use."""
        if isinstance(node, Var) and isinstance(self.variable(node), IncompleteType):
            self.variables[node] = found
            self.types[id(node)] = found
        elif isinstance(node, Tuple) and isinstance(found, TupleType):
            for f, t in zip(node.fields, found.fields):
                self.learn(f, t)
        elif isinstance(node, Call) and isinstance(self.types.get(id(node)), IncompleteType):
            self.types[id(node)] = found
            callee = self.variables.get(node.op) if isinstance(node.op, Var) else None
            if isinstance(callee, FuncType) and isinstance(callee.ret_type, IncompleteType):
                self.variables[node.op] = FuncType(callee.arg_types, found, callee.type_params)
            if isinstance(node.op, Op) and node.op.attrs.get("is_annotation"):
                self.learn(node.args[0], found)

    # -- rules -------------------------------------------------------------------------------------------------

    def constant(self, node: Constant) -> Type:
        return TensorType(node.data.shape, node.data.dtype)

    def tuple(self, node: Tuple) -> Type:
        return TupleType(tuple(self.type_of(f) for f in node.fields))

    def get_item(self, node: TupleGetItem) -> Type:
        t = self.type_of(node.tuple_value)
        if not isinstance(t, TupleType):
            raise DiagnosticError(f"cannot access field {node.index} of a value of type {t}; expected a tuple")
        if not 0 <= node.index < len(t.fields):
            raise DiagnosticError(f"field index {node.index} is out of range for a tuple with {len(t.fields)} fields")
        return t.fields[node.index]

    def let(self, node: Let) -> Type:
        return self.type_of(node.body)

    def condition(self, node: If) -> Type:
        self.learn(node.cond, TensorType((), "bool"))
        test = self.type_of(node.cond)
        if not isinstance(test, TensorType) or test.shape or test.dtype not in ("bool", "uint1"):
            raise DiagnosticError(f"the condition of an if must be a bool scalar, got {test}")
        a, b = self.type_of(node.true_branch), self.type_of(node.false_branch)
        both = unify(*generalized(a, b))
        if both is None:
            raise DiagnosticError(f"the branches of an if have different types: {a} and {b}")
        self.learn(node.true_branch, both)
        self.learn(node.false_branch, both)
        return generalized(both, b)[0]

    def function(self, node: Function) -> Type:
        body = self.type_of(node.body)
        if node.ret_type is not None:
            got = unify(node.ret_type, body)
            if got is None:
                raise DiagnosticError(f"the function is annotated to return {node.ret_type} but returns {body}")
            self.learn(node.body, got)
            body = got
        return FuncType(tuple(self.variable(p) for p in node.params), body, node.type_params)

    def global_var(self, node: GlobalVar) -> Type:
        if self.mod is None or node not in self.mod:
            raise DiagnosticError(f"function @{node.name_hint} is not in the module")
        function = self.mod[node]
        if not isinstance(function, Function):
            return getattr(function, "checked_type_", None) or FuncType((), TupleType(()))
        known = function.checked_type_ if self.typed else self.types.get(id(function))
        if known is not None:
            return known
        annotated = [p.type_annotation for p in function.params]
        if node in self.active:
            if any(p is None for p in annotated):
                raise DiagnosticError(f"@{node.name_hint} is recursive; annotate the types of its parameters")
            result = IncompleteType() if function.ret_type is None else function.ret_type
            return FuncType(tuple(annotated), result, function.type_params)
        self.active.add(node)
        try:
            return self.infer(function)
        finally:
            self.active.discard(node)

    def call(self, node: Call) -> Type:
        if isinstance(node.op, Op):
            return self.operator(node)
        callee = self.type_of(node.op)
        if isinstance(callee, FuncType) and callee.type_params:
            from .infer_adt import call_polymorphic

            return call_polymorphic(self, node, callee)
        args = [self.type_of(a) if id(a) in self.types or isinstance(a, Var) else self.infer(a) for a in node.args]
        if isinstance(callee, IncompleteType) and isinstance(node.op, Var):
            callee = FuncType(tuple(args), IncompleteType())
            self.learn(node.op, callee)
        if not isinstance(callee, FuncType):
            raise DiagnosticError(f"cannot call a value of type {callee}; expected a function")
        if len(callee.arg_types) != len(args):
            count = len(callee.arg_types)
            raise DiagnosticError(f"a function with {count} parameters is called with {len(args)} arguments")
        # The size variables of the parameters are bound to the dimensions of the arguments.
        table: dict[PrimVar, PrimExpr] = {}
        for want, have in zip(callee.arg_types, args):
            _match_sizes(want, have, table)
        for i, (want, have) in enumerate(zip(callee.arg_types, args)):
            want = _with_sizes(want, table)
            if isinstance(have, IncompleteType):
                self.learn(node.args[i], want)
            elif unify(want, have) is None:
                raise DiagnosticError(f"argument {i} of a call: expected {want}, got {have}")
        return _with_sizes(callee.ret_type, table)

    def operator(self, node: Call) -> Type:
        record = node.op
        rule = record.attrs.get("type_rule")
        if rule is None:
            raise DiagnosticError(f"operator {record.name} has no type rule")
        wanted = record.attrs.get("num_inputs", -1)
        if wanted >= 0 and wanted != len(node.args):
            raise DiagnosticError(f"operator {record.name} requires {wanted} inputs, got {len(node.args)}")
        types = [self.type_of(a) for a in node.args]
        try:
            check_sizes(record.name, node.attrs)
            if any(_incomplete(t) for t in types):
                types = self._complete(node, types)
            with of_operator(record.name):
                result = _settled(with_slice_sizes(node, rule(node.attrs, types), self._known_type))
                check_shape(result)
            return result
        except (TypeError, ValueError, LookupError, AttributeError, TVMError) as problem:
            if isinstance(problem, DiagnosticError):
                raise
            raise DiagnosticError(self._context(node, types, problem)) from problem

    def _known_type(self, node: RelayExpr) -> Type | None:
        """Return the type of an expression if it is known, from this inference or an earlier one."""
        return self.type_of(node) if id(node) in self.types or isinstance(node, Var) else node.checked_type_

    def _complete(self, node: Call, types: list[Type]) -> list[Type]:
        fill = node.op.attrs.get("infer_inputs")
        if fill is None:
            at = next(i for i, t in enumerate(types) if _incomplete(t))
            raise TypeError(f"the type of input {at} is unknown; annotate the variable")
        full = fill(node.attrs, types)
        for arg, t in zip(node.args, full):
            self.learn(arg, t)
        return [self.type_of(a) for a in node.args]

    def _context(self, node: Call, types: list[Type], problem: Exception) -> str:
        shown = ", ".join(str(t) for t in types)
        where = f" (node {node.span.name})" if getattr(node.span, "name", None) else ""
        return f"operator {node.op.name}{where}: {problem}\n  inputs: {shown}\n  attributes: {node.attrs}"

    def reference(self, node: RefCreate) -> Type:
        return RelayRefType(self.type_of(node.value))

    def read(self, node: RefRead) -> Type:
        t = self.type_of(node.ref)
        if not isinstance(t, RelayRefType):
            raise DiagnosticError(f"cannot read a value of type {t}; expected a reference")
        return t.value

    def write(self, node: RefWrite) -> Type:
        t = self.type_of(node.ref)
        if not isinstance(t, RelayRefType):
            raise DiagnosticError(f"cannot write to a value of type {t}; expected a reference")
        return TupleType(())


def _match_sizes(want: Type, have: Type, table: dict[PrimVar, PrimExpr]) -> None:
    """Bind the size variables in a parameter type to the dimensions of an argument of type ``have``."""
    if isinstance(want, TupleType) and isinstance(have, TupleType):
        for w, h in zip(want.fields, have.fields):
            _match_sizes(w, h, table)
    elif isinstance(want, TensorType) and isinstance(have, TensorType):
        for w, h in zip(want.shape, have.shape):
            if isinstance(w, SizeVar) and w is not h:
                table.setdefault(w, h)


def _with_sizes(t: Type, table: dict[PrimVar, PrimExpr]) -> Type:
    if not table:
        return t
    if isinstance(t, TupleType):
        return TupleType(tuple(_with_sizes(f, table) for f in t.fields))
    if isinstance(t, FuncType):
        arguments = tuple(_with_sizes(a, table) for a in t.arg_types)
        return FuncType(arguments, _with_sizes(t.ret_type, table), t.type_params)
    if not isinstance(t, TensorType):
        return t
    return _settled(TensorType([d if isinstance(d, IntImm) else substitute(d, table) for d in t.shape], t.dtype))


def generalized(a: Type, b: Type) -> tuple[Type, Type]:
    """Return two types in which dimensions that differ are anonymous."""
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        pairs = [generalized(x, y) for x, y in zip(a.fields, b.fields)]
        return TupleType(tuple(p[0] for p in pairs)), TupleType(tuple(p[1] for p in pairs))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall) and len(a.args) == len(b.args):
        pairs = [generalized(x, y) for x, y in zip(a.args, b.args)]
        return TypeCall(a.func, tuple(p[0] for p in pairs)), TypeCall(b.func, tuple(p[1] for p in pairs))
    if not (isinstance(a, TensorType) and isinstance(b, TensorType)) or len(a.shape) != len(b.shape):
        return a, b
    same = [x is y or structural_equal(x, y) for x, y in zip(a.shape, b.shape)]
    if all(same):
        return a, b
    first, second = (TensorType([d if s else Any_() for d, s in zip(t.shape, same)], t.dtype) for t in (a, b))
    return first, second


def _settled(t: Type) -> Type:
    """Return a type with simplified dimensions, so that equal dimensions have equal expressions."""
    if isinstance(t, TupleType):
        return TupleType(tuple(_settled(f) for f in t.fields))
    if not isinstance(t, TensorType) or all(d.__class__ in _PLAIN_SIZES for d in t.shape):
        return t
    shape = [d if d.__class__ in _PLAIN_SIZES else _settled_size(d) for d in t.shape]
    return t if all(a is b for a, b in zip(shape, t.shape)) else TensorType(shape, t.dtype)


def _settled_size(d: PrimExpr) -> PrimExpr:
    got = simplify(d)
    return convert(got.value) if isinstance(got, IntImm) else got


_PLAIN_SIZES = (IntImm, Any_, PrimVar, SizeVar)


def _incomplete(t: Type) -> bool:
    return isinstance(t, IncompleteType) or isinstance(t, TupleType) and any(_incomplete(f) for f in t.fields)


def _is_unannotated(e: Any) -> bool:
    """Return whether an expression lacks an annotation that inference adds."""
    return type(e) is Function and e.ret_type is None or type(e) is Let and e.var.type_annotation is None


def _all_written(function: Function) -> bool:
    """Return whether a function contains all annotations that inference adds."""
    return function.ret_type is not None or not any(_is_unannotated(n) for n in post_order(function.body))


def _has_untyped_params(e: Any) -> bool:
    """Return whether an expression is a function with parameters whose types must be inferred from its calls."""
    return type(e) is Function and any(p.type_annotation is None for p in e.params)


def _operator_type(self, node: Op) -> Type:
    return FuncType((), TupleType(()))


_RULES = {
    Constant: Inference.constant,
    Tuple: Inference.tuple,
    TupleGetItem: Inference.get_item,
    Let: Inference.let,
    If: Inference.condition,
    Function: Inference.function,
    GlobalVar: Inference.global_var,
    Var: Inference.variable,
    Call: Inference.call,
    Op: _operator_type,
    RefCreate: Inference.reference,
    RefRead: Inference.read,
    RefWrite: Inference.write,
}

ADT_RULES: Hook[[], tuple[dict[type, Any], dict[type, Any]]] = Hook(
    "relay.infer.ADT_RULES", "returns the type inference rules of ADTs and matches by class",
    lambda: ({}, {}),
)  # fmt: skip


def infer_function(function: Function, mod: IRModule | None = None, typed: bool = False) -> Function:
    """Return the function with all types inferred, and annotated parameters. ``typed``: whether the other functions of
    the module are typed."""
    work = Inference(mod, typed)
    work.reuse = work.reuse and _all_written(function)
    work.infer(function)
    return finish(work, function)


def finish(work: Inference, function: Function) -> Function:
    """Store the inferred types in every node, and annotate variables and return types."""
    for p in function.params:
        if p.type_annotation is None and _incomplete(work.variable(p)):
            raise DiagnosticError(f"the type of parameter %{p.name_hint} cannot be inferred from its use; annotate it")
    return _written_down(work, function)


def _written_down(work: Inference, root: Any) -> Any:
    for node in work.keep:
        if not isinstance(node, (Op, Constructor)):
            with_type(node, work.types[id(node)])
    for variable, t in work.variables.items():
        with_type(variable, t)
    table: dict[Var, Var] = {}
    for node in work.keep:
        for v in _defines(node):
            t = work.variables.get(v)
            if v.type_annotation is None and t is not None and not _incomplete(t):
                table[v] = new = with_type(Var(v.name_hint, t, v.span), t)
                new.virtual_device_ = v.virtual_device_
    if table or any(type(node) is Function and node.ret_type is None for node in work.keep):
        return _annotated(root, table)
    return root


def _defines(node: Any) -> Any:
    """Return the variables that a node defines."""
    if type(node) is Clause:
        return pattern_variables(node.lhs)
    return node.params if type(node) is Function else (node.var,) if type(node) is Let else ()


def _annotated(root: Any, table: dict[Var, Var]) -> Any:
    """Replace variables in a typed expression, and annotate the return types of functions."""
    memo: dict[int, tuple[Any, Any]] = {}

    def lookup(node):
        return memo[id(node)][1]

    def change(node, new):
        if type(node) is Var:
            return table.get(node, node)
        if type(node) is Function and isinstance(node.checked_type_, FuncType):
            result = node.checked_type_.ret_type if node.ret_type is None else node.ret_type
            params = tuple([table.get(p, p) for p in node.params])
            return new.replace(params=params if params != node.params else node.params, ret_type=result)
        if type(node) is Let and node.var in table:
            return new.replace(var=table[node.var])
        if type(node) is Clause and any(v in table for v in pattern_variables(node.lhs)):
            return new.replace(lhs=renamed_pattern(node.lhs, table))
        return new

    for node in post_order(root):
        new = change(node, node.map_children(lookup))
        if new is not node and isinstance(new, RelayExpr):
            with_type(new, node.checked_type_)
            new.virtual_device_ = node.virtual_device_
        memo[id(node)] = (node, new)
    return memo[id(root)][1]


def infer_module(mod: IRModule) -> IRModule:
    """Return the module with the types of all its Relay functions inferred."""
    new = mod.clone()
    work = Inference(mod)
    work.reuse = work.reuse and all(_all_written(f) for f in mod.functions.values() if isinstance(f, Function))
    for function in mod.functions.values():
        if isinstance(function, Function):
            work.infer(function)
    for var, function in mod.functions.items():
        if isinstance(function, Function):
            new.functions[var] = finish(work, function)
    return new


def infer_type(expr: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """Infer the ``checked_type`` of an expression, whose free variables must have types."""
    if isinstance(expr, Function):
        return infer_function(expr, mod)
    work = Inference(mod)
    work.infer(expr)
    return _written_down(work, expr)
