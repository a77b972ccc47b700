"""Layouts and the maps between them, against NumPy's reshape and transpose."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm.target.layout import BijectiveLayout, Layout, bijective_layout, layout


def test_parts_of_a_layout():
    blocked = layout("NCHW16c")
    assert [blocked.factor_of(axis) for axis in "cCNHW"] == [16, 16, -1, -1, -1]
    assert [blocked.index_of(axis) for axis in "NCHWcO"] == [0, 1, 2, 3, 4, -1]
    assert "c" in blocked and "C" in blocked and "O" not in blocked
    assert [blocked[index] for index in (0, 1, 2, 3, 4, -1)] == ["N", "C", "H", "W", "c", "c"]
    assert len(blocked) == blocked.ndim == 5 and blocked.ndim_primal == 4
    assert list(blocked) == ["N", "C", "H", "W", "c"]
    assert blocked.primal_axes == ("N", "C", "H", "W")
    assert str(blocked) == blocked.name == "NCHW16c"
    assert blocked == Layout("NCHW16c") != Layout("NCHW8c")
    assert Layout("OIHW4i16o4i").factor_of("I") == 16
    with pytest.raises(IndexError, match="NCHW16c has 5 axes; axis 5"):
        _ = blocked[5]


@pytest.mark.parametrize(
    "name, message",
    [
        ("NCHWc", "is not a layout"),
        ("NC HW", "is not a layout"),
        ("NCHW16", "is not a layout"),
        ("NCHWC", "contains the axis 'C' more than once"),
        ("NHW16c", "contains the part '16c' without its primal axis 'C'"),
        ("NCHW0c", "has extent 0"),
    ],
)
def test_bad_layouts_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        Layout(name)


def test_only_layouts_of_the_same_letters_convert():
    for src, dst in itertools.product(["__undef__", "", "NCHW"], ["__undef__", "", "ABCD"]):
        assert bijective_layout(src, dst) is None
    assert bijective_layout("NCHW", "NCW") is None
    assert bijective_layout("NCHW", "NCHW16c") == BijectiveLayout(Layout("NCHW"), Layout("NCHW16c"))
    with pytest.raises(ValueError, match="'NCHW' cannot be converted to 'ABCD'"):
        BijectiveLayout(Layout("NCHW"), Layout("ABCD"))


def test_shapes_and_indices_of_the_classic_example():
    both = bijective_layout("NCHW", "NCHW16c")
    assert both.forward_shape((1, 32, 7, 7)) == [1, 2, 7, 7, 16]
    assert both.backward_shape((1, 2, 7, 7, 16)) == [1, 32, 7, 7]
    assert both.forward_shape((1, 33, 7, 7)) == [1, 3, 7, 7, 16]
    assert both.forward_index([0, 18, 6, 6]) == [0, 1, 6, 6, 2]
    assert both.backward_index([0, 1, 6, 6, 2]) == [0, 18, 6, 6]
    with pytest.raises(ValueError, match="NCHW has 4 axes, got 3 values"):
        both.forward_index([0, 1, 2])
    with pytest.raises(ValueError, match="NCHW16c has the extent 16 along 'c', got 8"):
        both.backward_shape((1, 2, 7, 7, 8))


# layouts, shape of the source, the source split into single factors, and their order in the destination
CASES = [
    ("NCHW", "NHWC", (2, 3, 4, 5), (2, 3, 4, 5), (0, 2, 3, 1)),
    ("NCHW", "NCHW4c", (2, 8, 2, 3), (2, 2, 4, 2, 3), (0, 1, 3, 4, 2)),
    ("NHWC", "NCHW4c", (1, 2, 3, 8), (1, 2, 3, 2, 4), (0, 3, 1, 2, 4)),
    ("NCHW4c", "NCHW2c", (1, 2, 1, 3, 4), (1, 2, 1, 3, 2, 2), (0, 1, 4, 2, 3, 5)),
    ("OIHW", "OIHW2i4o2i", (4, 8, 1, 3), (1, 4, 2, 2, 2, 1, 3), (0, 2, 5, 6, 3, 1, 4)),
]


@pytest.mark.parametrize("src, dst, src_shape, split, order", CASES)
def test_index_maps_agree_with_numpy(src, dst, src_shape, split, order):
    both = bijective_layout(src, dst)
    dst_shape = both.forward_shape(src_shape)
    assert both.backward_shape(dst_shape) == list(src_shape)
    data = np.arange(np.prod(src_shape)).reshape(src_shape)
    moved = data.reshape(split).transpose(order).reshape(dst_shape)
    for index in np.ndindex(*src_shape):
        there = both.forward_index(index)
        assert moved[tuple(there)] == data[index]
        assert both.backward_index(there) == list(index)


class Symbol:
    """An expression that only knows the four operators a layout may use."""

    def __init__(self, text):
        self.text = text

    def _binary(sign):
        return lambda self, other: Symbol(f"({self.text} {sign} {getattr(other, 'text', other)})")

    __add__, __mul__, __floordiv__, __mod__ = _binary("+"), _binary("*"), _binary("//"), _binary("%")


def test_expressions_pass_through_with_plain_operators():
    both = bijective_layout("NCHW", "NCHW16c")
    names = [Symbol(letter) for letter in "nchw"]
    forward = both.forward_index(names)
    assert [item.text for item in forward] == ["n", "(c // 16)", "h", "w", "(c % 16)"]
    assert forward[0] is names[0]
    shape = both.forward_shape(names)
    assert shape[1].text == "((c + 15) // 16)" and shape[4] == 16
    back = both.backward_index([Symbol(name) for name in ("n", "co", "h", "w", "ci")])
    assert back[1].text == "((co * 16) + ci)"
    unchanged = bijective_layout("NCHW16c", "NHWC16c").forward_index([Symbol(x) for x in "nchwi"])
    assert [item.text for item in unchanged] == list("nhwci")


def test_layouts_made_from_layouts():
    assert Layout("NCHW").split("C", 4, 16) == Layout("NCHW16c")
    assert Layout("NCHW16c").sub_layout(0, 2) == Layout("NC")
    assert not Layout("NCHW16c").sub_layout(2, 3).is_defined
    assert Layout("HW").expand_primal(Layout("NCHW16c")) == Layout("NCHW")
    assert Layout("NCHW").expand_primal(Layout("NCHW")) == Layout("NCHW")
    with pytest.raises(ValueError, match="'C' of layout NCHW16c is already split"):
        Layout("NCHW16c").split("C", 0, 4)
    with pytest.raises(ValueError, match="no primal axis 'O'"):
        Layout("NCHW").split("O", 0, 4)
