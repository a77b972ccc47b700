"""Reshapes moved below what follows a product element by element.

``reshape(x . w) + y`` is ``reshape(x . w + reshape(y))``: a reshape between a product and the operators that its kernel
could do ends the kernel's group. Put off until an operator needs the shape, it is left as another view of the result.
The other operands take the shape of the product instead, where they have or repeat whole groups of the dimensions that
the reshape joins or divides.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from ..infer import dims
from ..op import transform
from ..op.record import BROADCAST, OUT_ELEMWISE_FUSABLE, pattern_of
from .function_pass import RelayFunctionPass, function_pass, replacement, type_of, use_counts
from .fuse_ops import is_reshape, own_nodes

Shape = tuple[int, ...]

# Attributes that speak of dimensions: their operators are not the same in another shape.
OF_DIMENSIONS = {"axis", "axes", "shape", "reps", "repeats", "depth"}
# Operators above an operand that are given the shape of the product, one above the other.
DEEPEST = 8


class Late(NamedTuple):
    """A reshape that was put off: what it is of, and the shape it gives."""

    source: RelayExpr
    shape: Shape


def shape_of(e: RelayExpr) -> Shape | None:
    """The shape of a tensor with elements, if all of it is known."""
    t = e.checked_type_
    if not isinstance(t, TensorType):
        return None
    shape = tuple(dims(t))
    return shape if all(isinstance(d, int) and d > 0 for d in shape) else None


def groups_of(shape: Shape, other: Shape) -> list[tuple[Shape, Shape]]:
    """Two shapes of the same elements, cut into the shortest groups of dimensions that have the same elements; a
    dimension of one belongs to the group before it, or to the first."""
    groups: list[tuple[Shape, Shape]] = []
    i = j = 0
    while i < len(shape) or j < len(other):
        begin, left, right = (i, j), 1, 1
        while (i, j) == begin or left != right:
            if j == len(other) or i < len(shape) and left <= right:
                left, i = left * shape[i], i + 1
            else:
                right, j = right * other[j], j + 1
        while i < len(shape) and shape[i] == 1:
            i += 1
        while j < len(other) and other[j] == 1:
            j += 1
        groups.append((shape[begin[0] : i], other[begin[1] : j]))
    return groups


def moved_shape(shape: Shape, out: Shape, flat: Shape) -> Shape | None:
    """The shape in which an operand of ``shape`` takes part in an operation on ``flat`` as it does in one on ``out``;
    None if it repeats a part of a group of dimensions only."""
    if len(shape) > len(out):
        return None
    rest = (1,) * (len(out) - len(shape)) + shape
    moved: list[int] = []
    for own, new in groups_of(out, flat):
        here, rest = rest[: len(own)], rest[len(own) :]
        if all(d == 1 for d in here):
            moved += [1] * len(new)
        elif here == own:
            moved += new
        else:
            return None
    return without_ones(tuple(moved))


def without_ones(shape: Shape) -> Shape:
    """A shape without the dimensions of one at its beginning."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def is_free(e: RelayExpr) -> bool:
    """Whether an operator works element by element in any shape."""
    if not isinstance(e, Call) or not isinstance(e.op, Op) or is_reshape(e) or pattern_of(e.op) > BROADCAST:
        return False
    return e.attrs is None or OF_DIMENSIONS.isdisjoint(e.attrs.entries)


class Sinking:
    """Rewrites one function. An expression of the old one has its new value in ``made``, or in ``late`` while its
    reshape is put off; ``following`` are those that follow a product element by element."""

    def __init__(self, func: Function, mod: IRModule | None):
        self.mod = mod
        self.counts = use_counts(func)
        self.made: dict[int, RelayExpr] = {}
        self.late: dict[int, Late] = {}
        self.following: set[int] = set()
        self.views: dict[tuple[int, Shape], RelayExpr] = {}

    def run(self, func: Function) -> Function:
        for node in own_nodes(func.body):
            replacement(self.node, node)
        return func.replace(body=self.value(func.body))

    def node(self, node: RelayExpr) -> None:
        if isinstance(node, Function):
            self.made[id(node)] = node
        elif not (self.put_off(node) if is_reshape(node) else self.sink(node)):
            new = node.map_children(lambda c: c if isinstance(c, Op) else self.value(c))
            if new is not node and new.checked_type_ is None:
                new.checked_type_ = node.checked_type_
            self.made[id(node)] = new

    def value(self, old: RelayExpr) -> RelayExpr:
        """The new value of an old expression, in its shape."""
        got = self.made.get(id(old))
        if got is None:
            got = self.made[id(old)] = self.view(*self.late[id(old)])
        return got

    def view(self, new: RelayExpr, shape: Shape) -> RelayExpr:
        """A new value in another shape."""
        if shape_of(new) == shape:
            return new
        key = (id(new), shape)
        if key not in self.views:
            self.views[key] = self.typed(transform.reshape(new, shape, True))
        return self.views[key]

    def typed(self, new: RelayExpr) -> RelayExpr:
        type_of(new, self.mod)
        return new

    def put_off(self, node: Call) -> bool:
        """Put off a reshape of what follows a product."""
        source, shape = node.args[0], shape_of(node)
        if id(source) not in self.following or shape is None:
            return False
        late = self.late.get(id(source)) or Late(self.made[id(source)], shape)
        self.following.add(id(node))
        if shape_of(late.source) == shape:
            self.made[id(node)] = late.source
        else:
            self.late[id(node)] = Late(late.source, shape)
        return True

    def sink(self, node: RelayExpr) -> bool:
        """Do an operator before the reshape of one of its operands."""
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return False
        out = shape_of(node)
        if out is None or not is_free(node):
            if out is not None and pattern_of(node.op) == OUT_ELEMWISE_FUSABLE:
                self.following.add(id(node))
            return False
        leading = [a for a in node.args if id(a) in self.following and shape_of(a) == out]
        if not leading:
            return False
        self.following.add(id(node))
        late = next((self.late[id(a)] for a in leading if id(a) in self.late), None)
        if late is None or any(id(a) not in self.late and self.counts[id(a)] == 1 for a in leading):
            # Nothing is reshaped, or the operator is done by the kernel of a product that has its shape.
            return False
        flat = shape_of(late.source)
        new = None if flat is None else self.moved_call(node, out, flat, 0)
        if new is not None:
            self.late[id(node)] = Late(new, out)
        return new is not None

    def moved_call(self, node: Call, out: Shape, flat: Shape, depth: int) -> RelayExpr | None:
        """A call whose result has the shape ``out``, with the elements in the shape ``flat``."""
        args: list[RelayExpr] = []
        for arg in node.args:
            new = self.moved(arg, out, flat, depth)
            if new is None:
                return None
            args.append(new)
        return self.typed(Call(node.op, tuple(args), node.attrs, (), node.span))

    def moved(self, arg: RelayExpr, out: Shape, flat: Shape, depth: int) -> RelayExpr | None:
        """An operand as it takes part in the operation on ``flat``."""
        shape = shape_of(arg)
        if shape is None:
            return None
        if shape == out:
            late = self.late.get(id(arg))
            if late is not None:
                return self.view(late.source, flat)
            if isinstance(arg, Call) and is_free(arg) and self.counts.get(id(arg), 1) == 1 and depth < DEEPEST:
                # Otherwise its kernel would end at the reshape: nothing else asks for the shape it has.
                new = self.moved_call(arg, out, flat, depth + 1)
                if new is not None:
                    return new
            wanted = flat
        else:
            wanted = moved_shape(shape, out, flat)
            if wanted is None:
                return None
            if wanted == without_ones(shape) and len(shape) <= len(flat):
                return self.value(arg)
        while is_reshape(arg) and id(arg) not in self.late:
            arg = arg.args[0]
        late = self.late.get(id(arg))
        return self.view(self.value(arg) if late is None else late.source, wanted)


def SinkReshape() -> RelayFunctionPass:
    """Put reshapes of products off until after the operators that the products' kernels can do."""

    @function_pass(opt_level=1, name="SinkReshape", required=["InferType"])
    def sink(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Sinking(func, mod).run(func)

    return sink


__all__ = ["SinkReshape", "groups_of", "moved_shape"]
