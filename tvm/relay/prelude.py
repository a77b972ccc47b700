"""The standard library of data types and functions over them."""

from __future__ import annotations

from typing import Any

from ..ir import module as _module
from ..ir.adt import Constructor
from ..ir.module import GlobalVar, IRModule
from ..not_built import name_of
from .infer import infer_module
from .parser import Parser

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
    """Add the types and functions of the prelude that the module does not have yet."""
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
        raise ValueError(f"import_from_std: the standard library has core.rly, nat.rly and prelude.rly, not '{name}'")
    import_prelude(mod)


_module.IMPORT_STANDARD.give(_import_standard)


def __getattr__(name: str) -> Any:
    return name_of(__name__, name)


class Prelude:
    """A module with the standard library in it, and its names.

    Parameters
    ----------
    mod : IRModule, optional
        The module the definitions are added to; without it, a new one.
    """

    def __init__(self, mod: IRModule | None = None):
        self.mod = mod if mod is not None else IRModule()
        import_prelude(self.mod)

    def get_global_var(self, name: str) -> GlobalVar:
        """The variable that names a function of the library, or of the module around it.

        Parameters
        ----------
        name : str
            The name, such as "map".

        Returns
        -------
        GlobalVar

        Raises
        ------
        ValueError
            There is no function of this name.
        """
        return self.mod.get_global_var(name)

    def get_type(self, name: str) -> tuple:
        """The type and its constructors: ``list_type, cons, nil = prelude.get_type("List")``.

        Parameters
        ----------
        name : str
            The name of the type.

        Returns
        -------
        tuple
            The type, then each constructor.

        Raises
        ------
        ValueError
            There is no type of this name.
        """
        return self.mod.get_type(name)

    def get_ctor(self, ty_name: str, ctor_name: str) -> Constructor:
        """A constructor of a type.

        Parameters
        ----------
        ty_name : str
            The name of the type, such as "List".
        ctor_name : str
            The name of the constructor, such as "Cons".

        Returns
        -------
        Constructor

        Raises
        ------
        ValueError
            There is no such type, or it has no such constructor.
        """
        for c in self.mod.get_type(ty_name)[1:]:
            if c.name_hint == ctor_name:
                return c
        raise ValueError(f"type {ty_name} has no constructor '{ctor_name}'")

    def __getattr__(self, name: str) -> Any:
        if name in ("mod", "__setstate__"):
            raise AttributeError(name)
        try:
            return self.mod.get_global_var(name)
        except ValueError as problem:
            raise AttributeError(str(problem)) from None


__all__ = ["Prelude", "import_prelude"]
