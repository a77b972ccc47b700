"""Tensor arrays: lists of tensors of different shapes, as data types and functions in addition to the prelude.

``TensorArrayOps`` has one data type for tensors of any rank up to six. ``StaticTensorArrayOps`` has one for each shape.
The definitions are written as Relay text for a data type and a shape, and added to the module of a ``Prelude``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..ir.adt import Constructor
from ..ir.module import GlobalVar, IRModule
from ..ir.prim import Any_, IntImm
from ..ir.type import GlobalTypeVar, TypeCall
from .expr import Function, RelayExpr
from .infer import infer_module
from .parser import Parser
from .substitute import free_vars

if TYPE_CHECKING:
    from .prelude import Prelude

_MOST_DIMENSIONS = 6


def name_of(canonical: str, dtype: str) -> str:
    """Return the name of a type, constructor or function for a data type."""
    return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"


def static_name_of(
    canonical: str, dtype: str, shape: Iterable[Any], batch_dim: int | None = None,
    extra_shapes: Mapping[str, Iterable[Any]] | None = None,
) -> str:  # fmt: skip
    """Return the name of a type, constructor or function for a data type and a shape."""
    parts = _joined(shape)
    for name, extra in (extra_shapes or {}).items():
        parts += f"_{name}_{_joined(extra)}"
    parts = parts or "scalar"
    if canonical == "tensor_t":
        return f"static_tensor_{dtype}_{parts}_t"
    if batch_dim != 1 or canonical in ("tensor_constructor", "tensor_nil"):
        return f"{canonical}_{dtype}_{parts}"
    return f"{canonical}_{dtype}_batch{batch_dim}_{parts}"


def _joined(shape: Iterable[Any]) -> str:
    return "_".join("any" if isinstance(n, Any_) else str(int(n)) for n in shape)


def _type(dtype: str, shape: Iterable[Any]) -> str:
    sizes = ["?" if isinstance(n, Any_) else str(int(n)) for n in shape]
    return f"Tensor[({', '.join(sizes)}), {dtype}]"


def define(mod: IRModule, definitions: Mapping[str, str], replaced: Iterable[str] = ()) -> None:
    """Add definitions in Relay text to a module: those with new names, and those in ``replaced``."""
    have = {v.name_hint for v in (*mod.functions, *mod.type_definitions)} - set(replaced)
    text = "\n".join(text for name, text in definitions.items() if name not in have)
    if not text:
        return
    kept = IRModule({v: f for v, f in mod.functions.items() if v.name_hint not in replaced}, mod.type_definitions)
    mod.update(infer_module(Parser(text, "tensor_array.rly", kept).parse_module()))


_DYNAMIC = {
    "tensor_array": """
def @{tensor_array}(%n: int32) -> List[{tensor}] {{
  if (%n == 0) {{ Nil }} else {{ Cons({nil}, @{tensor_array}(%n - 1)) }}
}}""",
    "tensor_array_read": """
def @{tensor_array_read}(%array: List[{tensor}], %i: int32) -> {tensor} {{ @nth(%array, %i) }}""",
    "tensor_array_write": """
def @{tensor_array_write}(%array: List[{tensor}], %i: int32, %value: {tensor}) -> List[{tensor}] {{
  @update(%array, %i, %value)
}}""",
    "tensor_array_scatter_helper": """
def @{tensor_array_scatter_helper}(%array: List[{tensor}], %i: int32, %end: int32, %indices: {indices},
                                   %values: List[{tensor}]) -> List[{tensor}] {{
  if (%i == %end) {{ %array }} else {{
    let %one = @{tensor_array_write}(%array, take(%indices, %i), @{tensor_array_read}(%values, %i));
    @{tensor_array_scatter_helper}(%one, %i + 1, %end, %indices, %values)
  }}
}}""",
    "tensor_array_scatter": """
def @{tensor_array_scatter}(%array: List[{tensor}], %indices: {indices}, %values: List[{tensor}]) -> List[{tensor}] {{
  @{tensor_array_scatter_helper}(%array, 0, take(shape_of(%indices), 0), %indices, %values)
}}""",
    "tensor_array_gather_helper": """
def @{tensor_array_gather_helper}(%array: List[{tensor}], %i: int32, %end: int32, %indices: {indices})
    -> List[{tensor}] {{
  if (%i == %end) {{ Nil }} else {{
    let %one = @{tensor_array_read}(%array, take(%indices, %i));
    Cons(%one, @{tensor_array_gather_helper}(%array, %i + 1, %end, %indices))
  }}
}}""",
    "tensor_array_gather": """
def @{tensor_array_gather}(%array: List[{tensor}], %indices: {indices}) -> {stacked} {{
  @{tensor_array_stack}(@{tensor_array_gather_helper}(%array, 0, take(shape_of(%indices), 0), %indices))
}}""",
}

# Definitions for arrays of one shape, which replace those for any rank.
_SPLIT = """
def @{tensor_array_split_helper}(%array: List[{part}], %value: {tensor}, %from: int32, %i: int32, %end: int32,
                                 %lengths: {indices}) -> List[{part}] {{
  if (%i == %end) {{ %array }} else {{
    let %to = %from + take(%lengths, %i);
    let %one = @{part_write}(%array, %i, @{tensor_take}(%value, %from, %to));
    @{tensor_array_split_helper}(%one, %value, %to, %i + 1, %end, %lengths)
  }}
}}
def @{tensor_array_split}(%array: List[{part}], %value: {tensor}, %lengths: {indices}) -> List[{part}] {{
  @{tensor_array_split_helper}(%array, %value, 0, 0, take(shape_of(%lengths), 0), %lengths)
}}"""


class TensorArrayOps:
    """Operators on arrays of tensors of one data type and any rank up to six.

    Parameters
    ----------
    prelude : Prelude
        The standard library, to whose module the operators are added.
    dtype : str
        The data type.
    """

    def __init__(self, prelude: Prelude, dtype: str):
        self.prelude = prelude
        self.dtype = dtype

    def get_name(self, canonical: str) -> str:
        """Return the name of an operator, constructor or type for the data type.

        Parameters
        ----------
        canonical : str
            The name without the data type, such as "tensor_array_read".

        Returns
        -------
        str
            The name.
        """
        return name_of(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """Return the global variable of a function for the data type.

        Parameters
        ----------
        canonical : str
            The name without the data type.

        Returns
        -------
        GlobalVar
            The global variable.
        """
        return self.prelude.mod.get_global_var(self.get_name(canonical))

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """Return the type variable of a data type.

        Parameters
        ----------
        canonical : str
            The name without the data type: "tensor_t".

        Returns
        -------
        GlobalTypeVar
            The type variable.
        """
        return self.prelude.mod.get_global_type_var(self.get_name(canonical))

    def get_ctor(self, canonical: str) -> Constructor:
        """Return a constructor of the data type.

        Parameters
        ----------
        canonical : str
            The name without the data type, such as "tensor1".

        Returns
        -------
        Constructor
            The constructor.
        """
        return self.prelude.get_ctor(self.get_name("tensor_t"), self.get_name(canonical))

    def register(self) -> None:
        """Add the data type and all operators to the module."""
        define(self.prelude.mod, self._definitions())

    def _definitions(self) -> dict[str, str]:
        names = {key: self.get_name(key) for key in (
            *_DYNAMIC, "tensor_take", "tensor_concatenate", "tensor_expand_dims", "tensor_array_stack",
            "tensor_array_concat", "tensor_array_split", "tensor_array_split_helper")}  # fmt: skip
        tensor, nil = self.get_name("tensor_t"), self.get_name("tensor_nil")
        makers = [self.get_name(f"tensor{rank}") for rank in range(_MOST_DIMENSIONS + 1)]
        cases = ", ".join(f"{make}({_type(self.dtype, [Any_()] * rank)})" for rank, make in enumerate(makers))
        found = {tensor: f"type {tensor} {{ {nil}, {cases}, }}"}
        fill = {**names, "tensor": tensor, "nil": nil, "stacked": tensor, "part": tensor,
                "part_write": names["tensor_array_write"], "indices": "Tensor[(?), int32]"}  # fmt: skip
        found.update({names[key]: text.format(**fill) for key, text in _DYNAMIC.items()})
        found[names["tensor_array_split"]] = _SPLIT.format(**fill)
        found.update(self._of_all_ranks(names, tensor, makers))
        for rank in range(1, len(makers)):
            found.update(self._unstack(rank, tensor, makers))
        return found

    def _of_all_ranks(self, names: dict[str, str], tensor: str, makers: list[str]) -> dict[str, str]:
        """Functions that match the rank of a tensor."""
        wider = "".join(f"{small}(%t) => {large}(expand_dims(%t, axis=0)), "
                        for small, large in zip(makers, makers[1:]))  # fmt: skip
        part = "".join(f"{make}(%t) => {make}(take(%t, arange(%lower, %upper, 1, dtype=\"int32\"), axis=0)), "
                       for make in makers[1:])  # fmt: skip
        both = "".join(f"{make}(%s) => {{ match? (%y) {{ {make}(%t) => {make}(concatenate((%s, %t), axis=0)), }} }}, "
                       for make in makers[1:])  # fmt: skip
        return {
            names["tensor_expand_dims"]: f"def @{names['tensor_expand_dims']}(%x: {tensor}) -> {tensor} "
            f"{{ match? (%x) {{ {wider} }} }}",
            names["tensor_take"]: f"def @{names['tensor_take']}(%x: {tensor}, %lower: int32, %upper: int32) -> {tensor}"
            f" {{ match? (%x) {{ {part} }} }}",
            names["tensor_concatenate"]: f"def @{names['tensor_concatenate']}(%x: {tensor}, %y: {tensor}) -> {tensor} "
            f"{{ match? (%x) {{ {both} }} }}",
            names["tensor_array_concat"]: f"def @{names['tensor_array_concat']}(%xs: List[{tensor}]) -> {tensor} "
            f"{{ @foldr1(@{names['tensor_concatenate']}, %xs) }}",
            names["tensor_array_stack"]: f"def @{names['tensor_array_stack']}(%xs: List[{tensor}]) -> {tensor} "
            f"{{ @{names['tensor_array_concat']}(@map(@{names['tensor_expand_dims']}, %xs)) }}",
        }

    def _unstack(self, rank: int, tensor: str, makers: list[str]) -> dict[str, str]:
        name = self.get_name(f"tensor_array_unstack_tensor{rank}")
        return _unstack(name, _type(self.dtype, [Any_()] * rank), tensor, makers[rank - 1])


def _unstack(name: str, whole: str, tensor: str, maker: str) -> dict[str, str]:
    return {f"{name}_helper": f"""
def @{name}_helper(%i: int32, %end: int32, %t: {whole}) -> List[{tensor}] {{
  if (%i == %end) {{ Nil }} else {{ Cons({maker}(take(%t, %i, axis=0)), @{name}_helper(%i + 1, %end, %t)) }}
}}""", name: f"""
def @{name}(%t: {whole}) -> List[{tensor}] {{ @{name}_helper(0, take(shape_of(%t), 0), %t) }}"""}  # fmt: skip


class StaticTensorArrayOps:
    """Operators on arrays of tensors of one data type and one shape, which may have dynamic dimensions.

    Parameters
    ----------
    prelude : Prelude
        The standard library, to whose module the operators are added.
    dtype : str
        The data type.
    shape : list of int or Any
        The shape of each tensor.
    batch_dim : int, optional
        1 if stacked arrays contain one tensor: the first dimension of the output is then 1 instead of dynamic.
    """

    def __init__(self, prelude: Prelude, dtype: str, shape: Iterable[Any], batch_dim: int | None = None):
        self.prelude = prelude
        self.dtype = dtype
        self.shape = list(shape)
        self.batch_dim = batch_dim

    def get_name(self, canonical: str, extra_shapes: Mapping[str, Iterable[Any]] | None = None) -> str:
        """Return the name of an operator, constructor or type for the data type and shape.

        Parameters
        ----------
        canonical : str
            The name without data type and shape, such as "tensor_array_read".
        extra_shapes : dict of str to list, optional
            Shapes of other operands, which are part of the name.

        Returns
        -------
        str
            The name.
        """
        return static_name_of(canonical, self.dtype, self.shape, self.batch_dim, extra_shapes)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """Return the global variable of a function for the data type and shape.

        Parameters
        ----------
        canonical : str
            The name without data type and shape.

        Returns
        -------
        GlobalVar
            The global variable.
        """
        return self.prelude.get_global_var_static(canonical, self.dtype, self.shape, self.batch_dim)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """Return the type variable of the data type for the shape.

        Parameters
        ----------
        canonical : str
            The name without data type and shape: "tensor_t".

        Returns
        -------
        GlobalTypeVar
            The type variable.
        """
        return self.prelude.get_type_static(canonical, self.dtype, self.shape)

    def get_ctor(self, canonical: str) -> Constructor:
        """Return a constructor of the data type for the shape.

        Parameters
        ----------
        canonical : str
            "tensor_constructor" or "tensor_nil".

        Returns
        -------
        Constructor
            The constructor.
        """
        return self.prelude.get_ctor_static("tensor_t", canonical, self.dtype, self.shape)

    def register(self) -> None:
        """Add the data type and all operators to the module."""
        text = {**self._adt(self.shape), **self._list_functions(), **self._tensor_functions()}
        define(self.prelude.mod, {**text, **self._split({})})

    def define_tensor_adt(self) -> None:
        """Add the data type of the shape to the module."""
        define(self.prelude.mod, self._adt(self.shape))

    def define_tensor_array(self) -> None:
        """Add the data type and the function that creates an array of empty tensors."""
        functions = self._list_functions()
        names = [self._name(key) for key in ("tensor_array", "tensor_array_read", "tensor_array_write")]
        define(self.prelude.mod, {**self._adt(self.shape), **{name: functions[name] for name in names}})

    def define_tensor_array_scatter(self, indices_shape: Iterable[int] | None = None, force_update: bool = False):
        """Add the function that writes the tensors of one array to indices of another.

        Parameters
        ----------
        indices_shape : list of int, optional
            The shape of the indices, which is part of the function name; by default their number is dynamic.
        force_update : bool, optional
            Whether to replace an existing function with the same name.
        """
        extra = None if indices_shape is None else {"indices": list(indices_shape)}
        functions = self._list_functions(extra)
        names = [self.get_name(key, extra) for key in ("tensor_array_scatter_helper", "tensor_array_scatter")]
        define(self.prelude.mod, {name: functions[name] for name in names}, names if force_update else ())

    def define_tensor_array_split(
        self, value_shape: Iterable[Any] | None = None, lengths_shape: Iterable[int] | None = None,
        force_update: bool = False,
    ) -> None:  # fmt: skip
        """Add the function that splits a tensor and writes the parts to an array.

        Parameters
        ----------
        value_shape : list of int or Any, optional
            The shape of the tensor, which is part of the function name; by default the shape of the array.
        lengths_shape : list of int, optional
            The shape of the part lengths, which is part of the function name; by default their number is dynamic.
        force_update : bool, optional
            Whether to replace an existing function with the same name.
        """
        given = {"value": value_shape, "lengths": lengths_shape}
        extra = {key: list(shape) for key, shape in given.items() if shape is not None}
        names = [self.get_name(key, extra) for key in ("tensor_array_split_helper", "tensor_array_split")]
        define(self.prelude.mod, self._split(extra), names if force_update else ())

    # -- definitions ---------------------------------------------------------------------------------------------------

    def _name(self, canonical: str, shape: Iterable[Any] | None = None) -> str:
        return static_name_of(canonical, self.dtype, self.shape if shape is None else shape, self.batch_dim)

    def _adt(self, shape: list[Any]) -> dict[str, str]:
        tensor, nil, make = (self._name(key, shape) for key in ("tensor_t", "tensor_nil", "tensor_constructor"))
        return {tensor: f"type {tensor} {{ {nil}, {make}({_type(self.dtype, shape)}), }}"}

    def _list_functions(self, extra: dict[str, list] | None = None) -> dict[str, str]:
        names = {key: self.get_name(key, extra if "scatter" in key else None) for key in _DYNAMIC}
        stacked = self._stacked()
        fill = {**names, "tensor": self._name("tensor_t"), "nil": self._name("tensor_nil"),
                "tensor_array_stack": self._name("tensor_array_stack"), "stacked": self._name("tensor_t", stacked),
                "indices": _type("int32", (extra or {}).get("indices", [Any_()]))}  # fmt: skip
        return {names[key]: text.format(**fill) for key, text in _DYNAMIC.items()}

    def _stacked(self) -> list[Any]:
        return [1 if self.batch_dim == 1 else Any_(), *self.shape]

    def _tensor_functions(self) -> dict[str, str]:
        """Return functions of tensors, and functions of arrays whose results have other shapes."""
        tensor, make = self._name("tensor_t"), self._name("tensor_constructor")
        found = self._adt(self._stacked())
        stacked, stack = (self._name(key, self._stacked()) for key in ("tensor_t", "tensor_constructor"))
        name = self._name("tensor_get_data")
        found[name] = (f"def @{name}(%x: {tensor}) -> {_type(self.dtype, self.shape)} "
                       f"{{ match? (%x) {{ {make}(%t) => %t, }} }}")  # fmt: skip
        name = self._name("tensor_expand_dims")
        found[name] = (f"def @{name}(%x: {tensor}) -> {stacked} "
                       f"{{ match? (%x) {{ {make}(%t) => {stack}(expand_dims(%t, axis=0)), }} }}")  # fmt: skip
        name = self._name("tensor_array_stack")
        found[name] = _joining(name, tensor, make, stacked, stack, "expand_dims(%t, axis=0)", self.batch_dim == 1)
        return {**found, **self._rows()} if self.shape else found

    def _rows(self) -> dict[str, str]:
        """Return functions of the first dimension."""
        some = [Any_(), *self.shape[1:]]
        tensor, make = self._name("tensor_t"), self._name("tensor_constructor")
        part, make_part = self._name("tensor_t", some), self._name("tensor_constructor", some)
        found = {**self._adt(some), **self._adt(self.shape[1:])}
        name = self._name("tensor_take")
        found[name] = (
            f"def @{name}(%x: {tensor}, %lower: int32, %upper: int32) -> {part} {{ match? (%x) {{ {make}(%t)"
            f' => {make_part}(take(%t, arange(%lower, %upper, 1, dtype="int32"), axis=0)), }} }}'
        )
        name = self._name("tensor_concatenate")
        found[name] = (
            f"def @{name}(%x: {tensor}, %y: {tensor}) -> {part} {{ match? (%x) {{ {make}(%s) => {{ match? "
            f"(%y) {{ {make}(%t) => {make_part}(concatenate((%s, %t), axis=0)), }} }}, }} }}"
        )
        name = self._name("tensor_array_concat")
        found[name] = _joining(name, tensor, make, part, make_part, "%t", False)
        row = self.shape[1:]
        whole = _type(self.dtype, self.shape)
        found.update(_unstack(self._name("tensor_array_unstack"), whole, self._name("tensor_t", row),
                              self._name("tensor_constructor", row)))  # fmt: skip
        return found

    def _split(self, extra: dict[str, list]) -> dict[str, str]:
        if not self.shape:
            return {}
        value = extra.get("value", self.shape)
        some = [Any_(), *self.shape[1:]]
        parts, whole = (StaticTensorArrayOps(self.prelude, self.dtype, s, self.batch_dim) for s in (some, value))
        names = {key: self.get_name(key, extra) for key in ("tensor_array_split_helper", "tensor_array_split")}
        fill = {**names, "tensor": whole._name("tensor_t"), "part": parts._name("tensor_t"),
                "part_write": parts._name("tensor_array_write"), "tensor_take": whole._name("tensor_take"),
                "indices": _type("int32", extra.get("lengths", [Any_()]))}  # fmt: skip
        functions = {**parts._adt(some), **parts._list_functions(), **parts._tensor_functions(), **whole._adt(value),
                     **whole._tensor_functions()}  # fmt: skip
        return {**functions, names["tensor_array_split"]: _SPLIT.format(**fill)}


def _joining(name: str, tensor: str, make: str, joined: str, join: str, form: str, only_first: bool) -> str:
    """Return a function that concatenates the converted tensors of a list; for one tensor it returns the converted
    tensor."""
    one = f"{{ match? (%first) {{ {make}(%t) => {join}({form}), }} }}"
    if only_first:
        return f"def @{name}(%xs: List[{tensor}]) -> {joined} {{ match? (%xs) {{ Cons(%first, _) => {one}, }} }}"
    several = (f"{{ match? (%first) {{ {make}(%t) => {{ match? (@{name}(%rest)) {{ {join}(%done) => "
               f"{join}(concatenate(({form}, %done), axis=0)), }} }}, }} }}")  # fmt: skip
    return (f"def @{name}(%xs: List[{tensor}]) -> {joined} {{ match? (%xs) {{ Cons(%first, %rest) => {{ match (%rest) "
            f"{{ Cons(_, _) => {several}, Nil => {one}, }} }}, }} }}")  # fmt: skip


def get_tensor_array_shape(expr: RelayExpr, dtype: str, prelude: Prelude) -> tuple | None:
    """Return the shape of the tensors of an array.

    Parameters
    ----------
    expr : Expr
        The array.
    dtype : str
        The data type of the tensors.
    prelude : Prelude
        The standard library with the data type of the tensors.

    Returns
    -------
    tuple of int or Any, or None
        The shape; None for an array of tensors of any rank.

    Raises
    ------
    TypeError
        The expression is not an array of tensors.
    """
    mod = prelude.mod.clone()
    mod["main"] = Function(free_vars(expr), expr)
    found = infer_module(mod)["main"].body.checked_type_
    name = found.args[0].func.name_hint if isinstance(found, TypeCall) and isinstance(found.args[0], TypeCall) else ""
    if name == name_of("tensor_t", dtype):
        return None
    start = f"static_tensor_{dtype}_"
    if not name.startswith(start):
        raise TypeError(f"get_tensor_array_shape: expected an array of {dtype} tensors, got {found}")
    sizes = name[len(start) : -len("_t")]
    if sizes == "scalar":
        return ()
    return tuple(Any_() if n == "any" else IntImm("int32", int(n)) for n in sizes.split("_"))


__all__ = ["StaticTensorArrayOps", "TensorArrayOps", "get_tensor_array_shape", "name_of", "static_name_of"]
