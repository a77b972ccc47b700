"""Import of TorchScript: the whole graph is checked first, then converted node by node.

Numbers, lists and strings are computed during the import, as Python does. A branch or loop with a constant condition is
inlined or unrolled; otherwise it becomes an If or a recursive function, which the virtual machine executes.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ....error import OpNotImplemented, TVMError
from ....ir.module import IRModule
from ...expr import Constant, RelayExpr, Tuple
from ..common.importer import UnknownInput
from ..common.incremental import tensor_type
from .control import branch, checked, loop
from .dynamic_inputs import KeptState, import_open, inputs_of, state_info
from .exported import FxReader, decomposition_of
from .importer import MOST_NODES, Site, TorchImporter, in_words
from .quantized import Packed
from .script_inputs import input_parts, input_type
from .table import Context, Number, Parameter
from .tensors import array_of


def from_pytorch(
    script_module,
    input_infos=None,
    custom_convert_map=None,
    default_dtype="float32",
    use_parser_friendly_name=False,
    keep_quantized_weight=False,
    export_renamed_c_graph_path=None,
    preserve_pytorch_scopes=False,
) -> tuple[IRModule, dict[str, Any]]:
    """Convert a TorchScript module to a module and its parameters.

    Control flow with run-time conditions requires the virtual machine (``relay.vm``); everything else runs on every
    executor. A dimension can be ``relay.Any()``; then the model runs on the virtual machine for all sizes.

    Parameters
    ----------
    script_module : torch.jit.ScriptModule or torch.jit.ScriptFunction
        The result of ``torch.jit.trace`` or ``torch.jit.script``.
    input_infos : list of tuple, or dict, optional
        For each input, its name and its shape, or its name, shape and element type: ``("x", (1, 3))`` or
        ``("x", ((1, 3), "int64"))``. A tuple or a list of tensors is one parameter of tuple type with a tuple of
        shapes: ``("state", ((2, 8), (2, 8)))``, or ``("state", (((2, 8), (2, 8)), "float16"))``. An input that is a
        number is given by its value: ``("rate", 16000)``. State that the model keeps in attributes follows the inputs,
        by its path: ``("state", (2, 1, 128))`` makes it an input, whose new value is an additional output;
        ``("calls", 7)`` is a number that a run reads and does not change. A dictionary contains some of the inputs by
        their names in the model's code. The other inputs have dynamic dimensions. Their rank is that of the example
        input for a trace that was not saved; otherwise the first of 2, 3, 4, 5, 1 and 0 that the model supports, so
        pass the shape of an input of a model that supports several ranks. Numbers become inputs, and so does state,
        under the path of its attribute.
    custom_convert_map : dict of str to callable, optional
        Converters by name of an operator (``"aten::relu"``) that replace the built-in ones. Each is called with the
        list of arguments and the list of their types (element types, ``"ListType"``, None for other values), and
        returns an expression.
    default_dtype : str, optional
        The type of floats without a declared type.
    use_parser_friendly_name : bool, optional
        Whether ``.`` in parameter names is replaced by ``_``.
    keep_quantized_weight : bool, optional
        Whether weights and biases of quantized layers are integer parameters. By default they are float parameters,
        which the module quantizes; the compiler folds this computation.
    export_renamed_c_graph_path : str, optional
        A folder in which the graph is written as text, with values named after the nodes.
    preserve_pytorch_scopes : bool, optional
        Whether names of nodes in spans begin with their submodule.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module, and the values of its parameters by name.

    Raises
    ------
    TypeError
        ``script_module`` is not TorchScript, or ``input_infos`` is not a list of pairs.
    TVMError
        The model keeps state in an attribute that ``input_infos`` does not name, or no rank of an input with dynamic
        dimensions is supported.
    OpNotImplemented
        The model contains operators without a converter; the message lists all of them.
    """
    graph = getattr(script_module, "inlined_graph", None)
    if graph is None:
        raise TypeError(
            "from_pytorch: expected a module or function of torch.jit.trace or torch.jit.script, got "
            f"{type(script_module).__name__}"
        )
    if not isinstance(input_infos, (list, tuple, dict, type(None))):
        raise TypeError(
            "from_pytorch: input_infos must be a list of (name, shape) or a dictionary by name, got "
            f"{type(input_infos).__name__}"
        )
    reader: Any = None

    def new_reader() -> ScriptReader:
        nonlocal reader
        reader = ScriptReader(graph, script_module, default_dtype, custom_convert_map, preserve_pytorch_scopes)
        reader.keep_quantized = keep_quantized_weight
        if use_parser_friendly_name:
            reader.separator = "_"
        return reader

    if isinstance(input_infos, (list, tuple)):
        result = new_reader().run(list(input_infos))
    else:
        result = import_open(new_reader, inputs_of(script_module), input_infos or {})
    if export_renamed_c_graph_path:
        reader.export(export_renamed_c_graph_path)
    return result


class Record(NamedTuple):
    """An object of a class of the model: its fields, and the nesting depth of the block that created it."""

    fields: dict[str, Any]
    depth: int


class Owner(NamedTuple):
    """A live module of the model, and its path from the top module."""

    module: Any
    path: tuple[str, ...]


class ScriptReader(TorchImporter):
    """Converts one TorchScript graph."""

    def __init__(self, graph, module, default_dtype: str, custom: Mapping | None, scopes: bool):
        super().__init__(False, default_dtype, custom)
        self.names_ones = True
        # Whether state in attributes becomes an input without being named in input_infos.
        self.opens_state = False
        # The last node whose conversion began, and the number of these nodes.
        self.at: Any = None
        self.steps = 0
        self.graph = graph
        self.live = module
        self.use_scopes = scopes
        self.separator = "."
        self.counts: dict[str, int] = {}
        self.names: dict[Any, str] = {}
        self.schemas: dict[str, tuple[list[Parameter], str]] = {}
        # Graphs of torch.autograd.Function, by the name of their first output.
        self.functions: dict[str, Any] = {}
        # Nodes without a converter that PyTorch decomposes, by the name of their first output.
        self.apart: set[str] = set()
        # Initial values of attributes, by path.
        self.found: dict[tuple[str, ...], Any] = {}
        # Number of nodes of inlined branches and unrolled loops.
        self.written_out = 0

    def run(self, infos: list) -> tuple[IRModule, dict[str, Any]]:
        self.check()
        self.take_inputs(infos)
        self.block_nodes(self.graph)
        outputs = [self.result(self.read(o.debugName(), "the model's result")) for o in self.graph.outputs()]
        state = self.new_state()
        # A single output that is a tuple stands for several outputs.
        if len(outputs) == 1 and isinstance(outputs[0], Tuple) and (state or len(outputs[0].fields) > 1):
            outputs = list(outputs[0].fields)
        if outputs and self.checks:
            outputs[0] = self.checked_result(outputs[0])
        return self.finish([*outputs, *state])

    def checked_result(self, value: RelayExpr) -> RelayExpr:
        """Return an output of the model with the run-time checks for exceptions."""
        if isinstance(value, Tuple) and value.fields:
            return Tuple([self.checked_result(value.fields[0]), *value.fields[1:]])
        return checked(Context(self, "aten::_assert", "the model's result"), value, self.checks)

    def new_state(self) -> list:
        """Return the final values of attributes that are inputs, as outputs. Other attributes must be unchanged."""
        wanted: dict[str, Any] = {}
        for path, value in self.left.items():
            name, before = self.separator.join(path), self.as_found(path)
            if _is_same(value, before):
                continue
            if isinstance(value, (Record, list)) or self.opens_state and not _is_like(value, before):
                raise KeptState(
                    f"from_pytorch: the model creates its attribute '{name}'; if only the first run does "
                    "so, run the model once before importing it"
                )
            if self.opens_state:
                info = state_info(name, self.inferred(before), self.inferred(value), path in self.found)
                wanted |= {} if info is None else {".".join(path): info}
            elif not isinstance(self.found.get(path), (RelayExpr, Number)):
                raise KeptState(_named_state(name, before, self.inferred(value)))
        if wanted:
            raise KeptState(f"from_pytorch: the model stores state in its attribute '{next(iter(wanted))}'", wanted)
        kept = [path for path, value in self.found.items() if isinstance(value, (RelayExpr, Number))]
        return [self.result(self.left.get(path, self.found[path])) for path in kept]

    def as_found(self, path: tuple[str, ...]):
        """Return the initial value of an attribute."""
        if path in self.found:
            return self.found[path]
        return _plain(_attribute_at(self.live, path), self, self.separator.join(path))

    def state_at(self, path: tuple[str, ...]):
        return self.left[path] if path in self.left else self.as_found(path)

    # -- checks before the conversion -----------------------------------------------------------------------------

    def check(self) -> None:
        """Check that all operators have converters, except in branches that are never executed, such as those for
        training.
        """
        used: list[tuple[str, str, str]] = []
        known = {v.debugName(): self.live for v in self.graph.inputs() if str(v.type().kind()) == "ClassType"}
        self.collect(self.graph, known, used)
        self.check_operators(used)

    def collect(self, block, known: dict[str, Any], used: list[tuple[str, str, str]]) -> None:
        """Collect the operators of a block. ``known`` are values that depend only on the model."""
        for node in block.nodes():
            kind, blocks = node.kind(), list(node.blocks())
            if kind == "prim::If" and (key := node.input().debugName()) in known:
                taken = blocks[0 if known[key] else 1]
                self.collect(taken, known, used)
                for output, inner in zip(node.outputs(), taken.outputs()):
                    if inner.debugName() in known:
                        known[output.debugName()] = known[inner.debugName()]
                continue
            for inner in blocks:
                self.collect(inner, known, used)
            _note(node, known)
            if kind == "prim::PythonOp" and node.hasAttribute("Subgraph"):
                self.collect(self.inner_graph(node), known, used)
            elif kind not in _STRUCTURE or kind == "prim::PythonOp":
                name, overload = self.operator_of(node)
                if not self.known(name, overload) and self.can_decompose(node, known):
                    self.apart.add(node.outputsAt(0).debugName())
                else:
                    used.append((name, overload, self.name_of(node)))

    def can_decompose(self, node, known: dict[str, Any]) -> bool:
        """Return whether PyTorch decomposes the operator into operators with converters.

        This requires the shapes and types of a trace; a script does not contain them.
        """
        try:
            made = decomposition_of(self.target_of(node), [_example(v, known) for v in node.inputs()])
            FxReader(True, custom=self.custom).check(made)
            return True
        except Exception:
            # Operators raise different errors if they need data or an unknown argument.
            return False

    def target_of(self, node):
        import torch  # pyright: ignore[reportMissingImports]

        name, overload = self.operator_of(node)
        if name.endswith("_") or "::" in name:
            raise OpNotImplemented(f"the operator {name} is not supported")
        return getattr(getattr(torch.ops.aten, name), overload or "default")

    def call_decomposed(self, node, args: list, where: str) -> list:
        """Decompose an operator for the shapes that its tensors have in the model, and convert the decomposition."""
        tensors: list[RelayExpr] = []
        context = Context(self, node.kind(), where)
        made = decomposition_of(self.target_of(node), [_stand_in(context, a, tensors) for a in args])
        inner = FxReader(True)
        # The reader continues with the graph under construction.
        vars(inner).update(vars(self))
        results = inner.inside(made, tensors)
        many = node.outputsSize() > 1 or str(node.outputsAt(0).type().kind()) != "ListType"
        return results if many else [results]

    def name_of(self, node) -> str:
        """Return the name of a node: its kind and number, prefixed by its submodule if requested."""
        key = str(next(iter(node.outputs()), node).debugName()) if node.outputsSize() else f"{node}"
        if key not in self.names:
            kind = node.kind()
            number = self.counts.get(kind, 0)
            self.counts[kind] = number + 1
            scope = node.scopeName().rpartition("__module.")[2] if self.use_scopes else ""
            self.names[key] = f"{scope}/{kind}_{number}" if scope else f"{kind}_{number}"
        return self.names[key]

    def inner_graph(self, node):
        """Return the graph of a traced ``torch.autograd.Function``, with value names prefixed by the node's output to
        be unique.
        """
        key = node.outputsAt(0).debugName()
        if key not in self.functions:
            graph = self.functions[key] = node.g("Subgraph")
            stack: list[Any] = [graph]
            while stack:
                block = stack.pop()
                for value in [*block.inputs(), *(o for n in block.nodes() for o in n.outputs())]:
                    value.setDebugName(f"{key}/{value.debugName()}")
                stack.extend(b for n in block.nodes() for b in n.blocks())
        return self.functions[key]

    def operator_of(self, node) -> tuple[str, str]:
        kind = node.kind()
        schema = node.schema()
        full = schema.partition("(")[0] if not schema.startswith("(no schema") else kind
        overload = full.partition(".")[2]
        return (kind.removeprefix("aten::") if kind.startswith("aten::") else kind), overload

    def parameters_of(self, node) -> list[Parameter]:
        text = node.schema()
        if text not in self.schemas:
            import torch  # pyright: ignore[reportMissingImports]

            if text.startswith("(no schema"):
                self.schemas[text] = ([], "")
            else:
                found = torch._C.parse_schema(text)
                rows = [Parameter(a.name, a.default_value, a.has_default_value()) for a in found.arguments]
                self.schemas[text] = (rows, "")
        return self.schemas[text][0]

    # -- inputs ---------------------------------------------------------------------------------------------------

    def take_inputs(self, infos: list) -> None:
        values = list(self.graph.inputs())
        if values and str(values[0].type().kind()) == "ClassType":
            self.scopes[0][values.pop(0).debugName()] = Owner(self.live, ())
        for info in infos:
            if not isinstance(info, (list, tuple)) or len(info) != 2 or not isinstance(info[0], str):
                raise TypeError(f"from_pytorch: an input must be (name, shape) or (name, (shape, dtype)), got {info!r}")
        more = [tuple(name.split(".")) for name, _ in infos[len(values) :]]
        if len(infos) < len(values) or any(_attribute_at(self.live, path, None) is None for path in more):
            names = ", ".join(v.debugName() for v in values)
            raise UnknownInput(
                f"from_pytorch: the model has {len(values)} inputs ({names}), but input_infos has "
                f"{len(infos)} entries; entries after the inputs must be attributes that contain state"
            )
        for value, (name, info) in zip(values, infos):
            self.scopes[0][value.debugName()] = self.input_value(name, info, value)
        for path, (name, info) in zip(more, infos[len(values) :]):
            made = self.input_value(name, info, None)
            is_number = isinstance(made, RelayExpr) and isinstance(_attribute_at(self.live, path), (bool, int, float))
            self.found[path] = Number(made) if is_number else made

    def input_value(self, name: str, info, value):
        if isinstance(info, (bool, int, float, str)) or info is None:
            return info
        declared = None if value is None else value.type()
        made = self.add_open_input(name, input_type(name, info, declared, self.default_dtype))
        return input_parts(self.typer, made, made.type_annotation, declared)

    # -- conversion of nodes --------------------------------------------------------------------------------------

    def block_nodes(self, block) -> None:
        for node in block.nodes():
            where = f"{node.kind()} node '{self.name_of(node)}'"
            self.at, self.steps = node, self.steps + 1
            if len(self.scopes) > 1:
                self.written_out += 1
                if self.written_out > MOST_NODES:
                    raise TVMError(f"branches and loops have more than {MOST_NODES} nodes after inlining and unrolling")
            with self.at_node(where, self.name_of(node), in_words):
                self.node(node, where)

    def node(self, node, where: str) -> None:
        kind = node.kind()
        if kind in _STRUCTURE:
            _STRUCTURE[kind](self, node, where)
            return
        name, overload = self.operator_of(node)
        inputs = list(node.inputs())
        args = [self.read(v.debugName(), where) for v in inputs]
        outputs = list(node.outputs())
        keys = [o.debugName() for o in outputs]
        used = {i for i, o in enumerate(outputs) if o.uses()}
        first = inputs[0].debugName() if inputs else None
        site = Site(where, self.parameters_of(node), first, keys, len(keys), used)
        if name == "__getitem__" and isinstance(args[1], int) and keys and first is not None:
            self.take_part(keys[0], first, args[1] % max(len(args[0]), 1))
        if name == "as_strided":
            self.strides = inputs[0].type().strides()
        if name == "unbind":
            takers = [u.user for u in outputs[0].uses()]
            self.taken = next((n.outputsSize() for n in takers if n.kind() == "prim::ListUnpack"), None)
        apart = bool(keys) and keys[0] in self.apart
        made = self.call_decomposed(node, args, where) if apart else self.call(site, name, overload, args, {})
        for key, value in zip(keys, made):
            self.scopes[-1][key] = value

    def values_of(self, node, where: str) -> list:
        return [self.read(v.debugName(), where) for v in node.inputs()]

    def give(self, node, values: list) -> None:
        for output, value in zip(node.outputs(), values):
            self.scopes[-1][output.debugName()] = value

    def block(self, block, inputs: list, where: str) -> list:
        """Convert a nested block for the given inputs and return its outputs."""
        with self.inner_scope() as values:
            for value, given in zip(block.inputs(), inputs):
                values[value.debugName()] = given
                self.views.pop(value.debugName(), None)
            self.block_nodes(block)
            results = [self.read(o.debugName(), where) for o in block.outputs()]
        # Apply in-place changes of outer tensors to the outer scope.
        self.scopes[-1].update((k, v) for k, v in values.items() if any(k in scope for scope in self.scopes))
        return results

    # -- structural nodes -----------------------------------------------------------------------------------------

    def constant(self, node, where: str) -> None:
        output = node.output()
        value = output.toIValue()
        self.scopes[-1][output.debugName()] = _plain(value)

    def attribute(self, node, where: str) -> None:
        owner = self.read(node.input().debugName(), where)
        name = node.s("name")
        if isinstance(owner, Record):
            self.scopes[-1][node.output().debugName()] = owner.fields[name]
            return
        if not isinstance(owner, Owner):
            raise TVMError(f"cannot read the attribute '{name}' of a value that is not a module")
        path = (*owner.path, name)
        key = node.output().debugName()
        if path in self.left or path in self.found:
            self.scopes[-1][key] = self.left.get(path, self.found.get(path))
            return
        value = getattr(owner.module, name)
        if hasattr(value, "is_quantized"):
            self.scopes[-1][key] = self.tensor_weight(self.separator.join(path), array_of(value, ".".join(path)))
        elif value is not None and (kind := _class_of(node.output().type())):
            is_packed = kind.startswith("__torch__.torch.classes.")
            self.scopes[-1][key] = Packed(value, self.separator.join(path)) if is_packed else Owner(value, path)
        else:
            self.scopes[-1][key] = _plain(value, self, self.separator.join(path))

    def set_attribute(self, node, where: str) -> None:
        owner, value = self.values_of(node, where)
        # Objects are not selected by branches: a branch with a run-time condition may only change objects that it
        # creates.
        if isinstance(owner, Record):
            self.attribute_changes += len(self.scopes) > owner.depth
            owner.fields[node.s("name")] = value
        else:
            self.left[(*owner.path, node.s("name"))] = value

    def create_object(self, node, where: str) -> None:
        self.scopes[-1][node.output().debugName()] = Record({}, len(self.scopes))

    def isinstance_(self, node, where: str) -> None:
        """Compare types by their outermost constructor, such as ``list`` or ``Tensor``."""
        value = self.read(node.input().debugName(), where)
        named = re.findall(r"(\w+)(?:\[[^\[\]]*\]|\([^()]*\))?", str(node).partition("types=[")[2].partition("](%")[0])
        unknown = [name for name in named if name not in _TYPES]
        if unknown or isinstance(value, Number):
            raise TVMError(f"isinstance() cannot be decided at import time for the type {', '.join(unknown or named)}")
        self.give(node, [any(isinstance(value, _TYPES[name]) for name in named)])

    def export(self, folder: str) -> None:
        """Write the graph as text, with each value named after its node."""
        for node in self.graph.nodes():
            outputs = list(node.outputs())
            for i, output in enumerate(outputs):
                output.setDebugName(self.name_of(node) + (f".{i}" if len(outputs) > 1 else ""))
        stamp = datetime.datetime.now().strftime("%d_%m_%Y_%H_%M_%S")
        with open(os.path.join(folder, f"tvm_exported_c_graph_{stamp}.txt"), "w", encoding="utf-8") as file:
            file.write(str(self.graph))


def _note(node, known: dict[str, Any]) -> None:
    """Record the output of a node if it depends only on the model: attributes, their negation, and comparisons with
    None.
    """
    names = [v.debugName() for v in node.inputs()]
    if node.outputsSize() != 1 or not all(n in known for n in names):
        return
    kind, given, key = node.kind(), [known[n] for n in names], node.output().debugName()
    if kind == "prim::Constant" and str(node.output().type()) in ("NoneType", "bool"):
        known[key] = node.output().toIValue()
    elif kind == "prim::GetAttr" and hasattr(given[0], node.s("name")):
        known[key] = getattr(given[0], node.s("name"))
    elif kind == "aten::__not__":
        known[key] = not given[0]
    elif kind in ("aten::__is__", "aten::__isnot__") and any(v is None for v in given):
        known[key] = (given[0] is given[1]) is (kind == "aten::__is__")


def _is_same(value, before) -> bool:
    """Return whether a value, or each element of a list, equals the previous one."""
    if isinstance(value, list) and isinstance(before, list):
        return len(value) == len(before) and all(map(_is_same, value, before))
    return value is before or not isinstance(value, RelayExpr) and not isinstance(before, RelayExpr) and value == before


def _is_like(value, before) -> bool:
    """Return whether both are tensors, or both are numbers."""
    numbers = (Number, bool, int, float)
    return isinstance(value, (RelayExpr if isinstance(before, RelayExpr) else numbers)) and isinstance(
        before, (RelayExpr, *numbers)
    )


def _named_state(name: str, before, value) -> str:
    """Return a message about how to make state an input."""
    if isinstance(value, (RelayExpr, Number)):
        shape = ", ".join(str(d) for d in tensor_type(getattr(value, "expr", value)).shape)
        return (
            f"from_pytorch: the model stores state in its attribute '{name}'; add it to input_infos after the "
            f"inputs, as ('{name}', ({shape})): it becomes an input and an output"
        )
    return (
        f"from_pytorch: the model changes its attribute '{name}' from {before!r} to {value!r}; add "
        f"('{name}', {value!r}) to input_infos after the inputs, to import the model for runs after the first"
    )


def _class_of(kind) -> str:
    """Return the class name of a type or optional type; "" for types that are not classes."""
    kind = kind.getElementType() if str(kind.kind()) == "OptionalType" else kind
    return str(kind) if str(kind.kind()) == "ClassType" else ""


def _example(value, known: Mapping[str, Any]):
    """Return an example argument from a trace: a tensor of its shape and type, or a known value."""
    import torch  # pyright: ignore[reportMissingImports]

    node = value.node()
    if value.debugName() in known:
        return known[value.debugName()]
    if node.kind() == "prim::Constant":
        return value.toIValue()
    if node.kind() in ("prim::ListConstruct", "prim::TupleConstruct"):
        return [_example(v, known) for v in node.inputs()]
    return torch.zeros(value.type().sizes(), dtype=value.type().dtype())


def _stand_in(ctx: Context, value, tensors: list):
    """Return an argument in which zero tensors replace expressions, and append the expressions to ``tensors``."""
    import torch  # pyright: ignore[reportMissingImports]

    if isinstance(value, RelayExpr):
        tensors.append(value)
        return torch.zeros(ctx.known_shape(value), dtype=getattr(torch, ctx.dtype(value)))
    if isinstance(value, (list, tuple)):
        return [_stand_in(ctx, v, tensors) for v in value]
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise TVMError(f"cannot decompose an operator with an argument of type {type(value).__name__}")
    return value


def _attribute_at(module, path: tuple[str, ...], *default):
    """Return the value at a path of attributes of a module."""
    for name in path:
        module = getattr(module, name, *default)
    return module


def _plain(value, reader: ScriptReader | None = None, path: str = ""):
    """Return a value of the model, with tensors converted to expressions."""
    if hasattr(value, "is_quantized"):
        array = array_of(value, path or "a constant of the model")
        return Constant(array) if reader is None else reader.tensor_weight(path, array)
    if isinstance(value, (list, tuple)):
        parts = [_plain(v, reader, f"{path}_{i}") for i, v in enumerate(value)]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {k: _plain(v, reader, f"{path}_{k}") for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _collected(kind):
    def convert(reader: ScriptReader, node, where: str) -> None:
        values = reader.values_of(node, where)
        if kind is dict:
            reader.give(node, [dict(zip(values[::2], values[1::2]))])
        else:
            reader.give(node, [kind(values)])

    return convert


def _unpacked(reader: ScriptReader, node, where: str) -> None:
    whole = node.input().debugName()
    values = reader.read(whole, where)
    outputs = list(node.outputs())
    if len(values) != len(outputs):
        raise TVMError(f"cannot unpack {len(values)} values into {len(outputs)}")
    for i, output in enumerate(outputs):
        reader.take_part(output.debugName(), whole, i)
    reader.give(node, list(values))


def _indexed(reader: ScriptReader, node, where: str) -> None:
    values, at = reader.values_of(node, where)
    reader.give(node, [values[at]])


def _sliced(reader: ScriptReader, node, where: str) -> None:
    reader.give(node, [reader.values_of(node, where)[0][node.i("beg") : node.i("end")]])


def _passed(reader: ScriptReader, node, where: str) -> None:
    values = reader.values_of(node, where)
    reader.give(node, values[:1])
    if values and isinstance(values[0], RelayExpr):
        reader.note_view(node.output().debugName(), node.inputsAt(0).debugName(), "", {}, None)


def _nothing(reader: ScriptReader, node, where: str) -> None:
    reader.give(node, [None] * node.outputsSize())


def _function(reader: ScriptReader, node, where: str) -> None:
    if node.i("inplace"):
        raise TVMError(f"the function {node.pyname()} changes its argument in place, which is not supported")
    made = reader.block(reader.inner_graph(node), reader.values_of(node, where), where)
    # Several outputs of the graph form one tuple output of the node.
    reader.give(node, made if node.outputsSize() == len(made) else [tuple(made)])


def _if(reader: ScriptReader, node, where: str) -> None:
    then, other = node.blocks()
    condition = reader.read(node.input().debugName(), where)
    reader.give(
        node,
        branch(reader, where, condition, lambda: reader.block(then, [], where), lambda: reader.block(other, [], where)),
    )


def _loop(reader: ScriptReader, node, where: str) -> None:
    (body,) = node.blocks()
    limit, going, *states = reader.values_of(node, where)
    reader.give(
        node, loop(reader, where, limit, going, states, lambda step, values: reader.block(body, [step, *values], where))
    )


_TYPES: dict[str, type] = {
    "list": list,
    "List": list,
    "tuple": tuple,
    "Tuple": tuple,
    "Dict": dict,
    "Tensor": RelayExpr,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "NoneType": type(None),
}
_STRUCTURE = {
    "prim::Constant": ScriptReader.constant,
    "prim::GetAttr": ScriptReader.attribute,
    "prim::SetAttr": ScriptReader.set_attribute,
    "prim::CreateObject": ScriptReader.create_object,
    "prim::isinstance": ScriptReader.isinstance_,
    "prim::ListConstruct": _collected(list),
    "prim::TupleConstruct": _collected(tuple),
    "prim::DictConstruct": _collected(dict),
    "prim::ListUnpack": _unpacked,
    "prim::TupleUnpack": _unpacked,
    "prim::TupleIndex": _indexed,
    "prim::TupleSlice": _sliced,
    "prim::unchecked_cast": _passed,
    "prim::data": _passed,
    "prim::Uninitialized": _nothing,
    "prim::PythonOp": _function,
    "prim::If": _if,
    "prim::Loop": _loop,
}

__all__ = ["ScriptReader", "from_pytorch"]
