"""Counter-based random numbers: Threefry 4x64 with 20 rounds (Salmon et al., 2011). The same generator state gives the
same numbers on every machine.

A state consists of ten uint64: four for the key, four for the path, one for the position, and one that counts the
blocks used so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te, tir
from ..dtype import canonical, info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import PrimExpr, const, convert
from ..tir.ir_builder import BufferVar, IRBuilder, create
from . import tag, utils
from .broadcast import broadcast_index
from .loops import INDEPENDENT
from .scan import cumsum
from .utils import check_tensor

_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = 0x1BD11BDAA9FC1A22
_WORDS = 10


def _word(value: int) -> PrimExpr:
    return const(value, "uint64")


class Threefry:
    """A generator of loops that compute four random words for a counter of four words and a key of four words."""

    def __init__(self, ib: IRBuilder):
        self.ib = ib
        self.schedule = ib.allocate("uint64", (5,), name="schedule", scope="local")
        self.words = ib.allocate("uint64", (4,), name="words", scope="local")

    def set_key(self, key: Sequence[PrimExpr]) -> None:
        """Set the key. The fifth word of the key schedule is computed last, because ``key`` may be the words of the
        previous block."""
        for n, word in enumerate(key):
            self.schedule[n] = word
        parity = _word(_PARITY)
        for n in range(4):
            parity = primop.bitwise_xor(parity, self.schedule[n])
        self.schedule[4] = parity

    def _mix(self, a: int, b: int, bits: PrimExpr) -> None:
        words = self.words
        words[a] = words[a] + words[b]
        up, down = primop.left_shift(words[b], bits), primop.right_shift(words[b], _word(64) - bits)
        words[b] = primop.bitwise_xor(primop.bitwise_or(up, down), words[a])

    def block(self, counter: Sequence[PrimExpr]) -> None:
        """Compute the words of one counter, and store them in ``words``."""
        for n, word in enumerate(counter):
            self.words[n] = word + self.schedule[n]
        # Five times four rounds; the rotation amounts have a period of eight.
        with self.ib.for_range(0, 5, name="group") as group:
            for number in range(4):
                even, odd = _ROTATIONS[number], _ROTATIONS[number + 4]
                pairs = ((0, 1), (2, 3)) if number % 2 == 0 else ((0, 3), (2, 1))
                for (a, b), first, second in zip(pairs, even, odd):
                    bits = tir.Select(primop.equal(group % 2, 0), _word(first), _word(second))
                    self._mix(a, b, bits)
            for n in range(4):
                self.words[n] = self.words[n] + self.schedule[(group + 1 + n) % 5]
            self.words[3] = self.words[3] + primop.cast("uint64", group + 1)


def _check_state(gen: Any, what: str) -> te.Tensor:
    check_tensor(gen, what)
    if gen.dtype != "uint64" or len(gen.shape) != 1 or not utils.equal_const_int(gen.shape[0], _WORDS):
        raise ExprTypeError(
            f"{what}: a generator state must have {_WORDS} words of uint64, got {list(gen.shape)} {gen.dtype}"
        )
    return gen


def _drawing(ib: IRBuilder, state: BufferVar) -> Threefry:
    """Set the key for random numbers, which is a mix of key and path of the state."""
    drawing = Threefry(ib)
    drawing.set_key([state[n] for n in range(4)])
    drawing.block([state[4 + n] for n in range(4)])
    drawing.set_key([drawing.words[n] for n in range(4)])
    return drawing


def threefry_generate(gen, out_shape, *, gpu=None):
    """[the next state, random uint64 of ``out_shape``]; with ``gpu`` (a target) each thread mixes the key."""
    _check_state(gen, "threefry_generate")
    shape = [convert(dim) for dim in out_shape]
    total = convert(utils.prod(shape))
    blocks = utils.simplify(te.ceildiv(total, 4))

    def statement(ins, outs):
        ib = create()
        state, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        drawing = None if gpu is not None else _drawing(ib, state)
        apart = {INDEPENDENT: 1} if gpu is not None else None
        with ib.for_range(0, blocks, name="block", annotations=apart) as block:
            # Threads have no memory that outlives the loop, so each thread mixes the key.
            drawing = drawing or _drawing(ib, state)
            drawing.block([state[9] + primop.cast("uint64", block), state[8], _word(0), _word(0)])
            for n in range(4):
                place = block * 4 + n
                with ib.if_scope(place < total):
                    result[tuple(utils.unravel_index(place, shape)) if shape else ()] = drawing.words[n]
        return ib.get()

    used = primop.cast("uint64", blocks)
    after = te.compute(
        (_WORDS,), lambda i: gen(i) + tir.Select(primop.equal(i, 9), used, _word(0)), name="T_state", tag=tag.INJECTIVE
    )
    words = te.extern(
        [tuple(shape)], [gen], statement, dtype="uint64", name="threefry_generate", tag="threefry_generate"
    )
    return [after, words]


def threefry_split(gen):
    """Two states whose random numbers are independent of each other and of those of ``gen``."""
    _check_state(gen, "threefry_split")

    def statement(ins, outs):
        ib = create()
        state = ib.buffer_ptr(ins[0])
        drawing = _drawing(ib, state)
        for branch, out in enumerate(outs, 1):
            result = ib.buffer_ptr(out)
            # The third word of the counter is 0 for random numbers, so branches never use the same counters.
            drawing.block([state[9], state[8], _word(branch), _word(0)])
            for n in range(_WORDS):
                result[n] = drawing.words[n] if n < 4 else _word(1 << 63 if n == 8 else 0)
        return ib.get()

    shapes, dtypes = [(_WORDS,)] * 2, ["uint64"] * 2
    return te.extern(shapes, [gen], statement, dtype=dtypes, name="threefry_split", tag="threefry_split")


# The number of exact fraction bits of each type.
_FRACTION = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def _unit(bits: PrimExpr, dtype: str) -> PrimExpr:
    """Return a random word as a float in [0, 1)."""
    width = _FRACTION[dtype]
    whole = primop.cast("int64", primop.right_shift(bits, _word(64 - width)))
    return primop.cast(dtype, whole) * const(2.0**-width, dtype)


def _float_type(dtype: str, what: str) -> str:
    dtype = canonical(dtype)
    if dtype not in _FRACTION:
        raise ExprTypeError(f"{what}: the dtype of random numbers must be one of {', '.join(_FRACTION)}, got {dtype}")
    return dtype


def _parameter(value: Any, indices: tuple, shape: tuple, dtype: str) -> PrimExpr:
    if isinstance(value, te.Tensor):
        value = value(*broadcast_index(value.shape, shape, indices))
    return primop.cast(dtype, convert(value))


def uniform(gen, low, high, out_shape, out_dtype, *, gpu=None):
    """[the next state, uniform random numbers in [low, high)]."""
    dtype = _float_type(out_dtype, "uniform")
    after, bits = threefry_generate(gen, out_shape, gpu=gpu)
    shape = tuple(bits.shape)

    def element(*i):
        least, most = _parameter(low, i, shape, dtype), _parameter(high, i, shape, dtype)
        return least + (most - least) * _unit(bits(*i), dtype)

    return [after, te.compute(shape, element, name="T_uniform", tag=tag.INJECTIVE)]


def normal(gen, mean, scale, out_shape, out_dtype, *, gpu=None):
    """[the next state, normally distributed random numbers], each from two random words."""
    dtype = _float_type(out_dtype, "normal")
    after, bits = threefry_generate(gen, (2, *out_shape), gpu=gpu)
    shape = tuple(bits.shape[1:])
    inner = dtype if info(dtype).bits >= 32 else "float32"

    def element(*i):
        radius = te.sqrt(const(-2.0, inner) * te.log(const(1.0, inner) - _unit(bits(0, *i), inner)))
        angle = const(2.0 * math.pi, inner) * _unit(bits(1, *i), inner)
        value = primop.cast(dtype, radius * te.cos(angle))
        return _parameter(mean, i, shape, dtype) + _parameter(scale, i, shape, dtype) * value

    return [after, te.compute(shape, element, name="T_normal", tag=tag.INJECTIVE)]


def multinomial(gen, probs, num_samples, *, gpu=None):
    """[the next state, ``num_samples`` indices (int32) along the last axis of ``probs``, drawn with probabilities
    proportional to the weights]."""
    check_tensor(probs, "multinomial")
    if not probs.shape or not info(probs.dtype).is_float:
        given = f"{list(probs.shape)} {probs.dtype}"
        raise ExprValueError(f"multinomial: weights must be floats with at least one dimension, got {given}")
    batch, n = probs.shape[:-1], probs.shape[-1]
    sums = cumsum(probs, axis=-1, gpu=gpu)
    after, draws = uniform(gen, 0.0, 1.0, (*batch, num_samples), "float64", gpu=gpu)
    k = te.reduce_axis((0, n), name="k")

    def passed(*i):
        level = draws(*i) * primop.cast("float64", sums(*i[:-1], n - 1))
        below = primop.cast("float64", sums(*i[:-1], k)) <= level
        return te.sum(primop.cast("int32", below), axis=k)

    counts = te.compute(draws.shape, passed, name="multinomial_count", tag=tag.COMM_REDUCE)
    last = primop.cast("int32", n - 1)
    place = te.compute(draws.shape, lambda *i: te.min(counts(*i), last), name="T_multinomial", tag=tag.ELEMWISE)
    return [after, place]


__all__ = ["multinomial", "normal", "threefry_generate", "threefry_split", "uniform"]
