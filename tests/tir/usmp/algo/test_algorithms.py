"""Plans of all algorithms: valid, as small as published, the default one close to the optimum."""

from __future__ import annotations

import itertools
import random

import onnx
import pytest

import tvm
from tests.relay.frontend.model_files import model_file
from tests.tir.usmp.algo.exact import smallest_peak
from tests.tir.usmp.programs import (
    buffers_of,
    linear_structure,
    peak,
    pool,
    random_intervals,
    resnet_structure,
    with_pools,
)
from tvm import relay
from tvm.error import TVMError
from tvm.relay import testing
from tvm.relay.backend.compile_program import compile_program
from tvm.relay.backend.memory_plan import plan_program
from tvm.relay.build_module import bind_params_by_name, to_kernels
from tvm.tir.usmp.algo import ALGORITHMS
from tvm.tir.usmp.algo.problem import check_allocations
from tvm.tir.usmp.analysis import extract_buffer_info
from tvm.tir.usmp.utils import BufferInfo

PUBLISHED = ("greedy_by_size", "greedy_by_conflicts", "hill_climb")

DEEP_SPEECH = [
    (0, 159, 2048), (0, 151, 2048), (0, 13, 7904), (2, 49, 16), (4, 35, 16), (6, 21, 16), (48, 145, 32768),
    *((12 + 4 * n, 17 + 4 * n, 32768) for n in range(9)),
    *((54 + 6 * n, 59 + 6 * n, 2048) for n in range(16)),
    *((58 + 6 * n, 483 - 22 * n, 4096) for n in range(16)),
    *((152 + 22 * n, 163 + 22 * n, 8192) for n in range(15)),
    *((154 + 22 * n, 171 + 22 * n, 2048) for n in range(15)),
    *((156 + 22 * n, 181 + 22 * n, 2048) for n in range(15)),
    *((160 + 22 * n, 167 + 22 * n, 2048) for n in range(15)),
    *((162 + 22 * n, 165 + 22 * n, 2048) for n in range(15)),
    *((168 + 22 * n, 171 + 22 * n, 2048) for n in range(15)),
    *((170 + 22 * n, 509 + 2 * n, 2048) for n in range(15)),
    (504, 549, 16), (508, 543, 32768), (542, 549, 32768), (548, 555, 32768), (554, 563, 464), (562, 617, 2048),
]  # fmt: skip
INTERVALS = {
    "two large": [(0, 159, 2048), (0, 13, 7904), (4, 35, 16), (12, 17, 32768), (16, 21, 32768)],
    "simple": [
        (0, 23, 131072), (4, 5, 65568), (4, 9, 8192), (8, 30, 15360), (10, 11, 65568), (10, 15, 4096),
        (16, 17, 65552), (16, 21, 2048), (22, 23, 32784), (22, 27, 1024),
    ],
    "speech": DEEP_SPEECH,
    "five": [(4, 5, 95), (1, 4, 52135), (3, 4, 12136), (3, 5, 62099), (4, 5, 50458)],
}  # fmt: skip


def pressure(intervals):
    return max(sum(s for a, b, s in intervals if a <= t <= b) for t, _, _ in intervals)


def plan(algorithm, buffers, target=0):
    found = ALGORITHMS[algorithm](buffers, target)
    check_allocations(buffers, found)
    return found


def planned(mod, algorithm):
    analysis = extract_buffer_info(mod["__tvm_main__"], mod)
    return plan(algorithm, list(analysis.buffer_info_stmts), analysis.memory_pressure)


@pytest.mark.parametrize("algorithm", ["greedy_by_size", "greedy_by_conflicts"])
def test_a_chain_in_two_pools(algorithm):
    fast, slow = pool("fast_memory", 200704), pool("slow_memory")
    found = planned(with_pools(linear_structure(), [fast, slow]), algorithm)
    assert peak(found, fast) == 200704 and peak(found, slow) == 1418528


@pytest.mark.parametrize(
    "algorithm, size",
    [("greedy_by_size", 7920256), ("greedy_by_conflicts", 7200256), ("hill_climb", 7200256), ("search", 7200256)],
)
def test_a_residual_block(algorithm, size):
    assert peak(planned(with_pools(resnet_structure(), [pool()]), algorithm)) == size


@pytest.mark.parametrize("algorithm", ["hill_climb", "search"])
@pytest.mark.parametrize("name", INTERVALS)
def test_lists_whose_optimum_is_their_pressure(name, algorithm):
    intervals = INTERVALS[name]
    target = pressure(intervals)
    assert peak(plan(algorithm, buffers_of(intervals), target)) == target


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_random_programs_with_two_pools_give_equal_valid_plans_twice(algorithm, seed):
    numbers = random.Random(seed)
    fast, slow = pool("fast", 65535), pool("slow")
    buffers = [
        BufferInfo(str(i), numbers.randrange(1, 65535), [fast, slow], numbers.choice([1, 4, 16, 64])) for i in range(60)
    ]
    for one in buffers:
        other = numbers.choice([b for b in buffers if b is not one and b not in one.conflicts])
        one.set_conflicts([*one.conflicts, other])
        other.set_conflicts([*other.conflicts, one])
    first, second = (plan(algorithm, buffers) for _ in range(2))
    places = [
        [(b.name_hint, p.pool_info.pool_name, p.byte_offset) for b, p in found.items()] for found in (first, second)
    ]
    assert places[0] == places[1] and 0 < peak(first, fast) <= 65535


def random_problem(numbers):
    """Buffers whose conflicts are those of intervals, or arbitrary ones."""
    count = numbers.randrange(5, 10)
    alignments = numbers.choice([[1], [16], [1, 4, 16]])
    buffers = buffers_of(random_intervals(numbers, count, numbers.choice([12, 300, 65535])))
    buffers = [BufferInfo(b.name_hint, b.size_bytes, b.pool_candidates, numbers.choice(alignments))
               for b in buffers]  # fmt: skip
    pairs = [pair for pair in itertools.combinations(range(count), 2) if numbers.random() < 0.5]
    if numbers.random() < 0.5:
        intervals = [(a, a + numbers.randrange(1, 4)) for a in (numbers.randrange(count) for _ in range(count))]
        pairs = [
            (a, b) for a, b in itertools.combinations(range(count), 2)
            if intervals[a][0] <= intervals[b][1] and intervals[b][0] <= intervals[a][1]
        ]  # fmt: skip
    for n, buffer in enumerate(buffers):
        buffer.set_conflicts(buffers[a + b - n] for a, b in pairs if n in (a, b))
    return buffers, pairs


@pytest.mark.parametrize("number", range(30))
def test_the_default_finds_the_optimum_of_small_programs(number, seed):
    numbers = random.Random(seed * 100 + number)
    buffers, pairs = random_problem(numbers)
    found = peak(plan("search", buffers))
    sizes, alignments = [b.size_bytes for b in buffers], [b.alignment for b in buffers]
    best = smallest_peak(sizes, alignments, pairs, 1 + sum(-(-s // 16) * 16 for s in sizes))
    assert found == best, f"{found / best:.3f} of the optimum"
    assert found <= min(peak(plan(algorithm, buffers)) for algorithm in PUBLISHED)


@pytest.mark.parametrize("count", [25, 40])
def test_the_default_is_never_above_a_published_algorithm(count, seed):
    intervals = random_intervals(random.Random(seed + count), count)
    buffers, target = buffers_of(intervals, 16), pressure(intervals)
    found = peak(plan("search", buffers, target))
    assert target <= found <= min(peak(plan(algorithm, buffers, target)) for algorithm in PUBLISHED)


def buffers_of_model(mod, params):
    """The lifetimes and sizes of the intermediate results of a network, in the steps of the graph executor."""
    mod = mod.clone()
    mod["main"] = bind_params_by_name(mod["main"], params)
    with tvm.transform.PassContext(opt_level=3):
        program = compile_program(mod, [tvm.target.Target("llvm")], "model", to_kernels)[0]
        entries = plan_program(program).entries
    seen = {(e.storage, e.first_use, e.last_use, e.nbytes): e for e in entries if not e.pinned and e.first_use >= 0}
    return [(e.first_use, e.last_use, e.nbytes) for e in seen.values()]


def check_model(mod, params):
    """Plan a network with all algorithms; return the number of buffers, the bound, the best published size and ours."""
    intervals = buffers_of_model(mod, params)
    buffers, target = buffers_of(intervals, 16), pressure(intervals)
    best = min(peak(plan(algorithm, buffers, target)) for algorithm in PUBLISHED)
    found = peak(plan("search", buffers, target))
    assert target <= found <= best
    return len(buffers), target, best, found


NETWORKS = {
    "resnet18": lambda: testing.resnet.get_workload(1, 10, 18, (3, 32, 32)),
    "resnet50": lambda: testing.resnet.get_workload(1, 1000, 50),
    "resnet_3d": lambda: testing.resnet_3d.get_workload(1, 10, 18, (3, 8, 32, 32)),
    "mobilenet": lambda: testing.mobilenet.get_workload(1),
    "squeezenet": lambda: testing.squeezenet.get_workload(1, version="1.1"),
    "densenet": lambda: testing.densenet.get_workload(),
    "inception_v3": lambda: testing.inception_v3.get_workload(1),
    "mlp": lambda: testing.mlp.get_workload(1),
    "dcgan": lambda: testing.dcgan.get_workload(1),
    "lstm": lambda: testing.lstm.get_workload(3, 16),
    "dqn": lambda: testing.dqn.get_workload(1),
}
FILES = (
    "imagenet/mobilenet_v2.onnx", "onnx/style_candy.onnx", "onnx/ppocr_cls.onnx", "onnx/ultraface_rfb320.onnx",
    "onnx/magika.onnx", "onnx/mobilenet_v2_int8_qdq.onnx", "formats/mlperf_tiny/kws_ref_model.tflite",
    "formats/mlperf_tiny/pretrainedResnet_quant.tflite",
    "formats/tflite/version-RFB-320_without_postprocessing.tflite",
)  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow("optimizes the graph of a network")
def test_networks_need_no_more_than_with_a_published_algorithm(name):
    check_model(*NETWORKS[name]())


def read_model(path):
    if path.suffix == ".tflite":
        return relay.frontend.from_tflite(path.read_bytes())
    model = onnx.load(path)
    weights = {w.name for w in model.graph.initializer}
    shapes = {
        i.name: tuple(d.dim_value if d.dim_value > 0 else 192 if n > 1 else 1
                      for n, d in enumerate(i.type.tensor_type.shape.dim))
        for i in model.graph.input if i.name not in weights
    }  # fmt: skip
    return relay.frontend.from_onnx(model, shapes)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow("optimizes the graph of a network")
def test_model_files_need_no_more_than_with_a_published_algorithm(name):
    check_model(*read_model(model_file(name)))


def test_programs_that_do_not_fit(seed):
    small, large = pool("tcm", 100), pool("sram", 300)
    intervals = [(0, 3, 180), (1, 2, 150), (2, 2, 90), (5, 6, 20)]
    for algorithm in ALGORITHMS:
        with pytest.raises(TVMError) as error:
            ALGORITHMS[algorithm](buffers_of(intervals, pools=[small, large]), 0)
        assert str(error.value) == (
            "the memory plan does not fit: pool 'sram' has 300 bytes and the plan needs 330: 30 bytes are missing. "
            "Live at the same time there: 0 (180), 1 (150)"
        )
    many = buffers_of([(0, 1, 10 + n) for n in range(8)], pools=[pool("tcm", 99)])
    with pytest.raises(TVMError, match=r"needs 108: 9 bytes are missing.*: 7 \(17\), 6 \(16\), .* and 3 smaller ones"):
        ALGORITHMS["search"](many, 0)
    with pytest.raises(TVMError, match="the buffer 'alone' has no candidate pools"):
        ALGORITHMS["search"]([BufferInfo("alone", 4, [])], 0)


def test_the_default_fits_where_a_greedy_order_does_not():
    limited = pool("sram", 216096)
    buffers = buffers_of(INTERVALS["simple"], pools=[limited])
    with pytest.raises(TVMError, match="pool 'sram' has 216096 bytes and the plan needs 220192"):
        ALGORITHMS["greedy_by_size"](buffers, 0)
    assert peak(plan("search", buffers)) == 216096


def test_no_buffers_and_buffers_without_bytes():
    for algorithm in ALGORITHMS:
        assert ALGORITHMS[algorithm]([], 0) == {}
        empty = buffers_of([(0, 1, 0), (0, 1, 0), (0, 1, 5)])
        assert peak(plan(algorithm, empty)) == 5
