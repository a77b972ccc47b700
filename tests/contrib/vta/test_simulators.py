"""Both simulators beside the interpreter in NumPy, their errors and their statistics."""

from dataclasses import replace

import numpy as np
import pytest

import tvm
from tests.contrib.vta.programs import CONFIGS, DEFAULT, SMALL_CONFIG, matmul
from tvm.contrib.vta import _lib, device, interpreter
from tvm.contrib.vta.config import Config
from tvm.contrib.vta.program import Program
from tvm.contrib.vta.testing import simulator
from tvm.contrib.vta.testing.random_programs import random_program


@pytest.fixture(autouse=True)
def _loaded():
    device.load()


@pytest.mark.parametrize("target", ["sim", "tsim"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_matmul_with_bias_shift_and_clip(config, target, rng):
    program, out, expected = matmul(config, rng)
    device.run(program, target)
    np.testing.assert_array_equal(program.read(out, 4), expected)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_random_programs_give_the_results_of_the_interpreter(config, rng):
    for _ in range(15):
        program = random_program(config, rng)
        image = bytes(program.image)
        interpreter.run(program)
        expected = bytes(program.image)
        for target in ("sim", "tsim"):
            program.image[:] = image
            device.run(program, target)
            assert bytes(program.image) == expected, target


def alu(config, name, first, second, imm=None):
    """Apply an ALU operation to two arrays of accumulators; returns the 32-bit results byte by byte."""
    p = Program(config)
    rows = len(first)
    a, b = p.place(first, "acc"), p.place(second, "acc")
    uops = p.place_uops([(0, rows)])
    out = [p.place(np.zeros(first.shape, np.int8), "out") for _ in range(4)]
    p.add("LOAD", memory_type="acc", dram_base=a, x_size=rows, y_size=1, x_stride=rows)
    p.add("LOAD", memory_type="acc", dram_base=b, x_size=rows, y_size=1, x_stride=rows, sram_base=rows)
    p.add("LOAD", memory_type="uop", dram_base=uops, x_size=1, y_size=1, x_stride=1)
    loop = {"uop_end": 1, "iter_out": 1, "iter_in": rows, "dst_factor_in": 1, "src_factor_in": 1}
    p.add("ALU", "push_next_dep", alu_opcode=name, use_imm=int(imm is not None), imm=imm or 0, **loop)
    for k in range(4):
        p.add("STORE", "pop_prev_dep", "push_prev_dep", memory_type="out", dram_base=out[k], x_size=rows, y_size=1,
              x_stride=rows)  # fmt: skip
        shift = p.add("ALU", "pop_next_dep", "push_next_dep", alu_opcode="shr", use_imm=1, imm=8, **loop)
    p.instructions[-1] = type(shift)("FINISH", pop_next_dep=1)
    device.run(p)
    stored = np.stack([p.read(base, rows).view(np.uint8).reshape(first.shape) for base in out], axis=-1)
    return np.ascontiguousarray(stored).view("<i4")[..., 0]


LIMITS = [-(1 << 31), (1 << 31) - 1, -1, 0, 1, -33, -32, -31, 31, 32, 33, 40000, -40000]


@pytest.mark.parametrize("name, apply", [
    ("min", min), ("max", max), ("add", lambda x, y: x + y), ("mul", lambda x, y: x * y),
    ("shr", lambda x, y: x >> min(y, 31) if y >= 0 else x << min(-y, 32)),
])  # fmt: skip
def test_alu_operations_wrap_and_shifts_saturate_their_amount(name, apply, rng):
    """All 32 bits, on limits and random values, beside Python's integers."""
    lanes = DEFAULT.block

    def values():
        drawn = rng.integers(-(1 << 31), 1 << 31, 3 * lanes)
        return np.resize(rng.permutation([*LIMITS, *drawn]), (4, lanes)).astype(np.int32)

    def expected(x, y):
        found = [apply(a, b) + (1 << 31) for a, b in zip(x.ravel().tolist(), y.ravel().tolist())]
        return np.array([value % (1 << 32) - (1 << 31) for value in found]).reshape(x.shape)

    first, second = values(), values()
    np.testing.assert_array_equal(alu(DEFAULT, name, first, second), expected(first, second))
    for imm in (-(1 << 15), (1 << 15) - 1, -3, 7):
        np.testing.assert_array_equal(alu(DEFAULT, name, first, second, imm), expected(first, np.full_like(first, imm)))


def test_statistics_of_a_matmul(rng):
    program, _, _ = matmul(DEFAULT, rng)
    counted = device.run(program)
    expected = {
        "inp_load_nbytes": 64, "wgt_load_nbytes": 256, "acc_load_nbytes": 256, "uop_load_nbytes": 4,
        "out_store_nbytes": 64, "gemm_counter": 4, "alu_counter": 12, "instructions": 10,
    }  # fmt: skip
    assert {name: counted[name] for name in expected} == expected and counted["cycles"] == 0
    timed = device.run(program, "tsim")
    assert {name: timed[name] for name in expected} == expected
    assert device.run(program, "tsim") == timed
    beats = (64 + 256 + 256 + 64) // 8 + 1  # one micro-op takes a beat
    assert timed["dram_busy"] == beats and timed["cycles"] > beats + 2 * DEFAULT.dram_latency
    assert timed["load_busy"] + timed["load_stall"] <= timed["cycles"]


def latency_program(config, parts: int, rounds: int) -> Program:
    """Each round loads a weight and multiplies, alternating between parts of the scratchpads."""
    rng = np.random.default_rng(0)
    p = Program(config)
    weights = p.place(rng.integers(-9, 9, (rounds, config.block, config.block), dtype=np.int8), "wgt")
    p.add("LOAD", memory_type="uop", dram_base=p.place_uops([(0, 0, k) for k in range(parts)]), x_size=parts, y_size=1)
    for k in range(rounds):
        p.add("LOAD", *["pop_next_dep"] * (k >= parts), "push_next_dep", memory_type="wgt", dram_base=weights + k,
              sram_base=k % parts, x_size=1, y_size=1)  # fmt: skip
        p.add("GEMM", "pop_prev_dep", "push_prev_dep", uop_bgn=k % parts, uop_end=k % parts + 1, iter_out=4, iter_in=10)
    for _ in range(parts):
        p.add("LOAD", "pop_next_dep", memory_type="inp")
    p.add("FINISH")
    return p


def test_two_parts_of_the_scratchpads_hide_the_latency_of_dram():
    serial, hidden = (device.run(latency_program(DEFAULT, parts, 20), "tsim") for parts in (1, 2))
    assert hidden["gemm_counter"] == serial["gemm_counter"] == 800
    assert hidden["cycles"] < 0.75 * serial["cycles"]
    assert simulator.utilization(hidden) > 0.45 > simulator.utilization(serial)


def test_debug_mode_counts_but_stores_nothing(rng):
    program, out, _ = matmul(DEFAULT, rng)
    simulator.debug_mode(1)
    try:
        counted = device.run(program, "tsim")
    finally:
        simulator.debug_mode(0)
    assert counted["cycles"] and counted["gemm_counter"] == 4
    assert not program.read(out, 4).any()
    with pytest.raises(ValueError, match="the flag is 2"):
        simulator.debug_mode(2)


def test_the_functions_that_apache_registers(rng):
    clear, status = (tvm.get_global_func(f"vta.simulator.profiler_{name}") for name in ("clear", "status"))
    clear()
    device.run(matmul(DEFAULT, rng)[0])
    assert simulator.stats()["gemm_counter"] == 4 and '"gemm_counter": 4' in str(status())
    clear()
    assert set(simulator.stats().values()) == {0}
    with pytest.raises(ValueError, match="no program has run"):
        simulator.utilization()


# Each entry: what to change of instruction `at` of matmul, and the message, which names the instruction.
BROKEN = [
    (0, {"sram_base": 2045}, "elements 2045 to 2049 are outside the memory, which has 2048"),
    (0, {"memory_type": "out"}, "the memory type 4 cannot be loaded"),
    (0, {"dram_base": 1 << 20}, r"row 0: 64 bytes at DRAM address \d+ are not inside one buffer"),
    (0, {"y_size": 2, "x_stride": 60000}, "row 1: 64 bytes at DRAM address"),
    (4, {"uop_end": 8193}, "uop_end 8193 is outside the memory, which has 8192 micro-ops"),
    (4, {"dst_factor_in": 700}, "micro-op 0: accumulator 2100 is outside the memory, which has 2048 elements"),
    (4, {"src_factor_in": 700}, "micro-op 0: input 2100 is outside the memory"),
    (4, {"wgt_factor_in": 400}, "micro-op 0: weight 1200 is outside the memory, which has 1024"),
    (5, {"src_factor_in": 700, "use_imm": 0}, "micro-op 0: source accumulator 2100 is outside"),
    (4, {"iter_out": 16000, "iter_in": 16000, "dst_factor_in": 0, "src_factor_in": 0}, "the limit of .* is exceeded"),
    (8, {"x_pad_0": 1}, "a store has no padding"),
    (8, {"memory_type": "acc"}, "the memory type 3 cannot be stored"),
    (8, {"push_next_dep": 1}, "the store module has no next module"),
    (0, {"pop_prev_dep": 1}, "the load module has no previous module"),
    (0, {"pop_next_dep": 1}, "deadlock; instruction 0 in the load module waits for a token of the compute module"),
]


@pytest.mark.parametrize("target", ["sim", "tsim"])
@pytest.mark.parametrize("at, changes, words", BROKEN)
def test_bad_instructions_are_named(at, changes, words, target, rng):
    program, _, _ = matmul(DEFAULT, rng)
    old = program.instructions[at]
    program.instructions[at] = type(old)(**{**old.__dict__, **changes})
    named = "" if "deadlock" in words else rf"instruction {at} \({old.opcode} .*\): "
    with pytest.raises(tvm.TVMError, match=named + words):
        device.run(program, target, limit=100000)


@pytest.mark.parametrize("target", ["sim", "tsim"])
def test_a_program_ends_with_finish(target):
    program = Program(DEFAULT)
    with pytest.raises(tvm.TVMError, match="the program has no instruction"):
        device.run(program, target)
    for _ in range(2):
        program.add("FINISH")
    with pytest.raises(tvm.TVMError, match=r"instruction 0 \(FINISH\): FINISH must be the last instruction"):
        device.run(program, target)


@pytest.mark.parametrize("values, words", [
    ({"LOG_INP_WIDTH": 4}, "inputs and weights must have 8 bits"),
    ({"LOG_BLOCK": 7}, "LOG_BATCH and LOG_BLOCK must be at most 6"),
    ({"LOG_BUS_WIDTH": 2}, "LOG_BUS_WIDTH is 2; it must be between 3 and 10"),
    ({"DRAM_LATENCY": 0}, "DRAM_LATENCY is 0"),
    ({"QUEUE_DEPTH": 0}, "QUEUE_DEPTH is 0"),
    ({"LOG_DRAM_SIZE": 40}, "LOG_DRAM_SIZE is 40"),
    ({"LOG_INP_BUFF_SIZE": 4}, "LOG_INP_BUFF_SIZE is 4; with elements of 16 bytes it must be between 5 and 20"),
    ({"LOG_UOP_BUFF_SIZE": 16}, "at most 8192 micro-ops"),
    ({"LOG_ACC_BUFF_SIZE": 18}, "at most 2048 elements"),
    ({"LOG_INP_BUFF_SIZE": 16}, "the three indices of a micro-op have 33 bits; at most 32 fit"),
])  # fmt: skip
def test_impossible_sizes_are_errors(values, words):
    before = device.current_config()
    with pytest.raises(tvm.TVMError, match=words):
        device.configure(Config.from_dict(values))
    assert device.current_config() == before


def test_the_defaults_of_c_and_of_the_file_agree():
    assert _lib.default_config() == Config.from_file()


def test_ext_dev_holds_arrays(rng):
    values = rng.integers(-128, 128, (5, 7), dtype=np.int8)
    array = tvm.nd.array(values, tvm.ext_dev(0))
    np.testing.assert_array_equal(array.numpy(), values)
    np.testing.assert_array_equal(array.copyto(tvm.ext_dev(0)).numpy(), values)
    with pytest.raises(tvm.TVMError, match=r"ext_dev\(1\): the device does not exist"):
        tvm.nd.array(values, tvm.ext_dev(1))
    with pytest.raises(tvm.TVMError, match="out of device memory"):
        tvm.nd.empty((1 << 31,), "int8", tvm.ext_dev(0))
    with pytest.raises(tvm.TVMError, match="the size of DRAM cannot change while 1 buffers exist"):
        device.configure(Config.from_dict({"LOG_DRAM_SIZE": 20}))


def test_data_of_a_wrong_size_are_an_error():
    with pytest.raises(ValueError, match="5 bytes are not a whole number of inp elements of 4 bytes"):
        Program(SMALL_CONFIG).place(np.zeros(5, np.int8), "inp")


def test_buffers_check_their_sizes():
    buffer = _lib.Buffer(8)
    with pytest.raises(ValueError, match="9 bytes do not fit a buffer of 8 bytes"):
        buffer.write(bytes(9))
    buffer.close()


def test_hostile_instructions_end_with_an_error_or_a_result(rng):
    """Random bits, and valid programs with some bits changed. `python -m tools fuzz vta` runs many under ASan."""
    ends = {"error": 0, "result": 0}
    for k in range(200):
        program = random_program(SMALL_CONFIG, rng, rounds=1)
        buffer = _lib.Buffer(len(program.image))
        buffer.write(bytes(program.image))
        code = np.frombuffer(program.code(buffer.address), np.uint8).copy()
        for at in rng.integers(0, len(code) - 16, 1 + k % 4):
            code[at] ^= 1 << rng.integers(8)
        if k % 10 == 0:
            code[: len(code) // 32 * 16] = rng.integers(0, 256, len(code) // 32 * 16)
        device.configure(SMALL_CONFIG if k % 2 else replace(SMALL_CONFIG, target="tsim"))
        try:
            _lib.run(code.tobytes(), 5000)
            ends["result"] += 1
        except tvm.TVMError as error:
            assert len(str(error)) > 10
            ends["error"] += 1
        buffer.close()
    device.configure(DEFAULT)
    assert min(ends.values()) > 10, ends
