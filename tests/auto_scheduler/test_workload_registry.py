"""Workloads: functions and tensors by keys."""

from __future__ import annotations

import json

import pytest

import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler import utils, workload_registry
from tvm.auto_scheduler.workload_registry import WORKLOAD_FUNC_REGISTRY
from tvm.testing import auto_scheduler as workloads


@pytest.fixture(autouse=True)
def registry():
    before = dict(WORKLOAD_FUNC_REGISTRY)
    yield
    WORKLOAD_FUNC_REGISTRY.clear()
    WORKLOAD_FUNC_REGISTRY.update(before)


def test_a_key_is_the_name_and_the_arguments():
    key = auto_scheduler.make_workload_key(workloads.matmul_auto_scheduler_test, (4, 5, 6))
    assert key == '["matmul_auto_scheduler_test", 4, 5, 6]'
    assert auto_scheduler.make_workload_key("matmul_auto_scheduler_test", (4, 5, 6)) == key
    renamed = "matmul_auto_scheduler_test_rename_1"
    assert json.loads(auto_scheduler.make_workload_key(renamed, (4, 5, 6)))[0] == renamed


def test_tensors_as_arguments_are_written_by_shape_and_type():
    @auto_scheduler.register_workload("doubled")
    def doubled(x, pads):
        assert pads == (1, (2, "same"), None)
        return [x, te.compute(x.shape, lambda *i: x(*i) * 2, name="out")]

    key = auto_scheduler.make_workload_key("doubled", (te.placeholder((3, 4), "int32"), [1, (2, "same"), None]))
    assert json.loads(key) == ["doubled", ["TENSOR", [3, 4], "int32"], [1, [2, "same"], None]]
    x, out = workload_registry.workload_key_to_tensors(key)
    assert (utils.get_const_tuple(x.shape), x.dtype, out.name) == ((3, 4), "int32", "out")


def test_a_name_is_registered_once_unless_it_is_said():
    def make(n):
        return [te.placeholder((n,), name="A")]

    auto_scheduler.register_workload("taken", make)
    auto_scheduler.register_workload("taken", make)
    with pytest.raises(RuntimeError, match="'taken' is already registered"):
        auto_scheduler.register_workload("taken", lambda n: n)
    auto_scheduler.register_workload("taken", lambda n: n, override=True)


def test_what_is_not_registered_is_named():
    with pytest.raises(ValueError, match="'nothing' is not registered"):
        auto_scheduler.make_workload_key("nothing", ())
    with pytest.raises(tvm.TVMError, match="the workload 'nothing' is not registered"):
        auto_scheduler.ComputeDAG('["nothing", 1]')
    with pytest.raises(tvm.TVMError, match="a workload key must be a JSON list that begins with a name"):
        auto_scheduler.ComputeDAG("nothing")
    with pytest.raises(RuntimeError, match="a workload argument must be a tensor, a number"):
        auto_scheduler.make_workload_key(workloads.matmul_auto_scheduler_test, ({},))


def test_registered_tensors_travel_as_text():
    dag = auto_scheduler.ComputeDAG(workloads.matmul_auto_scheduler_test(4, 5, 6))
    key = dag.workload_key()
    assert workload_registry.register_workload_tensors(key, dag.tensors) == key
    text = workload_registry.serialize_workload_registry_entry(key)
    del WORKLOAD_FUNC_REGISTRY[key]
    workload_registry.deserialize_workload_registry_entry(text)
    assert str(auto_scheduler.ComputeDAG(key)) == str(dag)
    of_function = workload_registry.serialize_workload_registry_entry('["matmul_auto_scheduler_test", 4, 5, 6]')
    workload_registry.deserialize_workload_registry_entry(of_function)
    del WORKLOAD_FUNC_REGISTRY["matmul_auto_scheduler_test"]
    workload_registry.deserialize_workload_registry_entry(of_function)
    assert WORKLOAD_FUNC_REGISTRY["matmul_auto_scheduler_test"] is workloads.matmul_auto_scheduler_test
    elsewhere = of_function.replace("matmul_auto", "no_matmul_auto")
    with pytest.raises(tvm.TVMError, match="function no_matmul_auto_scheduler_test of module .* was not found"):
        workload_registry.deserialize_workload_registry_entry(elsewhere)


def test_sizes_of_workloads_compare_where_one_divides_the_other():
    def pair(*values):
        return utils.decode_workload_key(json.dumps(["conv", *values]))

    assert pair(1, [2, 3], "NCHW") == ("conv", (1, 2, 3, "NCHW"))
    assert utils.decode_workload_key("text") == ("text", None)
    factor = utils.calc_workload_dis_factor
    assert factor(pair([8, 4], "NCHW"), pair([2, 4], "NCHW")) == 4
    assert factor(pair([2, 4]), pair([8, 4])) == float("inf")
    assert factor(pair([8, 0]), pair([2, 0])) == 4
    assert factor(pair([8, 0]), pair([8, 1])) == factor(pair([8, 1]), pair([8, 0])) == float("inf")
    assert factor(pair(8, "NCHW"), pair(8, "NHWC")) == float("inf")
    assert factor(pair(8), ("other", (8,))) == float("inf")


def test_arguments_travel_as_plain_values():
    A = te.placeholder((4, 5), "int8", name="A")
    plain = utils.serialize_args([A, [1, [2, 3]], "NCHW", 2.5, tvm.tir.IntImm("int32", 7)])
    assert plain == (("TENSOR", (4, 5), "int8"), (1, (2, 3)), "NCHW", 2.5, 7) and hash(plain) is not None
    made, *rest = utils.deserialize_args(plain)
    assert isinstance(made, te.Tensor) and (list(made.shape), made.dtype) == ([4, 5], "int8")
    assert rest == [(1, (2, 3)), "NCHW", 2.5, 7]


def test_numbers_are_averaged_and_written():
    assert utils.list_to_tuple([1, [2, [3]]]) == (1, (2, (3,)))
    assert utils.array_mean([tvm.tir.FloatImm("float32", 1.0), 2.0]) == 1.5
    assert utils.to_str_round([1, 0.123456789, "x", (2.0,)], 3) == "[1, 0.123, x, [2.000]]"
    assert utils.to_str_round({"a": 0.5}, 1) == "{'a': '0.5'}"


def test_a_device_that_no_tracker_lends_is_not_there(monkeypatch):
    monkeypatch.delenv("TVM_TRACKER_HOST", raising=False)
    monkeypatch.setenv("TVM_TRACKER_PORT", "9190")
    with pytest.raises(tvm.TVMError, match="the address of the tracker for 'board' is unknown.*TVM_TRACKER_HOST"):
        utils.request_remote("board")
    monkeypatch.delenv("TVM_TRACKER_PORT")
    with pytest.raises(tvm.TVMError, match="TVM_TRACKER_PORT"):
        utils.request_remote("board", host="127.0.0.1")
    assert not utils.check_remote("board", "127.0.0.1", 1, timeout=5)
