"""The program between Relay and the executors: its nodes, the lives of its values, and who writes it down."""

from __future__ import annotations

import json

import pytest

import tvm
from tvm import relay
from tvm.relay.backend import writers
from tvm.relay.backend.options import Executor
from tvm.relay.backend.program import Kind, Program


@pytest.fixture
def written():
    """Programs that a writer registered from outside has been given."""
    seen: list[writers.CompiledModel] = []

    def write(model: writers.CompiledModel) -> str:
        seen.append(model)
        return "written"

    Executor.register("list", {"verbose": bool})
    writers.register_writer("list", "cpp", write, {"verbose": "it is short"})
    yield seen
    del Executor.OPTIONS["list"], writers._WRITERS["list", "cpp"]


def module() -> tvm.IRModule:
    x = relay.var("x", shape=(2, 64))
    dense = relay.nn.dense(x, relay.const(tvm.nd.array([[1.0] * 64] * 16)))
    parts = relay.split(relay.nn.softmax(relay.reshape(dense, (4, 8))), 2, 1)
    return tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([parts[0], relay.exp(parts[1])])))


def program_of(mod: tvm.IRModule, written: list, target: str = "llvm") -> Program:
    assert relay.build(mod, target, executor="list") == "written"
    return written[-1].program


def test_a_writer_from_outside_gets_the_program(written):
    program = program_of(module(), written)
    kinds = [node.kind for node in program.nodes]
    assert kinds.count(Kind.INPUT) == 1 and kinds.count(Kind.VIEW) == 1 and Kind.COPY not in kinds
    assert kinds.count(Kind.CONSTANT) == len(program.constants) == 1
    called = {node.kernel.name for node in program.nodes if node.kind is Kind.KERNEL}
    assert called == {kernel.name for kernel in program.kernels} and program.copies == 0
    assert all(written[-1].library.implements_function(name) for name in called)
    assert len(program.outputs) == 2 and {node.device for node in program.nodes} == {1}


def test_an_option_that_a_writer_refuses_is_named(written, monkeypatch):
    with pytest.raises(tvm.TVMError, match="option verbose of list is not supported yet: it is short"):
        relay.build(module(), "llvm", executor=Executor("list", {"verbose": True}))
    with pytest.raises(tvm.TVMError, match="executor list requires the runtime cpp, got crt"):
        relay.build(module(), "llvm", executor="list", runtime="crt")
    monkeypatch.setitem(Executor.OPTIONS, "none", {})
    with pytest.raises(tvm.TVMError, match="executor none is not supported yet; use graph or aot or list for static"):
        relay.build(module(), "llvm", executor="none")
    with pytest.raises(ValueError, match="Executor 'list' is already registered"):
        Executor.register("list")
    with pytest.raises(ValueError, match="a writer for executor list and runtime cpp is already registered"):
        writers.register_writer("list", "cpp", writers.write_graph)


@pytest.mark.slow("compares all pairs of values of a whole network")
def test_values_that_live_at_once_do_not_share_bytes(written):
    """By brute force over all pairs, on a model whose results are views, parts and fields of tuples."""
    mod, params = relay.testing.squeezenet.get_workload(image_shape=(3, 64, 64))
    program = program_of(relay.transform.FoldConstant()(mod), written)
    plan, shared = program.plan, 0
    starts = program.first_entries()
    # A view is the same value as what it reads: both have one number.
    value = list(range(starts[-1]))
    for node, first in zip(program.nodes, starts):
        read = [starts[n] + i for n, i in node.inputs] if node.kind is Kind.VIEW else []
        same = {value[e] for e in [first, *read]}
        value = [first if v in same else v for v in value]
    for a, one in enumerate(plan.entries):
        assert 0 <= one.offset and one.offset + one.nbytes <= plan.sizes[one.storage] and one.first_use >= 0
        assert plan.devices[one.storage] == one.device
        for b, other in enumerate(plan.entries[:a]):
            if one.storage != other.storage:
                continue
            shared += 1
            apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
            alive = one.first_use < other.last_use and other.first_use < one.last_use
            assert apart or not alive or value[a] == value[b], (a, b)
    assert shared > 20


def test_the_graph_of_a_program_says_where_everything_lies(written):
    program = program_of(module(), written)
    graph = json.loads(relay.build(module(), "llvm").get_graph_json())
    assert graph["attrs"]["storage_id"][1] == [e.storage for e in program.plan.entries]
    assert graph["attrs"]["device_index"][1] == [node.device for node, _ in program.entries()]
    assert [n["name"] for n in graph["nodes"] if n["op"] == "null"] == ["x", *program.constants]
