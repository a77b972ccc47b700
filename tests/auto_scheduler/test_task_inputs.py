"""Arrays of the user's own: which input each goes to, and that measurements run on them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tvm
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler import SearchTask, _ffi_api
from tvm.auto_scheduler.measure import MeasureInput
from tvm.auto_scheduler.task_inputs import (
    TASK_INPUT_BUFFER_TABLE,
    TASK_INPUT_CHECK_FUNC_REGISTRY,
    get_task_input_buffer,
    names_of_inputs,
    register_task_input_check_func,
)
from tvm.runtime.measure import worker
from tvm.testing import auto_scheduler as workloads


@auto_scheduler.register_workload
def picked_for_task_inputs_test(n):
    """An element whose place is data: any other number than 0 is a place in memory that is not there."""
    x, place = te.placeholder((n,), "int32", name="X"), te.placeholder((1,), "int32", name="place")
    return [x, place, te.compute((1,), lambda i: x[place[i] * (1 << 24)], name="y")]


@pytest.fixture(autouse=True)
def no_arrays(monkeypatch):
    monkeypatch.setattr("tvm.auto_scheduler.task_inputs.TASK_INPUT_BUFFER_TABLE", {})
    monkeypatch.setattr("tvm.auto_scheduler.task_inputs.TASK_INPUT_CHECK_FUNC_REGISTRY", {})


def measured(task):
    inp = MeasureInput(task, task.compute_dag.init_state)
    built = auto_scheduler.LocalBuilder().build([inp])
    assert built[0].error_no == 0, built[0].error_msg
    return auto_scheduler.LocalRunner(number=1, min_repeat_ms=0).run([inp], built)[0]


def test_measurements_run_on_the_arrays_of_the_user():
    place = tvm.nd.array(np.zeros(1, "int32"))
    task = SearchTask(func=picked_for_task_inputs_test, args=(12,), target="llvm", task_inputs={"place": place})
    result = measured(task)
    assert result.error_no == 0, result.error_msg
    assert worker.example([1], "int32", 1) != [0], "without the array the place is another one"


def test_the_reference_of_a_measurement_runs_on_the_arrays_of_the_user():
    task = SearchTask(
        func=picked_for_task_inputs_test, args=(12,), target="llvm", task_inputs={"place": np.zeros(1, "int32")}
    )
    inp = MeasureInput(task, task.compute_dag.init_state)
    (built,) = auto_scheduler.LocalBuilder().build([inp])

    def reference():
        return task.compute_dag.apply_steps_from_state(inp.state)

    result = auto_scheduler.LocalRunner(number=1, min_repeat_ms=0).measure(task, built.made, reference)
    assert result.error_no == 0, result.error_msg


def test_an_array_of_another_shape_or_name_is_refused_in_words():
    def run(name, array):
        return measured(
            SearchTask(
                func=picked_for_task_inputs_test,
                args=(12,),
                target="llvm",
                task_inputs={name: array},
                task_inputs_overwrite=True,
            )
        )

    with pytest.raises(tvm.TVMError, match=r"'place' must be int32 of shape \(1,\), got float32 of shape \(2,\)"):
        run("place", np.zeros(2, "float32"))
    with pytest.raises(tvm.TVMError, match="the computation has no input 'where'; its inputs are X, place"):
        run("where", np.zeros(1, "int32"))


def test_the_first_array_of_a_name_stays_unless_it_is_to_be_replaced(caplog):
    def task(value, **kwargs):
        return SearchTask(
            func=picked_for_task_inputs_test,
            args=(4,),
            target="llvm",
            task_inputs={"place": np.array([value], "int32")},
            **kwargs,
        )

    key = task(1).workload_key
    task(2)
    assert get_task_input_buffer(key, "place").numpy() == [1] and "'place'" in caplog.text
    task(3, task_inputs_overwrite=True)
    assert get_task_input_buffer(key, "place").numpy() == [3]


def test_a_saved_array_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = np.array([7], "int32")
    task = SearchTask(
        func=picked_for_task_inputs_test,
        args=(9,),
        target="llvm",
        task_inputs={"place": array},
        task_inputs_save_to_file=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["place.1_int32.npy"]
    monkeypatch.setattr("tvm.auto_scheduler.task_inputs.TASK_INPUT_BUFFER_TABLE", {})
    assert get_task_input_buffer(task.workload_key, "place").numpy() == [7]
    with pytest.raises(ValueError, match="input 'plac' of .* does not exist"):
        get_task_input_buffer(task.workload_key, "plac")


def test_operations_and_functions_of_the_user_name_inputs():
    x, bias = te.placeholder((4, 8), name="x"), te.placeholder((4, 8), name="bias")
    data, columns = te.placeholder((5, 2, 1), name="placeholder"), te.placeholder((5,), "int32", name="placeholder")
    starts = te.placeholder((5,), "int32", name="placeholder")
    out = topi.add(topi.nn.sparse_dense(x, data, columns, starts), bias)
    tensors = [x, data, columns, starts, bias, out]
    prefix = "sparse_dense_bsr_8_8_2_1_5_5_"
    found = names_of_inputs(tensors)
    assert [found[t] for t in tensors[:5]] == [
        "x",
        *(prefix + name for name in ("W_data", "W_indices", "W_indptr")),
        "bias",
    ]

    @register_task_input_check_func("second")
    def second(args):
        return {args[0]: "mine"}

    assert names_of_inputs(tensors)[x] == "mine"
    with pytest.raises(RuntimeError, match="second' is already registered; pass override=True"):
        register_task_input_check_func("second", lambda args: {})
    assert register_task_input_check_func("second", second) is second, "the same function again is no other one"
    register_task_input_check_func("second", lambda args: {}, override=True)
    assert names_of_inputs(tensors)[x] == "x"


def test_records_and_other_processes_know_the_names():
    arrays = {f"input_{n}": np.zeros((2, 2), "float32") for n in range(2)}
    task = SearchTask(func=workloads.matmul_auto_scheduler_test, args=(4, 4, 4), target="llvm", task_inputs=arrays)
    inp = MeasureInput(task, task.compute_dag.init_state)
    result = auto_scheduler.MeasureResult([0.1], 0, "", 0.2, 1)
    text = auto_scheduler.measure_record.dump_record_to_string(inp, result)
    others = [
        _ffi_api.DeserializeSearchTask(_ffi_api.SerializeSearchTask(task)),
        auto_scheduler.measure_record.load_record_from_string(text)[0].task,
        copy.copy(task),
        MeasureInput.deserialize(inp.serialize()).task,
        auto_scheduler.measure.recover_measure_input(inp).task,
    ]
    for other in others:
        assert other.task_input_names == ("input_0", "input_1") and other.workload_key == task.workload_key
        assert str(other.target) == str(task.target) and other.hardware_params == task.hardware_params
        assert str(other.compute_dag) == str(task.compute_dag)


def test_tables_are_those_that_scripts_know():
    assert auto_scheduler.search_task.TASK_INPUT_BUFFER_TABLE is TASK_INPUT_BUFFER_TABLE
    assert isinstance(TASK_INPUT_CHECK_FUNC_REGISTRY, dict)
    assert auto_scheduler.register_task_input_check_func is register_task_input_check_func
