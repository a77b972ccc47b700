"""AutoTVM on boards: archives of candidates, the loader of their programs, and the runner with errors."""

from __future__ import annotations

import json
import shutil
import tarfile
import time

import pytest

import tvm
from tvm import autotvm, micro, te
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput
from tvm.micro import tune
from tvm.relay.backend import Runtime

HOST = micro.get_microtvm_template_projects("crt")
TARGET = tvm.target.target.micro("host")


@autotvm.template("test/micro_product")
def product(n, k, m):
    a, b = te.placeholder((n, k), name="a", dtype="int8"), te.placeholder((k, m), name="b", dtype="int8")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), r), name="c")
    s = te.create_schedule(c.op)
    config = autotvm.get_config()
    config.define_split("tile", s[c].op.axis[1], num_outputs=2)
    config["tile"].apply(s, c, s[c].op.axis[1])
    config.add_flop(2 * n * k * m)
    return s, [a, b, c]


@pytest.fixture(scope="module")
def task():
    return autotvm.task.create("test/micro_product", (5, 7, 6), TARGET)


def builder() -> autotvm.LocalBuilder:
    return autotvm.LocalBuilder(
        n_parallel=1, build_kwargs={"build_option": {"tir.disable_vectorize": True}}, do_fork=True,
        build_func=micro.autotvm_build_func, runtime=Runtime("crt", {"system-lib": True}),
    )  # fmt: skip


def inputs_of(task, *indices: int) -> list[MeasureInput]:
    return [MeasureInput(task.target, task, task.config_space.get(index)) for index in indices]


def test_candidates_are_measured_and_verified(task):
    loader = micro.AutoTvmModuleLoader(HOST, {"warning_as_error": True})
    runner = autotvm.LocalRunner(number=3, repeat=2, timeout=60, module_loader=loader, verify=True)
    given = inputs_of(task, 0, 3)
    made = builder()
    results = runner.run(given, made.build(given))
    assert [result.error_no for result in results] == [MeasureErrorNo.NO_ERROR] * 2, results
    assert all(len(result.costs) == 2 and result.costs[0] >= 0 for result in results)


def test_an_archive_of_a_candidate(task):
    made = builder()
    (built,) = made.build(inputs_of(task, 1))
    with tarfile.open(built.filename) as archive:
        metadata = json.loads(archive.extractfile("metadata.json").read())
        source = archive.extractfile("codegen/host/src/candidate.c").read().decode()
    (model,) = metadata["modules"].values()
    inputs = model["memory"]["functions"]["main"][0]["inputs"]
    assert model["system_lib"] and [row["size"] for row in inputs.values()] == [48, 48, 128]
    assert 'tvm_crt_functions[] = {\n    {"default_function", call_0, 3' in source


def test_a_candidate_that_takes_too_long(task, tmp_path):
    class Slow(micro.AutoTvmModuleLoader):
        def __call__(self, remote_kw, build_result):
            return super().__call__({"timeout": 0.2}, build_result)

    template = tmp_path / "slow"
    shutil.copytree(HOST, template)
    platform = template / "src" / "platform.c"
    platform.write_text(platform.read_text().replace("uint32_t TVMPlatformTimeMicroseconds(void) {",
                        "uint32_t TVMPlatformTimeMicroseconds(void) {\n  if (stdout) for (;;) {}"))  # fmt: skip
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=60, module_loader=Slow(template))
    given, made, begin = inputs_of(task, 0), builder(), time.monotonic()
    (result,) = runner.run(given, made.build(given))
    assert result.error_no == MeasureErrorNo.RUN_TIMEOUT and "took more than 0.2 s" in str(result.costs[0])
    assert time.monotonic() - begin < 30


def test_a_program_that_does_not_build(task):
    loader = micro.AutoTvmModuleLoader(HOST, {"compile_definitions": "tvm_crt_functions=)"})
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=60, module_loader=loader)
    given, made = inputs_of(task, 0), builder()
    (result,) = runner.run(given, made.build(given))
    assert result.error_no == MeasureErrorNo.COMPILE_DEVICE and "building" in str(result.costs[0])


def test_values_that_are_not_supported(task, tmp_path):
    with pytest.raises(tvm.TVMError, match="autotvm_build_func is a value for LocalBuilder"):
        micro.autotvm_build_func()
    with pytest.raises(tvm.TVMError, match="enable_cpu_cache_flush is not supported together with module_loader"):
        autotvm.LocalRunner(module_loader=micro.AutoTvmModuleLoader(HOST), enable_cpu_cache_flush=True)
    with task.target:
        schedule, args = task.instantiate(task.config_space.get(0))
    with pytest.raises(tvm.TVMError, match="AutoTVM on boards requires target c, got llvm"):
        tune.write_candidate(str(tmp_path / "c.tar"), schedule, args, tvm.target.Target("llvm"), "f")
    with pytest.raises(tvm.TVMError, match="the outputs of a template are its last arguments"):
        tune.write_candidate(str(tmp_path / "c.tar"), schedule, args[::-1], task.target, "f")


def test_names_of_the_build_module():
    from tvm.micro import build

    assert build.AutoTvmModuleLoader is micro.AutoTvmModuleLoader
    assert build.autotvm_build_func is micro.autotvm_build_func
