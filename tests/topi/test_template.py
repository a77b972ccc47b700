"""Templates are classes with declared parts, found by the tag of a stage and the type of its results."""

from __future__ import annotations

import pytest

import tvm
from tvm import te, topi
from tvm.topi.cpu import matmul
from tvm.topi.gpu import depthwise, gemm, tensor_cores
from tvm.topi.schedule import cpu, gpu
from tvm.topi.template import CPUTemplate, GPUTemplate, Knobs


def test_a_template_without_one_of_its_parts_is_refused():
    class Nothing(CPUTemplate):
        tags = ("nothing",)

        def applies(self, op):
            return True

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


def test_every_template_is_found_by_its_tags():
    for tag, found in cpu.TEMPLATES.items():
        assert found and all(isinstance(t, CPUTemplate) and tag in t.tags for t in found)
    for tag, template in gpu.TEMPLATES.items():
        assert isinstance(template, GPUTemplate) and tag in template.tags


def test_a_template_of_cpus_for_one_type_of_results_is_taken_for_that_type(monkeypatch):
    seen = []

    class OfIntegers(matmul.Matmul):
        dtypes = frozenset({"int32"})

        def apply(self, planner, stage, host, config):
            seen.append(stage.op.output(0).dtype)
            super().apply(planner, stage, host, config)

    own = {**cpu.TEMPLATES, "batch_matmul": [OfIntegers(), *cpu.TEMPLATES["batch_matmul"]]}
    monkeypatch.setattr(cpu, "TEMPLATES", own)
    target = tvm.target.Target("llvm")
    for dtype in ("float32", "int32"):
        a, b = te.placeholder((2, 8, 16), dtype), te.placeholder((2, 8, 16), dtype)
        out = topi.nn.batch_matmul(a, b)
        tvm.lower(topi.schedule.schedule_for([out], target), [a, b, out])
    assert seen == ["int32"]


@pytest.mark.parametrize("template, problem", [
    (gemm.TEMPLATE, gemm.Sizes(1, 512, 512, 512, 4)), (tensor_cores.TEMPLATE, gemm.Sizes(1, 512, 512, 512, 2)),
    (depthwise.TEMPLATE, depthwise.Sizes(1, 32, 56, 56, (3, 3), (1, 1), 1, False, 4)),
])  # fmt: skip
def test_the_choice_of_a_gpu_template_is_valid_and_costs_least_of_some(template, problem):
    machine = gpu.Machine(tvm.target.Target("cuda -arch=sm_80"))
    assert isinstance(template, Knobs)
    chosen, space = template.choose(problem, machine), template.space(problem, machine)
    assert template.valid(problem, machine, chosen) and all(chosen[name] in space[name] for name in space)
    for name, values in space.items():
        for value in values:
            other = {**chosen, name: value}
            if template.valid(problem, machine, other):
                assert template.cost(problem, machine, other) >= template.cost(problem, machine, chosen)
