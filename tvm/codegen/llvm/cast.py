"""Conversions between types. Conversions of float16 and bfloat16 are expanded wherever LLVM would call a library."""

from __future__ import annotations

from ...dtype import info, with_lanes
from ...error import TVMError
from .builder import Builder
from .intrinsic import mangled


def convert(b: Builder, source: str, target: str, x: str) -> str:
    """Convert ``x`` of type ``source`` to ``target``; both have the same number of lanes."""
    have, want = info(source), info(target)
    if source == target or (have.is_handle and want.is_handle):
        return x
    if have.lanes != want.lanes:
        raise TVMError(f"cannot cast {source} to {target}: the numbers of lanes differ ({have.lanes} and {want.lanes})")
    if have.is_handle or want.is_handle:
        return _pointer(b, source, target, x)
    if have.is_float:
        if have.bits == 16 and not (have.code == "float" and b.module.native_half and want.bits != 16):
            x, source = widen(b, source, x), b.module.float32_like(source)
            return convert(b, source, target, x)
        return _from_float(b, source, target, x)
    return _from_integer(b, source, target, x)


def _pointer(b: Builder, source: str, target: str, x: str) -> str:
    if info(source).is_handle:
        if info(target).is_bool:
            return b.op(f"icmp ne ptr {x}, null")
        return b.op(f"ptrtoint ptr {x} to {b.types[target]}")
    return b.op(f"inttoptr {b.types[source]} {x} to ptr")


def _from_integer(b: Builder, source: str, target: str, x: str) -> str:
    have, want = info(source), info(target)
    old, new = b.types[source], b.types[target]
    signed = have.is_int
    if want.is_bool:
        return b.op(f"icmp ne {old} {x}, {b.types.literal(source, 0)}")
    if want.is_integer:
        if have.lanes == 1 and x[0] != "%":
            return b.types.literal(target, 1 if x == "true" else 0 if x == "false" else int(x))
        have_bits = 1 if have.is_bool else have.bits
        if have_bits == want.bits:
            return x
        opcode = "trunc" if have_bits > want.bits else "sext" if signed else "zext"
        return b.op(f"{opcode} {old} {x} to {new}")
    opcode = "sitofp" if signed else "uitofp"
    if want.bits == 16 and not (want.code == "float" and b.module.native_half):
        # float16 overflows before the conversion through float32 becomes inexact; bfloat16 has a larger range and needs
        # float64.
        step = "float64" if want.code == "bfloat" and have.bits > 16 else "float32"
        step = with_lanes(step, want.lanes)
        return convert(b, step, target, b.op(f"{opcode} {old} {x} to {b.types[step]}"))
    return b.op(f"{opcode} {old} {x} to {new}")


def _from_float(b: Builder, source: str, target: str, x: str) -> str:
    """Convert from float32, float64, or a float16 type that the processor supports."""
    have, want = info(source), info(target)
    old, new = b.types[source], b.types[target]
    if want.is_bool:
        return b.op(f"fcmp une {old} {x}, {b.types.literal(source, 0.0)}")
    if want.is_integer:
        return _saturated(b, source, target, x)
    if want.bits == 16 and not (want.code == "float" and b.module.native_half):
        if have.bits == 64:
            x = _to_odd(b, source, x)
        elif have.bits == 16:
            x = b.op(f"fpext {old} {x} to {b.types[b.module.float32_like(source)]}")
        return narrow(b, target, x)
    return b.op(f"{'fptrunc' if have.bits > want.bits else 'fpext'} {old} {x} to {new}")


def _saturated(b: Builder, source: str, target: str, x: str) -> str:
    """Convert a float to an integer with saturation; NaN becomes zero."""
    have, want = info(source), info(target)
    if have.bits == 16:
        x, source = b.op(f"fpext {b.types[source]} {x} to {b.types[with_lanes('float32', have.lanes)]}"), "float32"
        return _saturated(b, with_lanes(source, have.lanes), target, x)
    old, new = b.types[source], b.types[target]
    opcode = "fptosi" if want.is_int else "fptoui"
    low, high = (-(1 << (want.bits - 1)), (1 << (want.bits - 1)) - 1) if want.is_int else (0, (1 << want.bits) - 1)
    if b.module.cpu.arch == "aarch64":
        return _saturated_by_conversion(b, source, target, x, low, high)

    flag = b.types[with_lanes("bool", have.lanes)]

    def unless(test: str, x: str, limit: int) -> str:
        """Return ``x`` if the comparison with the limit is true (``ord``: ``x`` is not NaN), else the limit."""
        end = b.types.literal(source, float(limit))
        return b.op(f"select {flag} {b.op(f'fcmp {test} {old} {x}, {end}')}, {old} {x}, {old} {end}")

    x = unless("ogt", unless("ord", x, 0), low)
    if high < 1 << (24 if have.bits == 32 else 53):
        return b.op(f"{opcode} {old} {unless('olt', x, high)} to {new}")
    # The largest integer is not representable as a float: larger values are converted to an arbitrary integer, which is
    # then replaced.
    beyond = b.op(f"fcmp oge {old} {x}, {b.types.literal(source, float(high + 1))}")
    got = b.op(f"freeze {new} {b.op(f'{opcode} {old} {x} to {new}')}")
    return b.op(f"select {flag} {beyond}, {new} {b.types.literal(target, high)}, {new} {got}")


def _saturated_by_conversion(b: Builder, source: str, target: str, x: str, low: int, high: int) -> str:
    """Convert with saturating instructions, to at least 32 bits, and from there to fewer bits."""
    want = info(target)
    wide = with_lanes(f"int{want.bits}" if want.is_int else f"uint{want.bits}", want.lanes)
    if want.bits < 32:
        wide = with_lanes("int32", want.lanes)
    old, new, between = b.types[source], b.types[target], b.types[wide]
    name = f"llvm.fpto{'si' if info(wide).is_int else 'ui'}.sat.{mangled(between)}.{mangled(old)}"
    got = b.op(f"call {between} {b.module.declare(name, between, old)}({old} {x})")
    if want.bits >= 32:
        return got
    for function, limit in (("smax", low), ("smin", high)):
        end = b.types.literal(wide, limit)
        got = b.op(f"call {between} {b.module.intrinsic(function, between, 2)}({between} {got}, {between} {end})")
    return b.op(f"trunc {between} {got} to {new}")


def _to_odd(b: Builder, source: str, x: str) -> str:
    """Convert float64 to float32 with round-to-odd: inexact values get an odd last digit, so that a second rounding is
    exact."""
    lanes = info(source).lanes
    wide, single = b.types[source], b.types[with_lanes("float32", lanes)]
    word = b.types[with_lanes("int32", lanes)]
    near = b.op(f"fptrunc {wide} {x} to {single}")
    back = b.op(f"fpext {single} {near} to {wide}")
    bits = b.op(f"bitcast {single} {near} to {word}")
    flag = b.types[with_lanes("bool", lanes)]
    magnitude = with_lanes("float64", lanes)
    absolute = b.op(f"call {wide} {b.module.intrinsic('fabs', b.types[magnitude], 1)}({wide} {x})")
    rounded = b.op(f"call {wide} {b.module.intrinsic('fabs', b.types[magnitude], 1)}({wide} {back})")
    above = b.op(f"fcmp ogt {wide} {rounded}, {absolute}")
    inexact = b.op(f"fcmp one {wide} {rounded}, {absolute}")
    # Round towards zero first; then set the last digit if digits were cut off.
    lower = b.op(f"add {word} {bits}, {b.op(f'sext {flag} {above} to {word}')}")
    sticky = b.op(f"or {word} {lower}, {b.op(f'zext {flag} {inexact} to {word}')}")
    return b.op(f"bitcast {word} {sticky} to {single}")


def widen(b: Builder, dtype: str, x: str) -> str:
    """Convert a float16 or bfloat16 to float32; the conversion is exact."""
    kind = info(dtype)
    single = b.types[with_lanes("float32", kind.lanes)]
    if kind.code == "float" and b.types.half == "half":
        return b.op(f"fpext {b.types[dtype]} {x} to {single}")
    word = b.types[with_lanes("int32", kind.lanes)]
    bits = b.op(f"zext {b.types[dtype]} {x} to {word}")

    def number(n: int) -> str:
        return b.types.literal(with_lanes("int32", kind.lanes), n)

    if kind.code == "bfloat":
        return b.op(f"bitcast {word} {b.op(f'shl {word} {bits}, {number(16)}')} to {single}")
    return _half_to_float(b, kind.lanes, bits, word, single, number)


def _half_to_float(b: Builder, lanes: int, bits: str, word: str, single: str, number) -> str:
    flag = b.types[with_lanes("bool", lanes)]
    sign = b.op(f"shl {word} {b.op(f'and {word} {bits}, {number(0x8000)}')}, {number(16)}")
    shifted = b.op(f"shl {word} {b.op(f'and {word} {bits}, {number(0x7FFF)}')}, {number(13)}")
    exponent = b.op(f"and {word} {shifted}, {number(0x0F800000)}")
    normal = b.op(f"add {word} {shifted}, {number(112 << 23)}")
    infinite = b.op(f"add {word} {shifted}, {number(224 << 23)}")
    # A subnormal float16 is a fraction: set the exponent to that of one, and subtract one to normalize it.
    tiny_bits = b.op(f"add {word} {shifted}, {number(113 << 23)}")
    one = b.types.literal(with_lanes("float32", lanes), 2.0**-14)
    tiny = b.op(f"fsub {single} {b.op(f'bitcast {word} {tiny_bits} to {single}')}, {one}")
    tiny = b.op(f"bitcast {single} {tiny} to {word}")
    is_tiny = b.op(f"icmp eq {word} {exponent}, {number(0)}")
    is_infinite = b.op(f"icmp eq {word} {exponent}, {number(0x0F800000)}")
    got = b.op(f"select {flag} {is_infinite}, {word} {infinite}, {word} {normal}")
    got = b.op(f"select {flag} {is_tiny}, {word} {tiny}, {word} {got}")
    return b.op(f"bitcast {word} {b.op(f'or {word} {got}, {sign}')} to {single}")


def narrow(b: Builder, dtype: str, x: str) -> str:
    """Convert a float32 to float16 or bfloat16, rounded to nearest even."""
    kind = info(dtype)
    lanes = kind.lanes
    single = b.types[with_lanes("float32", lanes)]
    if kind.code == "float" and b.types.half == "half":
        return b.op(f"fptrunc {single} {x} to {b.types[dtype]}")
    if kind.code == "bfloat" and _has_bfloat_conversion(b):
        short = b.types[dtype].replace("i16", "bfloat")
        return b.op(f"bitcast {short} {b.op(f'fptrunc {single} {x} to {short}')} to {b.types[dtype]}")
    word, flag = b.types[with_lanes("int32", lanes)], b.types[with_lanes("bool", lanes)]

    def number(n: int) -> str:
        return b.types.literal(with_lanes("int32", lanes), n)

    bits = b.op(f"bitcast {single} {x} to {word}")
    got = (_float_to_bfloat if kind.code == "bfloat" else _float_to_half)(b, x, bits, single, word, flag, number)
    return b.op(f"trunc {word} {got} to {b.types[dtype]}")


def _has_bfloat_conversion(b: Builder) -> bool:
    """Return whether the bfloat16 conversion instruction may be used. It flushes subnormal numbers to zero; this is
    accepted in the epilogues of bfloat16 matmuls, whose instructions flush them too."""
    has_products = b.has_bfloat_products or b.tile_sizes is not None
    return has_products and (b.module.cpu.has("avx512bf16") or b.module.cpu.has("bf16"))


def _float_to_bfloat(b: Builder, x: str, bits: str, single: str, word: str, flag: str, number) -> str:
    top = b.op(f"lshr {word} {bits}, {number(16)}")
    odd = b.op(f"and {word} {top}, {number(1)}")
    biased = b.op(f"add {word} {b.op(f'add {word} {bits}, {number(0x7FFF)}')}, {odd}")
    rounded = b.op(f"lshr {word} {biased}, {number(16)}")
    quiet = b.op(f"or {word} {top}, {number(0x40)}")
    is_nan = b.op(f"fcmp uno {single} {x}, {x}")
    return b.op(f"select {flag} {is_nan}, {word} {quiet}, {word} {rounded}")


def _float_to_half(b: Builder, x: str, bits: str, single: str, word: str, flag: str, number) -> str:
    sign = b.op(f"and {word} {bits}, {number(0x80000000)}")
    size = b.op(f"xor {word} {bits}, {sign}")
    odd = b.op(f"and {word} {b.op(f'lshr {word} {size}, {number(13)}')}, {number(1)}")
    biased = b.op(f"add {word} {size}, {number((-112 << 23) + 0xFFF)}")
    normal = b.op(f"lshr {word} {b.op(f'add {word} {biased}, {odd}')}, {number(13)}")
    # Adding this constant makes the processor round away the digits that do not fit in a subnormal float16.
    half = number(126 << 23)
    float_half = b.op(f"bitcast {word} {half} to {single}")
    summed = b.op(f"fadd {single} {b.op(f'bitcast {word} {size} to {single}')}, {float_half}")
    tiny = b.op(f"sub {word} {b.op(f'bitcast {single} {summed} to {word}')}, {half}")
    is_nan = b.op(f"icmp ugt {word} {size}, {number(0x7F800000)}")
    big = b.op(f"select {flag} {is_nan}, {word} {number(0x7E00)}, {word} {number(0x7C00)}")
    is_tiny = b.op(f"icmp ult {word} {size}, {number(113 << 23)}")
    is_big = b.op(f"icmp uge {word} {size}, {number(143 << 23)}")
    got = b.op(f"select {flag} {is_tiny}, {word} {tiny}, {word} {normal}")
    got = b.op(f"select {flag} {is_big}, {word} {big}, {word} {got}")
    return b.op(f"or {word} {got}, {b.op(f'lshr {word} {sign}, {number(16)}')}")
