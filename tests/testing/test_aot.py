"""``tvm.testing.aot``: test models are compiled to C, built, run and compared."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.backend import Executor, Runtime
from tvm.testing import aot
from tvm.testing.aot import AOTDataLinkage, AOTTestModel, AOTTestRunner


def model(name="default", **more) -> AOTTestModel:
    x, w = relay.var("x", shape=(3, 5)), relay.var("w", shape=(4, 5))
    body = relay.nn.dense(relay.exp(x), w)
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.Tuple([body, relay.sum(body)])))
    rng = np.random.default_rng(0)
    inputs = {"x": rng.normal(size=(3, 5)).astype("float32")}
    params = {"w": rng.normal(size=(4, 5)).astype("float32")}
    product = np.exp(inputs["x"]) @ params["w"].T
    return AOTTestModel(mod, inputs, {"output0": product, "output1": product.sum()}, name=name, params=params, **more)


@pytest.mark.parametrize("interface, unpacked", [("c", True), ("packed", False), ("packed", True)])
def test_compile_and_run(interface, unpacked):
    assert aot.compile_and_run(model(), AOTTestRunner(), interface, unpacked, debug_calculated_workspaces=True)


def test_several_models_and_the_parts_of_a_runner(tmp_path, capsys):
    (tmp_path / "extra.h").write_text("#define EXTRA 1\n")
    runner = AOTTestRunner(
        prologue='  if (EXTRA != 1 || NUMBER != 7) return 9;\n  fprintf(stdout, "begin");',
        epilogue='  fprintf(stdout, "end");',
        includes=["extra.h"], parameters={"NUMBER": "7"}, pass_config={"tir.disable_storage_rewrite": True},
    )  # fmt: skip
    linkage = AOTDataLinkage(".data.tensors", 32)
    assert aot.compile_and_run(
        [model("one"), model("two")],
        runner,
        "c",
        True,
        data_linkage=linkage,
        test_dir=str(tmp_path),
        verbose=True,
        target_opts={"constants-byte-alignment": 8},
    )
    text = (tmp_path / "main.c").read_text()
    assert 'section(".data.tensors"), aligned(32)' in text and text in capsys.readouterr().out
    assert (tmp_path / "tvmgen_two.h").exists()


def test_a_checker_gets_the_folder():
    seen = []
    aot.compile_and_run(model(), AOTTestRunner(), "c", True, checker=lambda folder: seen.append(folder) or True)
    assert len(seen) == 1


def test_operators_are_not_fused_where_a_test_asks():
    (compiled,) = aot.compile_models(model(), "c", True, enable_op_fusion=False)
    assert "/* exp */" in compiled.executor_factory.plain_model.text
    assert aot.run_and_check([compiled], AOTTestRunner(), "c")


def test_an_incorrect_output_is_found(capsys):
    wrong = model()._replace(outputs={"output0": np.zeros((3, 4), "float32"), "output1": np.float32(0)})
    with pytest.raises(AssertionError, match="model 'default', output 'output0'"):
        aot.compile_and_run(wrong, AOTTestRunner(), "c", True)
    assert aot.compile_and_run(wrong._replace(output_tolerance=1e6), AOTTestRunner(), "c", True)
    missing = model()._replace(inputs={})
    with pytest.raises(tvm.TVMError, match="model 'default': the inputs x are missing"):
        aot.compile_and_run(missing, AOTTestRunner(), "c", True, debug_last_error=True)
    assert "the inputs x are missing" in capsys.readouterr().out
    early = AOTTestRunner(prologue="  return 5;")
    with pytest.raises(tvm.TVMError, match="the program ended with status 5"):
        aot.compile_and_run(model(), early, "c", True)


def test_reference_data():
    found = aot.generate_ref_data(model().module, model().inputs, model().params)
    assert list(found) == ["output0", "output1"]
    np.testing.assert_allclose(found["output0"], model().outputs["output0"], rtol=1e-5)
    x = relay.var("x", shape=(2,))
    ((name, value),) = aot.generate_ref_data(relay.Function([x], x + x), {"x": np.ones(2, "float32")}).items()
    assert name == "output" and value.tolist() == [2, 2]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"runner": AOTTestRunner(makefile="corstone300")}, "unknown runner 'corstone300'; use 'default'"),
        ({"use_runtime_executor": False}, "use_runtime_executor=False is not supported"),
        ({"schedule_name": "s"}, "schedule_name is not supported: it requires MetaSchedule"),
    ],
)
def test_options_that_are_not_supported(options, words):
    with pytest.raises(tvm.TVMError, match=words):
        aot.compile_and_run(
            model(), **{"runner": AOTTestRunner(), "interface_api": "c", "use_unpacked_api": True, **options}
        )


def test_what_a_caller_states_must_agree_with_the_models():
    compiled = aot.compile_models(model(), "c", True, workspace_byte_alignment=32)
    with pytest.raises(tvm.TVMError, match="compiled with workspace-byte-alignment 32, not 8"):
        aot.run_and_check(compiled, AOTTestRunner(), "c")
    with pytest.raises(tvm.TVMError, match="compiled with interface-api c, not packed"):
        aot.run_and_check(compiled, AOTTestRunner(), "packed", workspace_byte_alignment=32)
    with pytest.raises(tvm.TVMError, match="compiled with tir.usmp.use_workspace_io False, not True"):
        aot.run_and_check(compiled, AOTTestRunner(), "c", workspace_byte_alignment=32, use_workspace_io=True)


def test_a_model_that_does_not_compile_is_alone_in_its_program(tmp_path):
    batch = aot.PlainBatch(tmp_path)
    x = relay.var("x", shape=(3,))
    runners = [batch.add(tvm.IRModule.from_expr(relay.Function([x], f(x))), {}) for f in (relay.exp, relay.tanh)]
    batch.waiting[0] = batch.waiting[0]._replace(text="#error broken\n")
    for runner in runners:
        runner.set_input("x", np.ones(3, "float32"))
    for _ in range(2):
        with pytest.raises(tvm.TVMError, match="broken"):
            runners[0].run()
    runners[1].run()
    np.testing.assert_allclose(runners[1].get_output(0).numpy(), np.tanh(np.ones(3)), rtol=1e-6)
    assert runners[1].get_num_outputs() == 1


def test_ranges_of_types():
    assert aot.get_dtype_range("int8") == (-128, 127) and aot.get_dtype_range("float32") == (-1, 1)


def test_a_workspace_is_compared_with_its_plan(tmp_path):
    (compiled,) = aot.compile_models(model(), "c", True, enable_op_fusion=False)
    plain = compiled.executor_factory.plain_model
    (pool,) = plain.interface.memory
    larger = plain._replace(interface=plain.interface._replace(memory=[pool._replace(nbytes=pool.nbytes + 16)]))
    compiled.executor_factory.plain_model = larger
    with pytest.raises(tvm.TVMError, match=f"the object file, but its planned size is {pool.nbytes + 16} bytes"):
        aot.run_and_check([compiled], AOTTestRunner(), "c", debug_calculated_workspaces=True)
    allowed = compiled._replace(model=compiled.model._replace(extra_memory_in_bytes=16))
    assert aot.run_and_check([allowed], AOTTestRunner(), "c", debug_calculated_workspaces=True)


def test_references_agree_with_the_runtime():
    lib = relay.build(model().module, "llvm", params=model().params, executor=Executor("aot"), runtime=Runtime("cpp"))
    assert set(lib.get_params()) == {"p0"}
