"""Plain C whose parallel loops call a function of the program: outputs equal the graph executor's on any number of
threads."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay import random_graphs
from tests.relay.backend.aot.test_plain import INTERFACES, VALUES, network, reference
from tvm import relay
from tvm.relay.backend import Executor, Runtime
from tvm.testing.aot_program import MODEL_FLAGS, Extras, Program

# A parallel-for of a program: each thread runs a range of iterations; THREADS threads, in the reverse order.
THREADS = """
#include <pthread.h>
#include <stdlib.h>

typedef struct {
  int32_t (*body)(void*, int32_t, int32_t);
  void* data;
  int32_t begin, end, status;
} Range;

static void* run_range(void* given) {
  Range* range = (Range*)given;
  range->status = range->body(range->data, range->begin, range->end);
  return 0;
}

static int32_t on_threads(int32_t (*body)(void*, int32_t, int32_t), void* data, int32_t count) {
  pthread_t threads[THREADS];
  Range ranges[THREADS];
  int32_t status = 0;
  for (int i = THREADS - 1; i >= 0; --i) {
    Range range = {body, data, count * i / THREADS, count * (i + 1) / THREADS, 0};
    ranges[i] = range;
    if (pthread_create(&threads[i], 0, run_range, &ranges[i])) abort();
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], 0);
    status |= ranges[i].status;
  }
  return status;
}

static int32_t fails(int32_t (*body)(void*, int32_t, int32_t), void* data, int32_t count) {
  (void)body, (void)data, (void)count;
  return 1;
}
"""


def compiled(mod, name="m", interface="c", target="c"):
    runtime = Runtime("crt", {"parallel-for": True})
    executor = Executor("aot", INTERFACES[interface])
    return relay.build(mod, target, executor=executor, runtime=runtime, mod_name=name).plain_model


def program_of(models, folder, function="on_threads", threads=3, flags=MODEL_FLAGS) -> Program:
    (folder / "on_threads.h").write_text(THREADS)
    parameters = "(int32_t (*)(void*, int32_t, int32_t), void*, int32_t)"
    lines = []
    for model in models:
        variable = f"{model.interface.prefix}_parallel_for"
        declared = [] if model.header else [f"  extern int32_t (*{variable}){parameters};"]
        lines += [*declared, f"  {variable} = {function};"]
    lines.append("  (void)fails, (void)on_threads;")
    made = Program(models, folder, Extras("\n".join(lines), "", ["on_threads.h"], {"THREADS": str(threads)}))
    made.build(flags)
    return made


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_network_on_threads(interface, tmp_path):
    model = compiled(network(), interface=interface)
    assert model.text.count("if (tvm_parallel_for(") > 0 and "pthread" not in model.text
    program = program_of([model], tmp_path)
    np.testing.assert_array_equal(program.run("m", VALUES)[0], reference(network(), VALUES, "c")[0])


def test_without_a_function_the_loops_run_on_the_calling_thread(tmp_path):
    program = program_of([compiled(network())], tmp_path, "0")
    np.testing.assert_array_equal(program.run("m", VALUES)[0], reference(network(), VALUES, "c")[0])


def test_a_function_that_cannot_start_threads_ends_the_run(tmp_path):
    program = program_of([compiled(network())], tmp_path, "fails")
    with pytest.raises(tvm.TVMError, match="run returned -1"):
        program.run("m", VALUES)


def test_random_graphs_have_no_data_races(seed, tmp_path):
    models, wanted = [], {}
    for case in range(4):
        number = seed * 1000 + case
        mod, given = random_graphs.graph(number)
        values = dict(zip((p.name_hint for p in mod["main"].params), given))
        wanted[f"g{case}"] = number, values, reference(mod, values, "c")
        models.append(compiled(mod, f"g{case}"))
    program = program_of(models, tmp_path, threads=5)
    for name, (number, values, outputs) in wanted.items():
        for a, b in zip(outputs, program.run(name, values), strict=True):
            np.testing.assert_array_equal(a, b, f"random graph {number}")


def test_the_option_requires_c():
    with pytest.raises(tvm.TVMError, match="option parallel-for of crt requires target c"):
        compiled(network(), target="llvm")
    with pytest.raises(
        tvm.TVMError, match='"parallel-for" is not available on this Runtime; options of cpp: system-lib'
    ):
        Runtime("cpp", {"parallel-for": True})
    plain = relay.build(network(), "c", executor=Executor("aot", INTERFACES["c"]), runtime=Runtime("crt")).plain_model
    assert "parallel_for" not in plain.text + plain.header
