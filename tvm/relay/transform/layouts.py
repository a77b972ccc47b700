"""Propagate layouts through a graph: a pass chooses the layouts of some operators, and other operators follow.

``Held(value, old, new)`` is a tensor whose dimensions are named ``old`` (NCHW) in the original graph and which is
stored as ``new`` (NCHW16c). Each layout of a tensor is created once, when an operator first needs it. Data is therefore
rearranged only between an operator that cannot follow and one that can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.visit import rewrite
from ...runtime.ndarray import elements
from ...target.layout import layout as layout_of
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem
from ..infer import dims
from ..op import transform
from ..op.layout import LayoutChange, Vector, blocks, divides_alike, is_blocked, is_filled, letters, parts
from ..op.record import CallAttrs
from .function_pass import is_call, replacement
from .fuse_ops import own_nodes

Choose = Callable[[Call], "RelayExpr | None"]


class Held(NamedTuple):
    """A tensor in layout ``new``, whose dimensions are named ``old`` in the original graph."""

    value: RelayExpr
    old: str
    new: str


def _sizes(shape: tuple[int, ...], old: str, new: str) -> list[int]:
    """Return the shape of a tensor in the new layout."""
    size, block = dict(zip(letters(old), shape)), blocks(new)
    return [count or (-(-size[c] // block[c]) if c in block else size[c]) for c, count in parts(new)]


def _reshaped(e: RelayExpr, shape: tuple[int, ...], wanted: Sequence[int]) -> RelayExpr | None:
    """Reshape a tensor; None if a dynamic dimension would change its position."""
    kept = [k < len(shape) and d is shape[k] for k, d in enumerate(wanted)]
    if not all(isinstance(d, int) or same for d, same in zip(wanted, kept)):
        return None
    # In a reshape, 0 copies the size of the input dimension.
    return transform.reshape(e, [d if isinstance(d, int) else 0 for d in wanted])


def _order(shape: tuple[int, ...], old: str, new: str) -> list[str]:
    """Return the dimensions of the new layout with more than one element, in order."""
    return [c for (c, _), n in zip(parts(new), _sizes(shape, old, new)) if not _is_one(n)]


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _in_place(shape: tuple[int, ...], old: str, new: str) -> bool:
    """Return whether both layouts store the same elements at the same offsets."""
    block = blocks(new)
    apart = "".join(c + (f"{block[c]}{c.lower()}" if c in block else "") for c in old)
    return _order(shape, old, new) == _order(shape, old, apart) and not is_filled(TensorType(shape), old, new)


def rearranged(array: np.ndarray, old: str, new: str) -> np.ndarray:
    """Return an array in another layout; incomplete blocks are padded with zeros."""
    block = blocks(new)
    names: list[str] = []
    shape: list[int] = []
    fill = []
    for c, n in zip(letters(old), array.shape):
        size = block.get(c, 1)
        count = -(-n // size)
        fill.append((0, count * size - n))
        names.append(c)
        shape.append(count)
        if c in block:
            names.append(c.lower())
            shape.append(size)
    whole = np.pad(array, fill) if any(after for _, after in fill) else array
    return whole.reshape(shape).transpose([names.index(c) for c in letters(new)])


def _to(e: RelayExpr, shape: tuple[int, ...], old: str, new: str, fold: bool) -> RelayExpr:
    """Convert a tensor without blocks to the new layout."""
    if old == new:
        return e
    if not fold:
        return transform.layout_transform(e, old, new)
    if isinstance(e, Constant) and e.data.dtype != "bfloat16":
        return Constant(rearranged(elements(e.data), old, new))
    still = _reshaped(e, shape, _sizes(shape, old, new)) if _in_place(shape, old, new) else None
    return transform.layout_transform(e, old, new) if still is None else still


def _back(e: RelayExpr, shape: tuple[int, ...], old: str, new: str, fold: bool) -> RelayExpr:
    """Convert a tensor of the new layout back to the old layout, without the padding of its blocks."""
    if is_blocked(old):
        return transform.layout_transform(e, new, old)
    # Dynamic dimensions are not blocked, so their sizes do not change.
    block = blocks(new)
    whole = tuple(-(-n // block[c]) * block[c] if c in block else n for c, n in zip(letters(old), shape))
    held = tuple(_sizes(shape, old, new))
    still = _reshaped(e, held, whole) if fold and _in_place(whole, old, new) else None
    e = transform.layout_transform(e, new, old) if still is None else still
    axes = [i for i, (a, b) in enumerate(zip(whole, shape)) if a is not b and a != b]
    if not axes:
        return e
    return transform.strided_slice(e, [0] * len(axes), [shape[a] for a in axes], axes=axes)


class Layouts:
    """Propagates layouts through one function.

    ``choose(call)`` returns a call whose attributes contain its new layouts, on the inputs of the original call, or
    None for operators that follow. With ``fold``, constants are rearranged at compile time, and a layout change that
    moves no data becomes a reshape. Without it, every layout change is an explicit operator."""

    def __init__(self, choose: Choose, fold: bool = False):
        self.choose, self.fold = choose, fold
        self.plain: dict[int, RelayExpr] = {}
        self.held: dict[int, Held] = {}
        self.several: dict[int, tuple[RelayExpr, str, tuple[str | None, ...]]] = {}
        self.forms: dict[tuple[int, str, str], RelayExpr] = {}

    def run(self, func: Function) -> Function:
        for node in own_nodes(func.body):
            replacement(self.node, node)
        body = self.as_plain(func.body)
        return func if body is func.body else func.replace(body=body)

    def node(self, node: RelayExpr) -> None:
        if type(node) is Call and type(node.op) is Op:
            chosen = self.choose(node)
            if chosen is not None:
                self.surround(node, chosen)
                return
            if self.follow(node):
                return
        elif type(node) is TupleGetItem and id(node.tuple_value) in self.several:
            value, old, layouts = self.several[id(node.tuple_value)]
            layout = layouts[node.index]
            if layout is not None:
                self.held[id(node)] = Held(TupleGetItem(value, node.index), old, layout)
            else:
                self.plain[id(node)] = TupleGetItem(value, node.index)
            return
        elif type(node) is Tuple:
            # A tuple is only built for operators that do not follow its layouts.
            return
        self.plain[id(node)] = self.rebuilt(node)

    def rebuilt(self, node: RelayExpr) -> RelayExpr:
        if type(node) is Function:
            return node
        return node.map_children(lambda c: c if type(c) is Op else self.as_plain(c))

    # -- forms of a tensor ---------------------------------------------------------------------------------------

    def as_plain(self, e: RelayExpr) -> RelayExpr:
        got = self.plain.get(id(e))
        if got is None:
            got = self.plain[id(e)] = self._plain(e)
        return got

    def _plain(self, e: RelayExpr) -> RelayExpr:
        if type(e) is Tuple:
            return self.rebuilt(e)
        if id(e) in self.held:
            value, old, new = self.held[id(e)]
            return _back(value, dims(e.checked_type_), old, new, self.fold)
        value, old, layouts = self.several[id(e)]
        fields = []
        for i, (t, layout) in enumerate(zip(e.checked_type_.fields, layouts)):
            item = TupleGetItem(value, i)
            fields.append(item if layout is None else _back(item, dims(t), old, layout, self.fold))
        return Tuple(fields)

    def form(self, e: RelayExpr, old: str, new: str | Vector) -> RelayExpr:
        """Return a tensor, or each field of a tuple, with dimensions named ``old`` in layout ``new``."""
        if type(e) is Tuple:
            return Tuple([self.form(f, old, new) for f in e.fields])
        held = self.held.get(id(e))
        if held is not None and (held.old, held.new) == (old, new):
            return held.value
        key = (id(e), old, str(new))
        if key not in self.forms:
            self.forms[key] = self._form(e, old, new)
        return self.forms[key]

    def _form(self, e: RelayExpr, old: str, new: str | Vector) -> RelayExpr:
        shape = dims(e.checked_type_)
        if type(new) is Vector:
            full: tuple[int, ...] = tuple(shape[0] if c == new.letter else 1 for c in letters(old))
            new = new.layout
        else:
            full = (1,) * (len(letters(old)) - len(shape)) + shape
        value = self.as_plain(e)
        if len(full) != len(shape):
            if self.fold and isinstance(value, Constant):
                value = Constant(value.data.numpy().reshape(full))
            elif self.fold and all(isinstance(d, int) for d in full):
                value = transform.reshape(value, full)
            elif full[-len(shape) :] == shape:
                value = transform.expand_dims(value, 0, len(full) - len(shape))
            else:
                value = transform.reshape(value, full)
        return _to(value, full, old, new, self.fold)

    # -- operators -----------------------------------------------------------------------------------------------

    def surround(self, node: Call, chosen: RelayExpr) -> None:
        """Convert the inputs of a chosen call to its layouts."""
        before, after = _layout(node), _layout(chosen)
        if type(chosen) is not Call or not before or not after:
            self.plain[id(node)] = self.over_inputs(node, chosen)
            return
        # The offsets of a deformable convolution precede its weight and have the layout of the data.
        data = range(2 if is_call(node, "nn.deformable_conv2d") else 1)
        wanted = dict.fromkeys(data, (before, after))
        kernels = [c.attrs.get("kernel_layout") or "" for c in (node, chosen)]
        if all(kernels):
            wanted[len(data)] = (kernels[0], kernels[1])
        args = []
        for i, arg in enumerate(chosen.args):
            if i in wanted and i < len(node.args) and arg is node.args[i]:
                args.append(self.form(arg, *wanted[i]))
            else:
                args.append(self.over_inputs(node, arg))
        made = Call(chosen.op, tuple(args), chosen.attrs, chosen.type_args, node.span)
        old, new = node.attrs.get("out_layout") or before, chosen.attrs.get("out_layout") or after
        if old == new:
            self.plain[id(node)] = made
        else:
            self.held[id(node)] = Held(made, old, new)

    def over_inputs(self, node: Call, e: RelayExpr) -> RelayExpr:
        """Rebuild an expression over the inputs of a call, with the rewritten inputs."""
        return rewrite(e, lambda _: None, memo={id(a): (a, self.as_plain(a)) for a in node.args})

    def follow(self, node: Call) -> bool:
        own, which = node.op.attrs.get("FInferCorrectLayout"), node.op.attrs.get("layout_follows")
        rule = node.op.attrs.get("layout_rule") if own is None else self.user_rule(node, own)
        if rule is None or node.attrs is not None and "data_layout" in node.attrs or which == "none":
            return False
        if which == "all" and not all(id(a) in self.held for a in node.args):
            return False
        types = [a.checked_type_ for a in node.args]
        for old, new in self.leads(node):
            if is_blocked(old) and not divides_alike(rule, types, old):
                continue
            if is_filled(node.checked_type_, old, new) or any(is_filled(t, old, new) for t in types):
                fills = node.op.attrs.get("layout_filled")
                if fills is None or not fills(node.args):
                    continue
            change = rule(node.attrs, types, old, new)
            if change is not None:
                self.change(node, change, old)
                return True
        return False

    def user_rule(self, node: Call, own: Callable[..., Any]) -> Callable[..., Any]:
        """Convert a user-defined rule ``(attrs, new_in_layouts, old_in_layouts, old_in_types)`` to the interface of
        ``layout_rule``."""

        def rule(attrs, types, old: str, new: str) -> LayoutChange | None:
            held = [id(a) in self.held for a in node.args]
            given = [[layout_of(name if h else "") for h in held] for name in (new, old)]
            inputs, outputs, attrs = own(attrs, *given, types)
            names = [str(i) if i else None for i in inputs]
            if new not in names or not outputs[0]:
                return None
            return LayoutChange(names, str(outputs[0]), dict(attrs) if attrs is not None else {})

        return rule

    def change(self, node: Call, change: Any, old: str) -> None:
        args = [self.as_plain(a) if layout is None else self.form(a, old, layout)
                for a, layout in zip(node.args, change.inputs)]  # fmt: skip
        if change.build is not None:
            made = change.build(*args)
        else:
            attrs = CallAttrs(change.attrs) if node.attrs is not None else None
            made = Call(node.op, tuple(args), attrs, node.type_args, node.span)
        named = old if change.named is None else change.named
        if isinstance(change.output, tuple):
            self.several[id(node)] = (made, named, change.output)
        elif change.output == named:
            self.plain[id(node)] = made
        else:
            self.held[id(node)] = Held(made, named, change.output)

    def leads(self, node: Call) -> Iterator[tuple[str, str]]:
        """Return the layouts of the inputs, largest input first; only inputs with the maximum rank are considered."""
        found: dict[tuple[str, str], int] = {}
        tensors = [f for a in node.args for f in (a.fields if type(a) is Tuple else (a,))]
        types = [f.checked_type_ for f in tensors]
        if not all(isinstance(t, TensorType) for t in types):
            return
        rank = max((len(t.shape) for t in types), default=0)
        for e, t in zip(tensors, types):
            held = self.held.get(id(e))
            if held is not None and len(letters(held.old)) == rank:
                size = int(np.prod([d for d in dims(t) if isinstance(d, int)]))
                found[held.old, held.new] = max(found.get((held.old, held.new), 0), size)
        for old, new in sorted(found, key=lambda k: -found[k]):
            if all(_divisible(dims(t), old, new) for t in types):
                yield old, new


def _divisible(shape: tuple, old: str, new: str) -> bool:
    """Return whether all dimensions that must be static are static: blocked dimensions, and all dimensions of tensors
    of lower rank."""
    divided = {*blocks(old), *blocks(new)} if len(shape) == len(letters(old)) else set(letters(old))
    return all(isinstance(d, int) or c.upper() not in divided for c, d in zip(letters(old), shape))


def _layout(e: RelayExpr) -> str:
    attrs = e.attrs if type(e) is Call else None
    return "" if attrs is None else attrs.get("data_layout") or attrs.get("layout") or ""


__all__ = ["Held", "Layouts", "rearranged"]
