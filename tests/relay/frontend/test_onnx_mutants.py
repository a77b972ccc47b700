"""Models that lie about themselves: node tests of the onnx package with values, types and inputs exchanged."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper, numpy_helper

from tvm.error import TVMError
from tvm.relay.frontend import from_onnx

COUNT = 300
INTEGERS = [0, 1, -1, 2, 3, 7, -2, -7, 64, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e30, -1e30, float("inf"), float("-inf"), float("nan"), 1e-30]
KINDS = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 22, 99]


class Mutator:
    """Changes a model in place, at random."""

    def __init__(self, rng, names):
        self.rng, self.names = rng, names

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def change(self, model) -> None:
        changes = [self.attribute, self.attribute, self.left_out, self.other_input, self.kind, self.size, self.value]
        changes += [self.version, self.operator]
        for _ in range(int(self.rng.integers(1, 4))):
            self.pick(changes)(model, self.pick(model.graph.node) if model.graph.node else None)

    def attribute(self, model, node) -> None:
        if node is None or not node.attribute:
            return
        a = self.pick(node.attribute)
        if a.type == AttributeProto.INT:
            a.i = self.pick(INTEGERS)
        elif a.type == AttributeProto.FLOAT:
            a.f = self.pick(FLOATS)
        elif a.type == AttributeProto.STRING:
            a.s = self.pick([b"", b"abc", b"\xff\xfe", b"SAME_UPPER", b"max"])
        elif a.type == AttributeProto.INTS and a.ints and self.rng.random() < 0.7:
            a.ints[int(self.rng.integers(len(a.ints)))] = self.pick(INTEGERS)
        else:
            name = a.name
            node.attribute.remove(a)
            node.attribute.append(helper.make_attribute(name, self.pick([3, 1.5, "abc", [self.pick(INTEGERS)], ["x"]])))

    def left_out(self, model, node) -> None:
        if node is not None and node.input:
            at = int(self.rng.integers(len(node.input)))
            if self.rng.random() < 0.5:
                node.input[at] = ""
            else:
                del node.input[at:]

    def other_input(self, model, node) -> None:
        if node is not None and node.input and model.graph.input:
            node.input[int(self.rng.integers(len(node.input)))] = self.pick(model.graph.input).name

    def kind(self, model, node) -> None:
        if model.graph.input:
            self.pick(model.graph.input).type.tensor_type.elem_type = self.pick(KINDS)

    def size(self, model, node) -> None:
        if not model.graph.input:
            return
        dims = self.pick(model.graph.input).type.tensor_type.shape.dim
        if dims and self.rng.random() < 0.7:
            self.pick(dims).dim_value = self.pick([0, 1, 2, 5, 1 << 20, 1 << 40, -1, 1 << 62])
        else:
            dims.add().dim_value = 3

    def value(self, model, node) -> None:
        """An input becomes a constant with odd numbers."""
        values = [v for v in model.graph.input if v.type.tensor_type.elem_type in (1, 6, 7, 11)]
        if not values:
            return
        v = self.pick(values)
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        if min(shape, default=0) < 0 or np.prod(shape, dtype=object) > 1000:
            return
        dtype = helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
        numbers = [self.pick(INTEGERS if dtype.kind == "i" else FLOATS) for _ in range(int(np.prod(shape)))]
        with np.errstate(all="ignore"):
            array = np.array(numbers, "int64" if dtype.kind == "i" else "float64").astype(dtype).reshape(shape)
        model.graph.initializer.append(numpy_helper.from_array(array, v.name))
        model.graph.input.remove(v)

    def version(self, model, node) -> None:
        model.opset_import[0].version = self.pick([1, 5, 7, 9, 11, 13, 17, 18, 20, 24, 999])

    def operator(self, model, node) -> None:
        if node is not None:
            node.op_type = self.pick(self.names)


@pytest.mark.slow("imports hundreds of damaged models")
def test_mutated_models_are_converted_or_refused_in_one_line_that_names_the_node(root, rng, seed, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import onnx_conformance

    models = [c.model for c in onnx_conformance.sample(60, seed) if c.model is not None]
    mutator = Mutator(rng, [m.graph.node[0].op_type for m in models if m.graph.node])
    refused = 0
    for _ in range(COUNT):
        model = onnx.ModelProto()
        model.CopyFrom(models[int(rng.integers(len(models)))])
        mutator.change(model)
        try:
            from_onnx(model)
        except TVMError as problem:
            # Every other kind of error fails the test.
            refused += 1
            assert "\n" not in str(problem)
    assert refused
