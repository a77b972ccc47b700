"""The standard library of data types and their functions."""

from __future__ import annotations

from typing import Any

from ..ir import module as _module
from ..ir.adt import Constructor
from ..ir.module import GlobalVar, IRModule
from ..ir.type import GlobalTypeVar
from .infer import infer_module
from .parser import Parser
from .tensor_arrays import StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape, name_of, static_name_of

PRELUDE = """
type List[A] { Cons(A, List[A]), Nil, }
type Option[A] { Some(A), None, }
type Tree[A] { Rose(A, List[Tree[A]]), }

def @id[A](%x: A) -> A { %x }

def @hd[A](%xs: List[A]) -> A { match? (%xs) { Cons(%x, _) => %x, } }

def @tl[A](%xs: List[A]) -> List[A] { match? (%xs) { Cons(_, %rest) => %rest, } }

def @nth[A](%xs: List[A], %n: int32) -> A {
  if (%n == 0) { @hd(%xs) } else { @nth(@tl(%xs), %n - 1) }
}

def @update[A](%xs: List[A], %n: int32, %value: A) -> List[A] {
  if (%n == 0) { Cons(%value, @tl(%xs)) } else { Cons(@hd(%xs), @update(@tl(%xs), %n - 1, %value)) }
}

def @length[A](%xs: List[A]) -> int32 {
  match (%xs) { Cons(_, %rest) => 1 + @length(%rest), Nil => 0, }
}

def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }
}

def @foldl[A, B](%f: fn (A, B) -> A, %start: A, %xs: List[B]) -> A {
  match (%xs) { Cons(%x, %rest) => @foldl(%f, %f(%start, %x), %rest), Nil => %start, }
}

def @foldr[A, B](%f: fn (A, B) -> B, %end: B, %xs: List[A]) -> B {
  match (%xs) { Cons(%x, %rest) => %f(%x, @foldr(%f, %end, %rest)), Nil => %end, }
}

def @foldr1[A](%f: fn (A, A) -> A, %xs: List[A]) -> A {
  match? (%xs) { Cons(%x, Nil) => %x, Cons(%x, %rest) => %f(%x, @foldr1(%f, %rest)), }
}

def @unfoldr[A, B](%f: fn (A) -> Option[(A, B)], %start: A) -> List[B] {
  match (%f(%start)) { Some(%step) => Cons(%step.1, @unfoldr(%f, %step.0)), None => Nil, }
}

def @unfoldl[A, B](%f: fn (A) -> Option[(A, B)], %start: A) -> List[B] { @rev(@unfoldr(%f, %start)) }

def @map_accumr[A, B, C](%f: fn (A, B) -> (A, C), %start: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %after = @map_accumr(%f, %start, %rest);
      let %step = %f(%after.0, %x);
      (%step.0, Cons(%step.1, %after.1))
    },
    Nil => (%start, Nil),
  }
}

def @accumulate_onto[A, B, C](%f: fn (A, B) -> (A, C), %so_far: (A, List[C]), %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %step = %f(%so_far.0, %x);
      @accumulate_onto(%f, (%step.0, Cons(%step.1, %so_far.1)), %rest)
    },
    Nil => %so_far,
  }
}

def @map_accuml[A, B, C](%f: fn (A, B) -> (A, C), %start: A, %xs: List[B]) -> (A, List[C]) {
  @accumulate_onto(%f, (%start, Nil), %xs)
}

def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C { %f(%g(%x)) }
}

def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (%n == 0) { fn (%x: A) -> A { %x } } else { @compose(%f, @iterate(%f, %n - 1)) }
}

def @filter[A](%f: fn (A) -> bool, %xs: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => { if (%f(%x)) { Cons(%x, @filter(%f, %rest)) } else { @filter(%f, %rest) } },
    Nil => Nil,
  }
}

def @concat[A](%xs: List[A], %ys: List[A]) -> List[A] {
  match (%xs) { Cons(%x, %rest) => Cons(%x, @concat(%rest, %ys)), Nil => %ys, }
}

def @reverse_onto[A](%xs: List[A], %done: List[A]) -> List[A] {
  match (%xs) { Cons(%x, %rest) => @reverse_onto(%rest, Cons(%x, %done)), Nil => %done, }
}

def @rev[A](%xs: List[A]) -> List[A] { @reverse_onto(%xs, Nil) }

def @zip[A, B](%xs: List[A], %ys: List[B]) -> List[(A, B)] {
  match (%xs) {
    Cons(%x, %more) => { match (%ys) { Cons(%y, %rest) => Cons((%x, %y), @zip(%more, %rest)), Nil => Nil, } },
    Nil => Nil,
  }
}

def @sum(%xs: List[int32]) -> int32 {
  match (%xs) { Cons(%x, %rest) => %x + @sum(%rest), Nil => 0, }
}

def @tmap[A, B](%f: fn (A) -> B, %t: Tree[A]) -> Tree[B] {
  match (%t) { Rose(%x, %below) => Rose(%f(%x), @map_trees(%f, %below)), }
}

def @map_trees[A, B](%f: fn (A) -> B, %ts: List[Tree[A]]) -> List[Tree[B]] {
  match (%ts) { Cons(%t, %rest) => Cons(@tmap(%f, %t), @map_trees(%f, %rest)), Nil => Nil, }
}

def @size[A](%t: Tree[A]) -> int32 {
  match (%t) { Rose(_, %below) => 1 + @sizes(%below), }
}

def @sizes[A](%ts: List[Tree[A]]) -> int32 {
  match (%ts) { Cons(%t, %rest) => @size(%t) + @sizes(%rest), Nil => 0, }
}
"""


NATURAL = """
type nat { Z, S(nat), }

def @nat_double(%n: nat) -> nat { match (%n) { Z => Z, S(%m) => S(S(@nat_double(%m))), } }

def @nat_add(%a: nat, %b: nat) -> nat { match (%a) { Z => %b, S(%m) => S(@nat_add(%m, %b)), } }

def @nat_iterate[A](%f: fn (A) -> A, %n: nat) -> fn (A) -> A {
  match (%n) { Z => fn (%x: A) -> A { %x }, S(%m) => fn (%x: A) -> A { @nat_iterate(%f, %m)(%f(%x)) }, }
}
"""


def import_prelude(mod: IRModule) -> None:
    """Add the types and functions of the prelude that the module does not contain yet."""
    if any(v.name_hint == "List" for v in mod.type_definitions):
        return
    mod.update(infer_module(Parser(PRELUDE, "prelude.rly").parse_module()))


def _import_standard(mod: IRModule, name: str) -> None:
    if name == "nat.rly":
        if not any(v.name_hint == "nat" for v in mod.type_definitions):
            mod.update(infer_module(Parser(NATURAL, name).parse_module()))
        return
    if name == "core.rly":
        if not any(v.name_hint == "Storage" for v in mod.type_definitions):
            mod.update(Parser("type Storage { }", name).parse_module())
        return
    if name != "prelude.rly":
        raise ValueError(f"import_from_std: unknown library '{name}'; available: core.rly, nat.rly and prelude.rly")
    import_prelude(mod)


_module.IMPORT_STANDARD.give(_import_standard)


class Prelude:
    """A module with the standard library, and access to its definitions.

    Parameters
    ----------
    mod : IRModule, optional
        The module to which the definitions are added; by default a new one.
    """

    def __init__(self, mod: IRModule | None = None):
        self.mod = mod if mod is not None else IRModule()
        import_prelude(self.mod)

    def get_name(self, canonical: str, dtype: str) -> str:
        """Return the name of an operator, constructor or type of tensor arrays for a data type.

        Parameters
        ----------
        canonical : str
            The name without the data type, such as "tensor_array_read".
        dtype : str
            The data type.

        Returns
        -------
        str
            The name.
        """
        return name_of(canonical, dtype)

    def get_name_static(self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None) -> str:
        """Return the name of an operator, constructor or type of tensor arrays for a data type and a shape.

        Parameters
        ----------
        canonical : str
            The name without data type and shape, such as "tensor_array_read".
        dtype : str
            The data type.
        shape : list of int or Any
            The shape of the tensors.
        batch_dim : int, optional
            1 if stacked arrays contain one tensor.

        Returns
        -------
        str
            The name.
        """
        return static_name_of(canonical, dtype, shape, batch_dim)

    def _with_tensor_arrays(self, dtype: str) -> IRModule:
        """Return the module; the tensor arrays of a data type are added on first access."""
        if not any(v.name_hint == name_of("tensor_t", dtype) for v in self.mod.type_definitions):
            TensorArrayOps(self, dtype).register()
        return self.mod

    def get_global_var(self, name: str, dtype: str | None = None) -> GlobalVar:
        """Return the global variable of a function in the module.

        Parameters
        ----------
        name : str
            The name, such as "map".
        dtype : str, optional
            The data type of the tensors, for a function of tensor arrays such as "tensor_array_read".

        Returns
        -------
        GlobalVar
            The global variable.

        Raises
        ------
        ValueError
            There is no function with this name.
        """
        if dtype is None:
            return self.mod.get_global_var(name)
        return self._with_tensor_arrays(dtype).get_global_var(name_of(name, dtype))

    def get_global_var_static(self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None) -> GlobalVar:
        """Return the global variable of a function on arrays of tensors of one shape, registered by
        ``StaticTensorArrayOps``.

        Parameters
        ----------
        canonical : str
            The name, such as "tensor_array_read".
        dtype : str
            The data type of the tensors.
        shape : list of int or Any
            The shape of the tensors.
        batch_dim : int, optional
            1 if stacked arrays contain one tensor.

        Returns
        -------
        GlobalVar
            The global variable.

        Raises
        ------
        ValueError
            There is no function with this name.
        """
        return self.mod.get_global_var(static_name_of(canonical, dtype, shape, batch_dim))

    def get_type(self, name: str, dtype: str | None = None) -> Any:
        """Return a type and its constructors: ``list_type, cons, nil = prelude.get_type("List")``.

        Parameters
        ----------
        name : str
            The name of the type.
        dtype : str, optional
            The data type of the tensors, for the tensor type "tensor_t".

        Returns
        -------
        tuple or GlobalTypeVar
            The type, followed by each constructor; with ``dtype`` only the type.

        Raises
        ------
        ValueError
            There is no type with this name.
        """
        if dtype is None:
            return self.mod.get_type(name)
        return self._with_tensor_arrays(dtype).get_global_type_var(name_of(name, dtype))

    def get_type_static(self, canonical: str, dtype: str, shape: Any) -> GlobalTypeVar:
        """Return the type of tensors of one shape, registered by ``StaticTensorArrayOps``.

        Parameters
        ----------
        canonical : str
            "tensor_t".
        dtype : str
            The data type of the tensors.
        shape : list of int or Any
            The shape of the tensors.

        Returns
        -------
        GlobalTypeVar
            The type variable.

        Raises
        ------
        ValueError
            There is no type with this name.
        """
        return self.mod.get_global_type_var(static_name_of(canonical, dtype, shape))

    def get_ctor(self, ty_name: str, ctor_name: str, dtype: str | None = None) -> Constructor:
        """Return a constructor of a type.

        Parameters
        ----------
        ty_name : str
            The name of the type, such as "List".
        ctor_name : str
            The name of the constructor, such as "Cons".
        dtype : str, optional
            The data type suffix of the constructor name, for tensor arrays.

        Returns
        -------
        Constructor
            The constructor.

        Raises
        ------
        ValueError
            There is no such type, or it has no such constructor.
        """
        wanted = ctor_name if dtype is None else name_of(ctor_name, dtype)
        for c in self.mod.get_type(ty_name)[1:]:
            if c.name_hint == wanted:
                return c
        raise ValueError(f"type {ty_name} has no constructor '{wanted}'")

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Any) -> Constructor:
        """Return a constructor of a type of tensors of one shape.

        Parameters
        ----------
        ty_name : str
            "tensor_t".
        name : str
            "tensor_constructor" or "tensor_nil".
        dtype : str
            The data type of the tensors.
        shape : list of int or Any
            The shape of the tensors.

        Returns
        -------
        Constructor
            The constructor.

        Raises
        ------
        ValueError
            There is no such type, or it has no such constructor.
        """
        return self.get_ctor(static_name_of(ty_name, dtype, shape), static_name_of(name, dtype, shape))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of the tensor type of arrays.

        Parameters
        ----------
        canonical : str
            "tensor_nil", or "tensor0" to "tensor6" for a rank.
        dtype : str
            The data type of the tensors.

        Returns
        -------
        Constructor
            The constructor.

        Raises
        ------
        ValueError
            There is no such constructor.
        """
        return self.get_ctor(self.get_type("tensor_t", dtype).name_hint, canonical, dtype)

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Any) -> Constructor:
        """Return a constructor of the tensor type of arrays of one shape.

        Parameters
        ----------
        name : str
            "tensor_constructor" or "tensor_nil".
        dtype : str
            The data type of the tensors.
        shape : list of int or Any
            The shape of the tensors.

        Returns
        -------
        Constructor
            The constructor.

        Raises
        ------
        ValueError
            There is no such constructor.
        """
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    def __getattr__(self, name: str) -> Any:
        if name in ("mod", "__setstate__"):
            raise AttributeError(name)
        try:
            return self.mod.get_global_var(name)
        except ValueError as problem:
            raise AttributeError(str(problem)) from None


__all__ = ["Prelude", "StaticTensorArrayOps", "TensorArrayOps", "get_tensor_array_shape", "import_prelude"]
