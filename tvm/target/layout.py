"""Data layouts (``"NCHW16c"``) and the index maps between them. Available to users as ``tvm.tir.layout``.

An upper-case letter is a primal axis; a lower-case letter with a preceding number is an inner part that was split off
the primal axis of the same letter. Indices and extents may be ints or any expression with ``+ * // %``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

UNDEFINED = "__undef__"


class LayoutAxis(NamedTuple):
    """An axis of a layout; ``factor`` is the extent of a split part, and 0 for a primal axis.

    Parameters
    ----------
    name : str
        A letter, upper case for a primal axis.
    factor : int, optional
        The extent of a split part.
    """

    name: str
    factor: int = 0

    @property
    def is_primal(self) -> bool:
        return self.name.isupper()

    @property
    def primal(self) -> str:
        return self.name.upper()

    def __str__(self) -> str:
        return f"{self.factor}{self.name}" if self.factor else self.name


class Layout:
    """An ordered list of axes. Layouts are equal if their names are equal.

    Parameters
    ----------
    name : str | Layout
        The layout as text, such as "NCHW16c".
    dtype : str, optional
        The dtype of its indices.
    """

    __slots__ = ("axes", "dtype", "name")

    def __init__(self, name: str | Layout, dtype: str = "int32"):
        self.name = name.name if isinstance(name, Layout) else str(name)
        self.dtype = dtype
        self.axes = _parse(self.name)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @property
    def ndim_primal(self) -> int:
        return sum(axis.is_primal for axis in self.axes)

    @property
    def is_defined(self) -> bool:
        return bool(self.axes)

    @property
    def primal_axes(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes if axis.is_primal)

    def __len__(self) -> int:
        return len(self.axes)

    def __iter__(self) -> Iterator[str]:
        return (axis.name for axis in self.axes)

    def __contains__(self, axis: str) -> bool:
        return any(own.name == axis for own in self.axes)

    def __getitem__(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise IndexError(f"layout {self.name} has {len(self)} axes; axis {index} is out of range")
        return self.axes[index].name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name!r})"

    def index_of(self, axis: str) -> int:
        """The position of an axis, or -1 if the layout does not contain it.

        Parameters
        ----------
        axis : str
            The letter of the axis.

        Returns
        -------
        int
            The position.
        """
        return next((index for index, own in enumerate(self.axes) if own.name == axis), -1)

    def factor_of(self, axis: str) -> int:
        """The product of all parts split off an axis, or -1 if there are none.

        Parameters
        ----------
        axis : str
            The letter of the axis.

        Returns
        -------
        int
            The factor.
        """
        factors = [own.factor for own in self.axes if own.name == axis.lower()]
        return functools.reduce(lambda a, b: a * b, factors) if factors else -1

    def split(self, axis: str, position: int, factor: int) -> Layout:
        """The layout with a part of extent ``factor`` split off a primal axis and inserted at ``position``.

        Parameters
        ----------
        axis : str
            The letter of the axis.
        position : int
            The position of the part.
        factor : int
            The extent of the part.

        Returns
        -------
        Layout
            The layout.

        Raises
        ------
        ValueError
            The axis does not exist, or it cannot be split.
        """
        if axis not in self or not axis.isupper():
            raise ValueError(f"layout {self.name} has no primal axis '{axis}' to split")
        if axis.lower() in self:
            raise ValueError(f"axis '{axis}' of layout {self.name} is already split")
        if factor <= 0 or not 0 <= position <= len(self):
            raise ValueError(f"cannot insert {factor}{axis.lower()} at position {position} of layout {self.name}")
        axes = [*self.axes[:position], LayoutAxis(axis.lower(), factor), *self.axes[position:]]
        return Layout("".join(map(str, axes)), self.dtype)

    def sub_layout(self, position: int, length: int) -> Layout:
        """The layout of consecutive axes; undefined if it would contain a part without its primal axis.

        Parameters
        ----------
        position : int
            The first axis.
        length : int
            The number of axes.

        Returns
        -------
        Layout
            The layout.
        """
        axes = self.axes[position : position + length]
        primal = {axis.name for axis in axes if axis.is_primal}
        if not axes or any(axis.primal not in primal for axis in axes):
            return Layout(UNDEFINED, self.dtype)
        return Layout("".join(map(str, axes)), self.dtype)

    def expand_primal(self, other: Layout) -> Layout:
        """This layout preceded by the primal axes of ``other`` that it lacks.

        Parameters
        ----------
        other : Layout
            The other layout.

        Returns
        -------
        Layout
            The layout.
        """
        missing = [name for name in other.primal_axes if name not in self]
        return Layout("".join([*missing, self.name]), self.dtype) if missing else self


@functools.cache
def _parse(name: str) -> tuple[LayoutAxis, ...]:
    if name in ("", UNDEFINED):
        return ()
    if not re.fullmatch(r"([A-Z]|\d+[a-z])+", name):
        raise ValueError(
            f"'{name}' is not a layout: a layout consists of upper-case axes and split parts such as 16c (a number, "
            "then a lower-case "
            "letter), as in NCHW16c"
        )
    axes = tuple(LayoutAxis(letter, int(number or 0)) for number, letter in re.findall(r"(\d*)([A-Za-z])", name))
    primal = [axis.name for axis in axes if axis.is_primal]
    for axis in axes:
        if axis.is_primal and primal.count(axis.name) > 1:
            raise ValueError(f"layout {name} contains the axis '{axis.name}' more than once")
        if not axis.is_primal and axis.primal not in primal:
            raise ValueError(f"layout {name} contains the part '{axis}' without its primal axis '{axis.primal}'")
        if not axis.is_primal and axis.factor == 0:
            raise ValueError(f"layout {name}: the part '{axis.name}' has extent 0")
    return axes


class _Digit(NamedTuple):
    """An axis with a given letter: its position in the layout, its extent (0 for the primal axis), and its stride."""

    position: int
    extent: int
    stride: int


def _digits(layout: Layout) -> dict[str, list[_Digit]]:
    """Return the axes of each letter, outermost first: the primal axis, then the parts in order of appearance."""
    result: dict[str, list[_Digit]] = {}
    for letter in layout.primal_axes:
        parts = [(i, axis.factor) for i, axis in enumerate(layout.axes) if axis.name == letter.lower()]
        stride = 1
        digits = []
        for position, factor in reversed(parts):
            digits.append(_Digit(position, factor, stride))
            stride *= factor
        digits.append(_Digit(layout.index_of(letter), 0, stride))
        result[letter] = digits[::-1]
    return result


class BijectiveLayout:
    """The index map between two layouts with the same letters, as created by ``bijective_layout``.

    Parameters
    ----------
    src_layout : Layout
        The source layout.
    dst_layout : Layout
        The destination layout.
    """

    __slots__ = ("dst_layout", "src_layout")

    def __init__(self, src_layout: Layout, dst_layout: Layout):
        if not convertible(src_layout, dst_layout):
            raise ValueError(f"layout {src_layout.name!r} cannot be converted to {dst_layout.name!r}")
        self.src_layout = src_layout
        self.dst_layout = dst_layout

    def forward_index(self, index: Sequence) -> list:
        """The indices of an element in the destination layout.

        Parameters
        ----------
        index : list
            Its indices in the source layout.

        Returns
        -------
        list
            Its indices in the destination layout.
        """
        return _map(self.src_layout, self.dst_layout, index, _index_value)

    def backward_index(self, index: Sequence) -> list:
        """The indices of an element in the source layout.

        Parameters
        ----------
        index : list
            Its indices in the destination layout.

        Returns
        -------
        list
            Its indices in the source layout.
        """
        return _map(self.dst_layout, self.src_layout, index, _index_value)

    def forward_shape(self, shape: Sequence) -> list:
        """The shape in the destination layout.

        Parameters
        ----------
        shape : list
            The shape in the source layout.

        Returns
        -------
        list
            The shape.
        """
        _check_shape(self.src_layout, shape)
        return _map(self.src_layout, self.dst_layout, shape, _extent_value)

    def backward_shape(self, shape: Sequence) -> list:
        """The shape in the source layout.

        Parameters
        ----------
        shape : list
            The shape in the destination layout.

        Returns
        -------
        list
            The shape.
        """
        _check_shape(self.dst_layout, shape)
        return _map(self.dst_layout, self.src_layout, shape, _extent_value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BijectiveLayout)
            and self.src_layout == other.src_layout
            and self.dst_layout == other.dst_layout
        )

    def __hash__(self) -> int:
        return hash((self.src_layout, self.dst_layout))

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout.name!r}, {self.dst_layout.name!r})"


def _check_shape(layout: Layout, shape: Sequence) -> None:
    for axis, extent in zip(layout.axes, shape):
        if axis.factor and isinstance(extent, int) and extent != axis.factor:
            raise ValueError(f"layout {layout.name} has the extent {axis.factor} along '{axis.name}', got {extent}")


def _map(src: Layout, dst: Layout, values: Sequence, value_of: Callable) -> list:
    values = list(values)
    if len(values) != len(src):
        raise ValueError(f"layout {src.name} has {len(src)} axes, got {len(values)} values: {values}")
    result: list = [None] * len(dst)
    own = _digits(src)
    for letter, wanted in _digits(dst).items():
        given = own[letter]
        if [(d.extent, d.stride) for d in given] == [(d.extent, d.stride) for d in wanted]:
            for source, sink in zip(given, wanted):
                result[sink.position] = values[source.position]
        else:
            for sink in wanted:
                result[sink.position] = value_of(given, sink, values)
    return result


def _index_value(given: list[_Digit], sink: _Digit, values: list) -> object:
    """Return the index along ``sink``, computed from the complete index along its letter."""
    terms = [values[d.position] * d.stride if d.stride != 1 else values[d.position] for d in given]
    whole = functools.reduce(lambda a, b: a + b, terms)
    quotient = whole // sink.stride if sink.stride != 1 else whole
    return quotient % sink.extent if sink.extent else quotient


def _extent_value(given: list[_Digit], sink: _Digit, values: list) -> object:
    """Return the extent along ``sink``; a primal axis is rounded up if the division is not exact."""
    if sink.extent:
        return sink.extent
    primal = given[0]
    extent = values[primal.position]
    whole = extent * primal.stride if primal.stride != 1 else extent
    return (whole + (sink.stride - 1)) // sink.stride if sink.stride != 1 else whole


def convertible(src: Layout, dst: Layout) -> bool:
    """Whether both layouts contain the same letters."""
    return src.is_defined and dst.is_defined and set(src.primal_axes) == set(dst.primal_axes)


def layout(layout_str: str | Layout, dtype: str = "int32") -> Layout:
    return Layout(layout_str, dtype)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """The index map between two layouts, or None if they are not convertible.

    Parameters
    ----------
    src_layout : str | Layout
        The source layout.
    dst_layout : str | Layout
        The destination layout.

    Returns
    -------
    BijectiveLayout
    """
    src, dst = Layout(src_layout), Layout(dst_layout)
    return BijectiveLayout(src, dst) if convertible(src, dst) else None
