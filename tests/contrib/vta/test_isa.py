"""Instruction formats: Python, C and the document describe the same fields."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.contrib.vta.programs import CONFIGS, DEFAULT
from tvm.contrib.vta import _lib, device, isa
from tvm.contrib.vta.config import Config
from tvm.contrib.vta.isa import Instruction

DOCUMENT = Path(__file__).parents[3] / "docs" / "vta_isa.md"


def random_instruction(config, rng) -> Instruction:
    opcode = str(rng.choice(isa.OPCODES))
    values = {}
    for name, _, width in isa.fields_of(config, opcode)[1:]:
        value = int(rng.integers(0, 1 << width)) if rng.integers(3) else 0
        if name in isa.NAMED:
            value = isa.NAMED[name][value % len(isa.NAMED[name])]
        elif name == "imm":
            value -= 1 << 15
        values[name] = value
    return Instruction(opcode, **values)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_instructions_survive_encoding_and_c_decodes_the_same_fields(config, rng):
    before = device.current_config()
    device.configure(replace(config, log_dram_size=before.log_dram_size))
    try:
        for _ in range(200):
            instruction = random_instruction(config, rng)
            code = isa.encode(config, instruction)
            assert len(code) == 16 and isa.decode(config, code) == instruction
            assert _lib.disassemble(code) == isa.disassemble(config, instruction)
    finally:
        device.configure(before)


def test_published_field_positions():
    """The layout of the default configuration, bit by bit."""
    first = {opcode: {f.name: f.first for f in isa.fields_of(DEFAULT, opcode)} for opcode in isa.OPCODES}
    assert first["LOAD"] == first["STORE"] == {
        "opcode": 0, "pop_prev_dep": 3, "pop_next_dep": 4, "push_prev_dep": 5, "push_next_dep": 6, "memory_type": 7,
        "sram_base": 10, "dram_base": 26, "y_size": 64, "x_size": 80, "x_stride": 96, "y_pad_0": 112, "y_pad_1": 116,
        "x_pad_0": 120, "x_pad_1": 124,
    }  # fmt: skip
    assert {k: v for k, v in first["GEMM"].items() if v >= 7} == {
        "reset_reg": 7, "uop_bgn": 8, "uop_end": 21, "iter_out": 35, "iter_in": 49, "dst_factor_out": 64,
        "dst_factor_in": 75, "src_factor_out": 86, "src_factor_in": 97, "wgt_factor_out": 108, "wgt_factor_in": 118,
    }  # fmt: skip
    assert {k: v for k, v in first["ALU"].items() if v >= 108} == {"alu_opcode": 108, "use_imm": 111, "imm": 112}
    assert [tuple(f) for f in isa.uop_fields(DEFAULT)] == [("dst_idx", 0, 11), ("src_idx", 11, 11), ("wgt_idx", 22, 10)]


@pytest.mark.parametrize("opcode", [*isa.OPCODES, "micro-op"])
def test_the_document_shows_the_fields(opcode):
    text = DOCUMENT.read_text(encoding="utf-8")
    fields = isa.uop_fields(DEFAULT) if opcode == "micro-op" else isa.fields_of(DEFAULT, opcode)
    start = 0 if opcode in ("micro-op", "FINISH") else 7  # bits that all instructions have in common
    section = text.split(f"### {'Micro-op' if opcode == 'micro-op' else opcode}\n")[1].split("\n#")[0]
    for name, first, width in fields:
        if first >= start:
            assert f"| {first}..{first + width - 1} | `{name}` |" in section, (name, first, width)


def test_micro_ops_survive_encoding(rng):
    for config in CONFIGS.values():
        for _ in range(50):
            uop = tuple(int(rng.integers(0, 1 << f.width)) for f in isa.uop_fields(config))
            assert isa.decode_uop(config, isa.encode_uop(config, *uop)) == uop


@pytest.mark.parametrize("instruction, words", [
    (Instruction("JUMP"), "unknown opcode 'JUMP'"),
    (Instruction("LOAD", x_size=1 << 16), "LOAD: x_size is 65536; it does not fit its field of 16 bits"),
    (Instruction("GEMM", uop_bgn=-1), "GEMM: uop_bgn is -1"),
    (Instruction("ALU", imm=1 << 15), "ALU: imm is 32768"),
    (Instruction("ALU", imm=-(1 << 15) - 1), "ALU: imm is -32769"),
])  # fmt: skip
def test_values_that_do_not_fit_are_errors(instruction, words):
    with pytest.raises(ValueError, match=words):
        isa.encode(DEFAULT, instruction)


@pytest.mark.parametrize("code, words", [
    ((7).to_bytes(16, "little"), "unknown opcode 7"),
    ((6 << 7).to_bytes(16, "little"), "LOAD: unknown memory_type 6"),
    ((4 | 5 << 108).to_bytes(16, "little"), "ALU: unknown alu_opcode 5"),
])  # fmt: skip
def test_unknown_numbers_are_errors(code, words):
    with pytest.raises(ValueError, match=words):
        isa.decode(DEFAULT, code)


def test_an_index_of_a_micro_op_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="micro-op: wgt_idx is 1024"):
        isa.encode_uop(DEFAULT, 0, 0, 1024)


@pytest.mark.parametrize("values, words", [
    ({"TARGET": "pynq"}, "unknown TARGET 'pynq'; known: sim, tsim"),
    ({"LOG_BLOCK": 4.0}, "LOG_BLOCK is 4.0; it must be an integer"),
    ({"LOG_BATCH": -1}, "LOG_BATCH is -1; it must be an integer that is not negative"),
])  # fmt: skip
def test_configurations_of_a_wrong_form_are_errors(values, words):
    with pytest.raises(ValueError, match=words):
        Config.from_dict(values)
