"""Import of ``torch.export`` programs and other FX graphs of ATen operators."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.prim import Any_, SizeVar
from ....ir.tensor_type import TensorType
from ... import op as relay
from ...checked_type import with_type
from ...expr import Constant, RelayExpr
from ..common.importer import UnknownInput
from ..common.incremental import tensor_type
from .control import branch
from .dtypes import dtype_name
from .importer import Site, TorchImporter, in_words
from .table import Number, Parameter
from .tensors import array_of

# Python functions on numbers and lists, with the name of the converter that computes them.
_PYTHON: dict[Any, str] = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "pow", operator.neg: "neg",
    operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge",
    operator.and_: "bitwise_and", operator.or_: "bitwise_or", operator.not_: "logical_not",
    math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc",
}  # fmt: skip
_PYTHON_NAMES = {"sym_max": "maximum", "sym_min": "minimum", "sym_not": "logical_not", "sym_float": "sym_float",
                 "sym_int": "sym_int", "_sym_sqrt": "sqrt", "sym_sqrt": "sqrt"}  # fmt: skip
_OPERANDS = [Parameter("self"), Parameter("other")]


def from_exported_program(
    exported_program, shape=None, custom_convert_map=None, default_dtype="float32"
) -> tuple[IRModule, dict[str, Any]]:
    """Convert a program of ``torch.export.export`` to a module and its parameters.

    Inputs keep the names of the program. Dynamic dimensions of the program (``dynamic_shapes``) stay dynamic in the
    module, which then runs on the virtual machine. Operators without a converter are first decomposed by PyTorch's
    decompositions.

    Parameters
    ----------
    exported_program : torch.export.ExportedProgram
        The program.
    shape : dict of str to tuple, optional
        Shapes of inputs by name, to fix dynamic dimensions of the program.
    custom_convert_map : dict of str to callable, optional
        Converters by name of an operator (``"aten::relu"``) that replace the built-in ones. Each is called with the
        list of arguments and the list of their types (element types, ``"ListType"``, None for other values), and
        returns an expression.
    default_dtype : str, optional
        The type of floats without a declared type.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module, and the values of its parameters by name.

    Raises
    ------
    TypeError
        ``exported_program`` is not an exported program.
    TVMError
        The program changes a buffer or an input, or ``shape`` does not match the program.
    OpNotImplemented
        The program contains operators without a converter; the message lists all of them.
    """
    if not hasattr(exported_program, "graph_signature"):
        raise TypeError(
            f"from_exported_program: expected a program of torch.export.export, got {type(exported_program).__name__}"
        )
    reader = FxReader(False, default_dtype, custom_convert_map)
    reader.shapes = {name: [int(d) for d in dims] for name, dims in (shape or {}).items()}
    program = reader.decomposed(exported_program)
    reader.check(program.graph_module)
    signature = program.graph_signature
    reader.take_shapes(
        {
            n.name: n.meta["val"]
            for n, spec in zip(_placeholders(program), signature.input_specs)
            if _role(spec) == "USER_INPUT" and hasattr(n.meta["val"], "shape")
        }
    )
    values = [
        _program_input(reader, program, spec, node) for spec, node in zip(signature.input_specs, _placeholders(program))
    ]
    outputs = reader.run(program.graph_module, values)
    reader.refuse_changes([n.name for n in _placeholders(program)])
    kept = [v for v, spec in zip(outputs, signature.output_specs) if _role(spec) == "USER_OUTPUT"]
    changed = [spec.target for spec in signature.output_specs if _role(spec).endswith("MUTATION")]
    if changed:
        raise TVMError(f"the program changes its buffer or input '{changed[0]}'; make the state an input and an output")
    return reader.finish([reader.result(v) for v in kept if v is not None])


def _role(spec) -> str:
    """Return PyTorch's name for the kind of an input or output of a program."""
    return str(spec.kind).rpartition(".")[2]


def _placeholders(program) -> list:
    return [n for n in program.graph.nodes if n.op == "placeholder"]


def _program_input(reader: FxReader, program, spec, node):
    """Return the value of a placeholder: a weight, a constant, or an input of the caller."""
    kind = _role(spec)
    if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
        held = program.state_dict if spec.target in program.state_dict else program.constants
        return reader.tensor_weight(spec.target, array_of(held[spec.target], spec.target))
    if kind == "USER_INPUT":
        if not hasattr(spec.arg, "value"):
            return reader.fake_input(node.name, node.meta["val"])
        return spec.arg.value
    raise TVMError(f"the program's input '{node.name}' has the kind {kind.lower()}, which is not supported")


class FxReader(TorchImporter):
    """Converts an FX graph of ATen operators.

    ``shapes`` are the shapes that the caller passes, ``sizes`` the dynamic dimensions that they fix, by name.
    """

    def __init__(self, freeze: bool, default_dtype: str = "float32", custom: Mapping[str, Any] | None = None):
        super().__init__(freeze, default_dtype, custom)
        self.shapes: dict[str, list[int]] = {}
        self.sizes: dict[str, int] = {}

    # -- checks and decomposition ---------------------------------------------------------------------------------

    def decomposed(self, program):
        """Return the program with operators without a converter decomposed."""
        missing = {node.target for node in _nodes(program.graph_module) if not self.can(node)}
        if not missing:
            return program
        import torch  # pyright: ignore[reportMissingImports]

        table = torch.export.default_decompositions()
        for entry in list(table.keys()):
            if self.known(*operator_of(entry)):
                del table[entry]
        return program.run_decompositions(table)

    def can(self, node) -> bool:
        if node.op != "call_function" or node.target in _PYTHON or node.target is operator.getitem:
            return True
        return _structure(node) is not None or self.known(*operator_of(node.target))

    def check(self, graph_module) -> None:
        self.check_operators(
            [
                (*operator_of(node.target), node.name)
                for node in _nodes(graph_module)
                if node.op == "call_function"
                and node.target not in _PYTHON
                and node.target is not operator.getitem
                and _structure(node) is None
            ]
        )

    # -- values ---------------------------------------------------------------------------------------------------

    def fake_input(self, name: str, value):
        """Create an input of the caller from the fake tensor (without data) of its placeholder."""
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        if not hasattr(value, "shape"):
            dtype = {"SymInt": "int64", "SymFloat": "float64", "SymBool": "bool"}.get(type(value).__name__)
            if dtype is None:
                raise TVMError(
                    f"the input '{name}' is a {type(value).__name__}; only tensors and numbers are supported"
                )
            made = self.typer.infer(self.add_input(name, [], dtype))
            self.symbols[id(made)] = (made, self._size(Any_(str(value.node.expr))))
            return Number(made)
        dims = [d if isinstance(d, int) else self.open_size(d) for d in value.shape]
        return self.typer.infer(self.add_input(name, dims, dtype_name(value.dtype)))

    def take_shapes(self, inputs: Mapping[str, Any]) -> None:
        """Record the dynamic dimensions that the caller's shapes fix, and check the shapes against the program."""
        for name, dims in self.shapes.items():
            if name not in inputs:
                raise UnknownInput(f"the program has no input '{name}'; its inputs are {', '.join(sorted(inputs))}")
            have = inputs[name].shape
            if len(have) != len(dims):
                raise TVMError(
                    f"the shape of input '{name}' has {len(dims)} dimensions, but the program declares {len(have)}"
                )
            for size, given in zip(have, dims):
                known = size if isinstance(size, int) else size.node.maybe_as_int()
                fixed = known if known is not None else self.sizes.setdefault(str(size.node.expr), given)
                if fixed != given:
                    raise TVMError(f"the shape of input '{name}' contains {given} where the program has {fixed}")

    def open_size(self, size):
        known = size.node.maybe_as_int()
        name = str(size.node.expr)
        return known if known is not None else self.sizes.get(name, Any_(name))

    def refuse_changes(self, inputs: list[str]) -> None:
        """Reject programs that change buffers or inputs: a compiled model keeps no state."""
        changed = [name for name in inputs if self.states.get(name)]
        if changed:
            raise TVMError(
                f"the program changes its buffer or input '{changed[0]}'; make the state an input and an output"
            )

    # -- conversion of nodes --------------------------------------------------------------------------------------

    def run(self, graph_module, values: list) -> list:
        """Convert a graph for the values of its placeholders and return its outputs."""
        given = iter(values)
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                self.scopes[-1][node.name] = next(given)
            elif node.op == "output":
                return [self.argument(a, "the graph's results") for a in node.args[0]]
            else:
                self.visit(graph_module, node)
        raise TVMError("the graph has no outputs")

    def visit(self, graph_module, node) -> None:
        where = f"{_shown(node)} node '{node.name}'"
        with self.at_node(where, node.name, in_words):
            if node.op == "get_attr":
                self.scopes[-1][node.name] = self.held(graph_module, node.target)
            elif node.op == "call_function":
                made = self.called(graph_module, node, where)
                self.scopes[-1][node.name] = self.with_stated_sizes(made, node.meta.get("val"))
            else:
                raise TVMError(f"an FX node of type {node.op} is not supported; export the model with torch.export")

    def with_stated_sizes(self, value, stated):
        """Set dimensions of an output that the program declares, where its operators leave them dynamic.

        A static dimension is checked at run time.
        """
        if not isinstance(value, RelayExpr) or not hasattr(stated, "shape"):
            return value
        have, sizes = tensor_type(value).shape, [self.stated_size(d) for d in stated.shape]
        if len(have) != len(sizes) or not any(isinstance(d, Any_) for d in have):
            return value
        if any(isinstance(d, Any_) and isinstance(s, int) for d, s in zip(have, sizes)):
            value = self.typer.infer(
                relay.reshape(
                    value, [s if isinstance(d, Any_) and isinstance(s, int) else 0 for d, s in zip(have, sizes)]
                )
            )
            have = tensor_type(value).shape
        dims = [s if isinstance(d, Any_) and isinstance(s, SizeVar) else d for d, s in zip(have, sizes)]
        return with_type(value, TensorType(dims, tensor_type(value).dtype))

    def stated_size(self, size):
        """Return a dimension of a fake tensor: an integer, the variable of an input's dynamic dimension, or None."""
        known = size if isinstance(size, int) else size.node.maybe_as_int()
        return known if known is not None else self.named_sizes.get(str(size.node.expr))

    def inside(self, graph_module, values: list) -> list:
        """Convert a nested graph and return its outputs."""
        with self.inner_scope():
            for node in graph_module.graph.nodes:
                self.views.pop(node.name, None)
            return self.run(graph_module, values)

    def held(self, graph_module, target: str):
        value = graph_module
        for part in target.split("."):
            value = getattr(value, part)
        return Constant(array_of(value, target)) if hasattr(value, "is_quantized") else value

    def called(self, graph_module, node, where: str):
        structure = _structure(node)
        if structure is not None:
            return structure(self, graph_module, node, where)
        args = [self.argument(a, where) for a in node.args]
        kwargs = {k: self.argument(v, where) for k, v in node.kwargs.items()}
        if node.target is operator.getitem:
            self.take_part(node.name, node.args[0].name, args[1])
            return args[0][args[1]]
        first = node.args[0].name if node.args and hasattr(node.args[0], "op") else None
        name, overload = operator_of(node.target)
        schema = getattr(node.target, "_schema", None)
        outputs = 1 if schema is None else max(len(schema.returns), 1)
        used = None if node.users else set()
        if outputs > 1:
            used = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
        if name == "as_strided":
            held = [d.node.maybe_as_int() if hasattr(d, "node") else d for d in node.args[0].meta["val"].stride()]
            self.strides = None if None in held else held
        site = Site(where, _parameters(node.target), first, [node.name], outputs, used)
        return self.call(site, name, overload, args, kwargs)[0]

    def argument(self, value, where: str):
        """Return an argument of a node as a value of the importer."""
        if hasattr(value, "op") and hasattr(value, "users"):
            return self.read(value.name, where)
        if isinstance(value, (list, tuple)):
            return [self.argument(v, where) for v in value]
        if isinstance(value, dict):
            return {k: self.argument(v, where) for k, v in value.items()}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        kind = type(value).__name__
        if kind == "dtype":
            return str(value)
        if hasattr(value, "node") and hasattr(value.node, "maybe_as_int"):
            return value.node.maybe_as_int()
        return str(value)


# -- operators without a converter ------------------------------------------------------------------------------------


def decompositions() -> dict:
    """Return PyTorch's decompositions of operators that have no converter here."""
    import torch  # pyright: ignore[reportMissingImports]

    reader = FxReader(True)
    table = torch.export.default_decompositions()
    return {entry: table[entry] for entry in list(table.keys()) if not reader.known(*operator_of(entry))}


def decomposition_of(target, args: list):
    """Return the graph into which PyTorch decomposes an operator.

    Tensors among the arguments are the placeholders of the graph; only their shapes and types matter.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch.fx.experimental.proxy_tensor import make_fx  # pyright: ignore[reportMissingImports]
    from torch.utils import _pytree  # pyright: ignore[reportMissingImports]

    flat, form = _pytree.tree_flatten(args)
    places = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]

    def call(*tensors):
        given = dict(zip(places, tensors))
        values = _pytree.tree_unflatten([given.get(i, v) for i, v in enumerate(flat)], form)
        named = {p.name: v for p, v in zip(target._schema.arguments, values) if p.kwarg_only}
        return _pytree.tree_leaves(target(*values[: len(values) - len(named)], **named))

    with torch.no_grad():
        return make_fx(call, decompositions(), "fake")(*(flat[i] for i in places))


# -- higher-order operators -------------------------------------------------------------------------------------------


def _cond(reader: FxReader, graph_module, node, where: str):
    condition, then, other, operands = (
        *(reader.argument(a, where) for a in node.args[:1]),
        *(reader.held(graph_module, a.target) for a in node.args[1:3]),
        reader.argument(node.args[3], where),
    )
    return branch(
        reader, where, condition, lambda: reader.inside(then, operands), lambda: reader.inside(other, operands)
    )


def _wrapped(first: int):
    """Return a converter of a graph that runs in another gradient or autocast mode."""

    def convert(reader: FxReader, graph_module, node, where: str):
        inner = reader.held(graph_module, node.args[first].target)
        return reader.inside(inner, [reader.argument(a, where) for a in node.args[first + 1 :]])

    return convert


_STRUCTURES: Mapping[str, Callable[..., Any]] = {
    "cond": _cond,
    "wrap_with_set_grad_enabled": _wrapped(1),
    "wrap_with_autocast": _wrapped(4),
}


def _structure(node) -> Callable[..., Any] | None:
    """Return the converter of a higher-order operator, which has graphs as arguments; None for other operators."""
    if node.op != "call_function" or getattr(node.target, "_schema", None) is not None:
        return None
    return _STRUCTURES.get(getattr(node.target, "__name__", ""))


def _nodes(graph_module) -> list:
    """Return the nodes of a graph and of its nested graphs."""
    out, stack = [], [graph_module]
    while stack:
        module = stack.pop()
        graph = getattr(module, "graph", None)
        if graph is not None:
            out.extend(graph.nodes)
            stack.extend(module.children())
    return out


def operator_of(target) -> tuple[str, str]:
    """Return the name of an operator without ``aten::``, and its overload."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return schema.name.removeprefix("aten::"), schema.overload_name
    if target in _PYTHON:
        return _PYTHON[target], ""
    name = getattr(target, "__name__", str(target))
    return _PYTHON_NAMES.get(name, name), ""


def _parameters(target) -> list[Parameter]:
    schema = getattr(target, "_schema", None)
    if schema is None:
        return _OPERANDS
    return [Parameter(a.name, a.default_value, a.has_default_value()) for a in schema.arguments]


def _shown(node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name if schema is not None else getattr(node.target, "__name__", str(node.target))


__all__ = ["FxReader", "decompositions", "from_exported_program", "operator_of", "decomposition_of"]
