"""Where the graph executor finds its inputs and leaves its outputs, against a plain model of what was asked for."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import TVMError

SHAPE = (4, 16)
NAMES = ("x", "y", "w")
# Random sequences of calls; `python -m tools fuzz programs` asks for more.
SEQUENCES = int(os.environ.get("TVM_FUZZ_CASES", "250"))


def results(x, y, w) -> list[np.ndarray]:
    value = np.maximum(x * w + y, 0)
    return [value, x.reshape(16, 4), -value, value, np.concatenate([x + y, x * y], 0), x + y, y, value]


# Outputs that are views of an input: they show the input as it is, not as it was at the last run.
VIEWS = {1: "x", 6: "y"}


@pytest.fixture(scope="module")
def lib():
    x, y, w = (relay.var(n, shape=SHAPE) for n in NAMES)
    value = relay.nn.relu(x * w + y)
    total = x + y
    outputs = [
        value,
        relay.reshape(x, (16, 4)),
        relay.negative(value),
        value,
        relay.concatenate([total, x * y], 0),
        total,
        y,
        value,
    ]
    return relay.build(tvm.IRModule.from_expr(relay.Function([x, y, w], relay.Tuple(outputs))), "llvm")


def random_array(rng, dtype="float32") -> np.ndarray:
    return rng.integers(-8, 9, SHAPE).astype(dtype)


class Cell:
    """Memory that holds one value."""

    def __init__(self, value):
        self.value = value


class Model:
    """What an executor must do, in NumPy: each input has memory of its own and may be lent an array."""

    def __init__(self, executor):
        self.executor = executor
        self.own = {name: Cell(None) for name in NAMES}
        self.lent: dict = dict.fromkeys(NAMES)
        self.targets: dict = {}
        self.outputs: dict = {}

    def current(self, name) -> np.ndarray:
        return self.own[name].value if self.lent[name] is None else self.lent[name].numpy()

    def set(self, rng, name):
        kind = rng.integers(5)
        value = random_array(rng, "float64" if kind == 3 else "float32")
        if kind == 0:
            self.executor.set_input(name, value)
        elif kind == 1:
            self.executor.set_input(NAMES.index(name), tvm.nd.array(value))
        elif kind == 2:
            self.executor.set_input(**{name: value})
        elif kind == 3:
            self.executor.set_input(name, tvm.nd.array(value))
        else:
            self.executor.set_input(name, value.astype("int32"))
        self.own[name].value, self.lent[name] = value.astype("float32"), None

    def lend(self, rng, name, pool):
        array = pool[rng.integers(len(pool))]
        self.executor.set_input_zero_copy(name, array)
        self.lent[name] = array

    def lend_output(self, rng):
        number = int(rng.integers(8))
        shape = self.executor.get_output(number).shape
        array = tvm.nd.array(np.full(shape, 99, "float32"))
        self.executor.set_output_zero_copy(number, array)
        self.targets[number] = Cell(np.full(shape, 99, "float32")), array
        self.outputs.clear()

    def share(self, name, other):
        blob = tvm.runtime.save_param_dict({name: tvm.nd.array(np.zeros(SHAPE, "float32"))})
        self.executor.share_params(other.executor, blob)
        # An array the other was lent is copied.
        shared = other.own[name] if other.lent[name] is None else Cell(other.current(name))
        self.own[name], self.lent[name] = shared, None

    def run(self, rng):
        if rng.integers(3) == 0:
            name = NAMES[rng.integers(3)]
            value = random_array(rng)
            self.executor.run(**{name: value})
            self.own[name].value, self.lent[name] = value, None
        else:
            self.executor.run()
        self.outputs = dict(enumerate(results(*(self.current(n) for n in NAMES))))
        for number, (cell, _) in self.targets.items():
            cell.value = self.outputs[number]

    def check(self):
        for name in NAMES:
            np.testing.assert_array_equal(self.executor.get_input(name).numpy(), self.current(name))
        for number, want in self.outputs.items():
            want = self.current(VIEWS[number]).reshape(want.shape) if number in VIEWS else want
            np.testing.assert_array_equal(self.executor.get_output(number).numpy(), want, err_msg=str(number))
        for number, (cell, array) in self.targets.items():
            np.testing.assert_array_equal(array.numpy(), cell.value, err_msg=str(number))


def test_random_sequences_of_setting_lending_sharing_and_running_follow_the_model(lib, rng):
    pool = [tvm.nd.array(random_array(rng)) for _ in range(3)]
    for _ in range(SEQUENCES):
        models = [Model(graph_executor.GraphModule(lib["default"](tvm.cpu()))) for _ in range(2)]
        for model in models:
            for name in NAMES:
                model.set(rng, name)
        for _ in range(14):
            model, other = models if rng.integers(2) else models[::-1]
            name = NAMES[rng.integers(3)]
            step = rng.integers(12)
            if step < 3:
                model.set(rng, name)
            elif step < 5:
                model.lend(rng, name, pool)
            elif step == 5:
                pool[rng.integers(3)].copyfrom(random_array(rng))
            elif step == 6:
                model.lend_output(rng)
            elif step == 7 and model.own[name] is not other.own[name]:
                model.share(name, other)
            elif step < 11:
                model.run(rng)
            else:
                model.check()
        for model in models:
            model.run(rng)
            model.check()


def test_an_input_that_was_lent_can_be_set_again(lib, rng):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    x, y, w = (random_array(rng) for _ in NAMES)
    executor.set_input(y=y, w=w)
    executor.set_input_zero_copy("x", tvm.nd.array(x))
    executor.run()
    for given in (x + 1, tvm.nd.array((x + 2).astype("float64")), tvm.nd.array(x + 3)):
        executor.set_input("x", given)
        executor.run()
        want = given.numpy() if isinstance(given, tvm.nd.NDArray) else given
        np.testing.assert_array_equal(executor.get_output(0).numpy(), results(want, y, w)[0])


def test_a_refused_input_leaves_the_lent_one_in_place(lib, rng):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    x, y, w = (random_array(rng) for _ in NAMES)
    executor.set_input(y=y, w=w)
    executor.set_input_zero_copy("x", tvm.nd.array(x))
    with pytest.raises(ValueError, match="has shape"):
        executor.set_input("x", np.zeros(3, "float32"))
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), results(x, y, w)[0])


def test_outputs_that_are_one_value_fill_every_array_lent_for_them(lib, rng):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    x, y, w = (random_array(rng) for _ in NAMES)
    arrays = {i: tvm.nd.array(np.zeros(SHAPE, "float32")) for i in (0, 3, 7)}
    for number, array in arrays.items():
        executor.set_output_zero_copy(number, array)
    executor.run(x=x, y=y, w=w)
    for array in arrays.values():
        np.testing.assert_array_equal(array.numpy(), results(x, y, w)[0])


def test_an_output_that_is_a_part_of_another_does_not_take_its_memory(lib, rng):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    x, y, w = (random_array(rng) for _ in NAMES)
    part, whole = tvm.nd.array(np.zeros(SHAPE, "float32")), tvm.nd.array(np.zeros((8, 16), "float32"))
    executor.set_output_zero_copy(5, part)
    executor.set_output_zero_copy(4, whole)
    executor.run(x=x, y=y, w=w)
    np.testing.assert_array_equal(part.numpy(), results(x, y, w)[5])
    np.testing.assert_array_equal(whole.numpy(), results(x, y, w)[4])


@pytest.mark.parametrize("number", [2**31, 2**32, 2**40, -(2**32), -1])
def test_numbers_of_inputs_are_not_cut_short(lib, number):
    module = lib["default"](tvm.cpu())
    for name in ("get_input", "get_input_name", "describe_input", "get_output"):
        with pytest.raises(TVMError, match="there is no|out of range"):
            module[name](number)


def hostile(graph: dict, entry: int, **changes) -> str:
    changed = json.loads(json.dumps(graph))
    for key, value in changes.items():
        changed["attrs"].setdefault(key, ["list_int", [0] * len(changed["attrs"]["storage_id"][1])])[1][entry] = value
    return json.dumps(changed)


def test_a_lent_array_must_cover_every_value_of_its_storage(lib):
    graph = json.loads(lib.get_graph_json())
    ids = graph["attrs"]["storage_id"][1]
    small = json.loads(json.dumps(graph))
    # An input of no elements whose storage other entries share.
    small["attrs"]["shape"][1][0] = [0, 16]
    small["attrs"]["storage_id"][1] = [ids[0] if i == len(ids) - 1 else s for i, s in enumerate(ids)]
    executor = graph_executor.create(json.dumps(small), lib.get_lib(), tvm.cpu())
    with pytest.raises(TVMError, match="'x' cannot be used in place: the graph also stores other values in its memory"):
        executor.set_input_zero_copy("x", tvm.nd.array(np.zeros((0, 16), "float32")))
    with pytest.raises(TVMError, match="cannot be used in place"):
        executor.module["share_arrays"]("x", tvm.nd.array(np.zeros((0, 16), "float32")))


def test_offsets_beyond_31_bits_are_taken_as_they_are(lib):
    graph = json.loads(lib.get_graph_json())
    with pytest.raises(TVMError, match="allocate|memory|does not fit"):
        graph_executor.create(hostile(graph, 0, storage_offset=2**62), lib.get_lib(), tvm.cpu())
    with pytest.raises(TVMError, match="'storage_offset' contains an invalid number"):
        graph_executor.create(hostile(graph, 0, storage_offset=-1), lib.get_lib(), tvm.cpu())
