"""Move reshapes below the epilogue of a matmul or convolution.

``reshape(x . w) + y`` becomes ``reshape(x . w + reshape(y))``. A reshape between an anchor and its element-wise
consumers would end the fused function of the anchor. The reshape is deferred until an operator needs the shape, and is
then a view of the result. The other operands are reshaped to the shape of the anchor. This requires that each operand
spans or broadcasts complete groups of the dimensions that the reshape merges or splits.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ..checked_type import with_type_of
from ..expr import Call, Function, RelayExpr
from ..infer import dims
from ..op import transform
from ..op.record import BROADCAST, OUT_ELEMWISE_FUSABLE, pattern_of
from .function_pass import RelayFunctionPass, function_pass, replacement, type_of, use_counts
from .fuse_ops import is_reshape, own_nodes

Shape = tuple[int, ...]

# Attributes that refer to dimensions. Operators with one of them depend on the shape.
DIMENSION_ATTRIBUTES = {"axis", "axes", "shape", "reps", "repeats", "depth"}
# The maximum depth of operators above an operand that are computed in the shape of the anchor.
MAX_DEPTH = 8


class DeferredReshape(NamedTuple):
    """A deferred reshape: its input and the shape of its output."""

    source: RelayExpr
    shape: Shape


def shape_of(e: RelayExpr) -> Shape | None:
    """Return the shape of a non-empty tensor if it is static, else None."""
    t = e.checked_type_
    if not isinstance(t, TensorType):
        return None
    shape = tuple(dims(t))
    return shape if all(isinstance(d, int) and d > 0 for d in shape) else None


def groups_of(shape: Shape, other: Shape) -> list[tuple[Shape, Shape]]:
    """Split two shapes with equal numbers of elements into the smallest groups of dimensions with equal numbers of
    elements.

    A dimension of size 1 belongs to the preceding group, or to the first group.
    """
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
    """Return the shape with which an operand of ``shape`` broadcasts to ``flat`` as it does to ``out``.

    None if the operand broadcasts along only a part of a group of dimensions.
    """
    if len(shape) > len(out):
        return None
    rest = (1,) * (len(out) - len(shape)) + shape
    moved: list[int] = []
    for old, new in groups_of(out, flat):
        here, rest = rest[: len(old)], rest[len(old) :]
        if all(d == 1 for d in here):
            moved += [1] * len(new)
        elif here == old:
            moved += new
        else:
            return None
    return without_ones(tuple(moved))


def without_ones(shape: Shape) -> Shape:
    """Return a shape without its leading dimensions of size 1."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def is_shape_free(e: RelayExpr) -> bool:
    """Return whether an operator is element-wise and does not depend on the shape."""
    if not isinstance(e, Call) or not isinstance(e.op, Op) or is_reshape(e) or pattern_of(e.op) > BROADCAST:
        return False
    return e.attrs is None or DIMENSION_ATTRIBUTES.isdisjoint(e.attrs.entries)


class Sinking:
    """Rewrites one function.

    ``rewritten`` maps original expressions to new ones; ``deferred`` contains those whose reshape is deferred.
    ``epilogue`` contains the ids of anchors and of the element-wise operators that follow them.
    """

    def __init__(self, func: Function, mod: IRModule | None):
        self.mod = mod
        self.counts = use_counts(func)
        self.rewritten: dict[int, RelayExpr] = {}
        self.deferred: dict[int, DeferredReshape] = {}
        self.epilogue: set[int] = set()
        self.views: dict[tuple[int, Shape], RelayExpr] = {}

    def run(self, func: Function) -> Function:
        for node in own_nodes(func.body):
            replacement(self.node, node)
        return func.replace(body=self.value(func.body))

    def node(self, node: RelayExpr) -> None:
        if isinstance(node, Function):
            self.rewritten[id(node)] = node
        elif not (self.defer(node) if is_reshape(node) else self.sink(node)):
            new = node.map_children(lambda c: c if isinstance(c, Op) else self.value(c))
            self.rewritten[id(node)] = with_type_of(new, node)

    def value(self, old: RelayExpr) -> RelayExpr:
        """Return the new expression for an original one, in its original shape."""
        new = self.rewritten.get(id(old))
        if new is None:
            new = self.rewritten[id(old)] = self.view(*self.deferred[id(old)])
        return new

    def view(self, new: RelayExpr, shape: Shape) -> RelayExpr:
        """Return a new expression reshaped to another shape."""
        if shape_of(new) == shape:
            return new
        key = (id(new), shape)
        if key not in self.views:
            self.views[key] = self.typed(transform.reshape(new, shape, True))
        return self.views[key]

    def typed(self, new: RelayExpr) -> RelayExpr:
        type_of(new, self.mod)
        return new

    def defer(self, node: Call) -> bool:
        """Defer a reshape of an anchor or of its epilogue."""
        source, shape = node.args[0], shape_of(node)
        if id(source) not in self.epilogue or shape is None:
            return False
        deferred = self.deferred.get(id(source)) or DeferredReshape(self.rewritten[id(source)], shape)
        self.epilogue.add(id(node))
        if shape_of(deferred.source) == shape:
            self.rewritten[id(node)] = deferred.source
        else:
            self.deferred[id(node)] = DeferredReshape(deferred.source, shape)
        return True

    def sink(self, node: RelayExpr) -> bool:
        """Compute an operator before the deferred reshape of one of its operands."""
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return False
        out = shape_of(node)
        if out is None or not is_shape_free(node):
            if out is not None and pattern_of(node.op) == OUT_ELEMWISE_FUSABLE:
                self.epilogue.add(id(node))
            return False
        leading = [a for a in node.args if id(a) in self.epilogue and shape_of(a) == out]
        if not leading:
            return False
        self.epilogue.add(id(node))
        deferred = next((self.deferred[id(a)] for a in leading if id(a) in self.deferred), None)
        if deferred is None or any(id(a) not in self.deferred and self.counts[id(a)] == 1 for a in leading):
            # No operand has a deferred reshape, or the operator is the epilogue of an anchor with its shape.
            return False
        flat = shape_of(deferred.source)
        new = None if flat is None else self.moved_call(node, out, flat, 0)
        if new is not None:
            self.deferred[id(node)] = DeferredReshape(new, out)
        return new is not None

    def moved_call(self, node: Call, out: Shape, flat: Shape, depth: int) -> RelayExpr | None:
        """Return a call with output shape ``out``, computed in the shape ``flat``; None if an operand cannot be
        reshaped."""
        args: list[RelayExpr] = []
        for arg in node.args:
            new = self.moved(arg, out, flat, depth)
            if new is None:
                return None
            args.append(new)
        return self.typed(Call(node.op, tuple(args), node.attrs, (), node.span))

    def moved(self, arg: RelayExpr, out: Shape, flat: Shape, depth: int) -> RelayExpr | None:
        """Return an operand of a call, reshaped for the computation in the shape ``flat``; None if this is not
        possible."""
        shape = shape_of(arg)
        if shape is None:
            return None
        if shape == out:
            deferred = self.deferred.get(id(arg))
            if deferred is not None:
                return self.view(deferred.source, flat)
            if isinstance(arg, Call) and is_shape_free(arg) and self.counts.get(id(arg), 1) == 1 and depth < MAX_DEPTH:
                # Computed in the shape of the anchor too, so that its kernel does not end at the reshape; it has no
                # other user.
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
        while is_reshape(arg) and id(arg) not in self.deferred:
            arg = arg.args[0]
        deferred = self.deferred.get(id(arg))
        return self.view(self.value(arg) if deferred is None else deferred.source, wanted)


def SinkReshape() -> RelayFunctionPass:
    """Defer reshapes of matmuls and convolutions until after their epilogues."""

    @function_pass(opt_level=1, name="SinkReshape", required=["InferType"])
    def sink(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Sinking(func, mod).run(func)

    return sink


__all__ = ["SinkReshape", "groups_of", "moved_shape"]
