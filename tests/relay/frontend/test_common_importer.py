"""The base of importers, by a small format of our own: a list of (name, operator, inputs)."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import OpAttributeInvalid, OpNotImplemented, TVMError
from tvm.relay.frontend.common import Converters, GraphImporter, NodeContext
from tvm.relay.frontend.common.protobuf import Schema

TABLE = Converters("Toy")


@TABLE.op("Add")
def add(ctx, inputs):
    return relay.add(*inputs)


@TABLE.op("Flatten")
def flatten(ctx, inputs):
    sizes = ctx.known_shape(inputs[0])
    return relay.reshape(inputs[0], (sizes[0], int(np.prod(sizes[1:]))))


@TABLE.op("Take")
def take(ctx, inputs):
    return relay.take(inputs[0], relay.const(ctx.ints(inputs[1], "the indices")), 0)


@TABLE.op("Broken")
def broken(ctx, inputs):
    return {}["nothing"]


class Toy(GraphImporter):
    def run(self, nodes, output):
        TABLE.check_all([(operator, name, 1, "") for name, operator, _ in nodes])
        for name, operator, inputs in nodes:
            where = f"{operator} '{name}'"
            with self.at_node(where, name, lambda problem: f"not understood: {type(problem).__name__}"):
                values = [self.value(i, where) for i in inputs]
                converter = TABLE.find(operator, 1)
                assert converter is not None
                self.scopes[-1][name] = self.typer.infer(converter(NodeContext(self, where), values))
        return self.finish([self.value(output, "the outputs")])


def importer(freeze=True, dims=(2, 3, 2)) -> Toy:
    toy = Toy(freeze)
    toy.scopes[-1]["x"] = toy.add_input("x", dims, "float32")
    toy.weight("w", np.arange(12, dtype="float32").reshape(2, 3, 2))
    return toy


@pytest.mark.parametrize("freeze", [True, False])
def test_a_reader_and_a_table_make_an_importer(freeze, rng):
    module, params = importer(freeze).run([("a", "Add", ["x", "w"]), ("f", "Flatten", ["a"])], "f")
    assert sorted(params) == ([] if freeze else ["w"])
    x = rng.random((2, 3, 2), "float32")
    got = relay.create_executor("graph", module).evaluate()(x, **params).numpy()
    np.testing.assert_array_equal(got, (x + np.arange(12, dtype="float32").reshape(2, 3, 2)).reshape(2, 6))


def test_nodes_carry_their_names_as_spans():
    module, _ = importer().run([("first", "Add", ["x", "w"])], "first")
    assert str(module["main"].body.span.source_name) == "first"


def test_all_unsupported_operators_are_listed_at_once():
    words = r"Toy operators(.|\n)*Bar .*2 nodes, first 'b'(.|\n)*Foo .*1 node, first 'a'"
    with pytest.raises(OpNotImplemented, match=words):
        importer().run([("a", "Foo", []), ("b", "Bar", []), ("c", "Bar", [])], "c")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([("b", "Broken", ["x"])], "Broken 'b': not understood: KeyError"),
        ([("b", "Add", ["x", "y"])], "Add 'b' uses 'y', which is neither an input"),
        ([("b", "Take", ["w", "x"])], "Take 'b': the indices must be constant at compile time.*depends on input 'x'"),
    ],
)
def test_errors_name_the_node(nodes, words):
    with pytest.raises(TVMError, match=words) as caught:
        importer().run(nodes, "b")
    assert (caught.type is OpAttributeInvalid) == ("understood" in words)


def test_an_open_size_that_a_converter_needs_is_named():
    with pytest.raises(TVMError, match="Flatten 'f': the shape .* of an input must be static"):
        importer(dims=(2, tvm.tir.Any(), 2)).run([("f", "Flatten", ["x"])], "f")


def test_an_inner_scope_sees_the_outer_values_and_ends():
    toy = importer()
    with toy.inner_scope() as values:
        values["x"] = "inner"
        toy.weight("v", np.zeros(1, "float32"))
        assert toy.value("x", "a test") == "inner" and toy.value("w", "a test") is toy.scopes[0]["w"]
        assert isinstance(toy.value("v", "a test"), relay.Constant)
    assert toy.value("x", "a test") is toy.inputs[0]
    with pytest.raises(TVMError, match="a test uses 'v', which is neither an input"):
        toy.value("v", "a test")


def test_a_schema_tells_fields_that_are_zero_from_fields_that_are_not_there():
    files = Schema("toy", "Pair: key 1 string, value 2 int32, rest 3* Pair\nEither: a 1 int32, b 2 Pair", ("Either",))
    pair = files.parse("Pair", b"\x0a\x01k\x10\x00", "the file")
    assert pair.HasField("value") and pair.value == 0 and not list(pair.rest)
    assert not files.parse("Pair", b"", "the file").HasField("key")
    assert files.parse("Either", b"\x08\x00", "the file").WhichOneof("value") == "a"
    for damaged in (b"\x0a\x02\xff\xfe", b"\x0a\x09k"):
        with pytest.raises(TVMError, match="cannot parse the file: the data is damaged"):
            files.parse("Pair", damaged, "the file")
