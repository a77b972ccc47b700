"""Mathematical functions against NumPy in float64: accuracy, edge values, every vector length."""

from __future__ import annotations

import math

import numpy
import pytest

import tvm.tir.op  # noqa: F401  (registers the intrinsics)
from tests.codegen.raw import elementwise, emit, run_elementwise
from tests.cpus import BASELINE, OLDER
from tvm.codegen.llvm import jit as llvm_jit
from tvm.ir.op import Op
from tvm.ir.prim import Call

EDGES = numpy.array(
    [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-40, 1.1754944e-38, 3.4028235e38,
     -3.4028235e38, 0.5, -0.5, 2, 3, -2, 0.49999997, -0.49999997, 1.5, 2.5, -1.5, -2.5, 8388609.0, 4194304.5, 88.7,
     88.8,     -87.3, -103, -104, -105, 89, 1e10, 1e20, -1e10, 3e30, 0.92, 0.625, 1e-8, -1e-8, 4, -4, 10, 20],
    "float32",
)  # fmt: skip


def _round_away(x):
    return numpy.where(numpy.isfinite(x) & (abs(x) < 1e15), numpy.copysign(numpy.floor(abs(x) + 0.5), x), x)


def _sigmoid(x):
    small = numpy.exp(-abs(x))
    return numpy.where(x < 0, small / (1 + small), 1 / (1 + small))


REFERENCE = {
    "exp": (numpy.exp, 2), "exp2": (numpy.exp2, 2), "exp10": (lambda x: 10.0**x, 2), "log": (numpy.log, 2),
    "log2": (numpy.log2, 2), "log10": (numpy.log10, 3), "log1p": (numpy.log1p, 3), "sigmoid": (_sigmoid, 3),
    "tanh": (numpy.tanh, 3), "sinh": (numpy.sinh, 6), "cosh": (numpy.cosh, 5),
    "erf": (lambda x: numpy.array([math.erf(v) for v in x]), 2), "sin": (numpy.sin, 2), "cos": (numpy.cos, 2),
    "tan": (numpy.tan, 4), "atan": (numpy.arctan, 2), "asin": (numpy.arcsin, 3), "acos": (numpy.arccos, 2),
    "asinh": (numpy.arcsinh, 3), "acosh": (numpy.arccosh, 3), "atanh": (numpy.arctanh, 3), "sqrt": (numpy.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / numpy.sqrt(x), 2), "floor": (numpy.floor, 0), "ceil": (numpy.ceil, 0),
    "trunc": (numpy.trunc, 0), "nearbyint": (numpy.rint, 0), "round": (_round_away, 0), "fabs": (abs, 0),
}  # fmt: skip


def intrinsic(name):
    return lambda *args: Call(args[0].dtype, Op.get("tir." + name), args)


def units_wrong(got, want):
    """Distance from the float64 value in units of the last float32 place; infinite where the kind of value differs."""
    with numpy.errstate(all="ignore"):
        near = want.astype("float32")
    finite = numpy.isfinite(near) & numpy.isfinite(got)
    with numpy.errstate(all="ignore"):
        unit = numpy.spacing(numpy.where(finite, abs(near), 1).astype("float32")).astype("float64")
    distance = numpy.where(finite, abs(got.astype("float64") - numpy.where(finite, want, 0)) / unit, 0.0)
    same = (got == near) | (numpy.isnan(got) & numpy.isnan(near)) | finite
    return numpy.where(same, distance, math.inf)


def samples(rng):
    parts = [
        EDGES, rng.uniform(-1, 1, 3000), rng.uniform(-100, 100, 3000), rng.uniform(-10, 10, 3000),
        numpy.exp(rng.uniform(-100, 88, 2000)), -numpy.exp(rng.uniform(-100, 88, 1000)), rng.uniform(-1e6, 1e6, 1000),
        1 + rng.uniform(-1e-3, 1e-3, 1000), numpy.arange(-30, 30) * 0.5,
    ]  # fmt: skip
    return numpy.concatenate(parts).astype("float32")


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize("name", REFERENCE)
def test_float32_function_is_within_a_few_units(name, target, rng):
    function, limit = REFERENCE[name]
    x = samples(rng)
    with numpy.errstate(all="ignore"):
        want = function(x.astype("float64"))
    got = run_elementwise(intrinsic(name), [x], "float32", 16, target)
    wrong = units_wrong(got, want)
    worst = wrong.argmax()
    assert wrong[worst] <= limit, f"{name}({x[worst]!r}) gave {got[worst]!r}, expected {want[worst]!r}"
    zero = (got == 0) & (want == 0)
    assert (numpy.signbit(got) == numpy.signbit(want))[zero].all()


def test_pow_of_all_pairs_of_edges(rng):
    x = numpy.concatenate([numpy.repeat(EDGES, EDGES.size), rng.uniform(0, 10, 3000), rng.uniform(-10, 10, 1000)])
    y = numpy.concatenate([numpy.tile(EDGES, EDGES.size), rng.uniform(-20, 20, 3000), rng.integers(-10, 10, 1000)])
    x, y = x.astype("float32"), y.astype("float32")
    with numpy.errstate(all="ignore"):
        want = numpy.power(x.astype("float64"), y.astype("float64"))
    got = run_elementwise(intrinsic("pow"), [x, y], "float32", 16)
    wrong = units_wrong(got, want)
    worst = wrong.argmax()
    assert wrong[worst] <= 1, f"pow({x[worst]!r}, {y[worst]!r}) gave {got[worst]!r}, expected {want[worst]!r}"


@pytest.mark.parametrize("name", ["atan2", "hypot", "fmod", "nextafter", "copysign"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_floats(name, dtype, rng):
    reference = {"atan2": numpy.arctan2, "hypot": numpy.hypot, "fmod": numpy.fmod, "nextafter": numpy.nextafter,
                 "copysign": numpy.copysign}[name]  # fmt: skip
    x, y = rng.uniform(-10, 10, 50).astype(dtype), rng.uniform(-10, 10, 50).astype(dtype)
    got = run_elementwise(intrinsic(name), [x, y], dtype, 4)
    numpy.testing.assert_allclose(got, reference(x, y), rtol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "erf", "sigmoid", "exp10", "pow", "round", "floor"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_float64_function(name, lanes, rng):
    x = rng.uniform(0.1, 5, 40)
    if name == "pow":
        got = run_elementwise(lambda a: Call(a.dtype, Op.get("tir.pow"), (a, a)), [x], "float64", lanes)
        numpy.testing.assert_allclose(got, x**x, rtol=1e-14)
        return
    numpy.testing.assert_allclose(
        run_elementwise(intrinsic(name), [x], "float64", lanes), REFERENCE[name][0](x), rtol=1e-14
    )


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={BASELINE}", f"llvm -mcpu={OLDER}"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_functions_are_computed_in_float32(dtype, target, rng):
    from tests.codegen.raw import numpy_dtype

    x = rng.uniform(-4, 4, 37).astype(numpy_dtype(dtype))
    got = run_elementwise(intrinsic("exp"), [x], dtype, 8, target)
    exact = numpy.exp(x.astype("float64"))
    # The float32 that is rounded may be two units from the exact value, which may lie near the middle of two halves.
    around = [(exact * (1 + sign * 2.0**-22)).astype(numpy_dtype(dtype)) for sign in (-1, 1)]
    assert all(value in pair for value, pair in zip(got, zip(*around)))


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 8, 32])
def test_every_vector_length(lanes, rng):
    x = rng.uniform(-5, 5, 67).astype("float32")
    for name in ("exp", "tanh", "sin"):
        got = run_elementwise(intrinsic(name), [x], "float32", lanes)
        numpy.testing.assert_allclose(got, REFERENCE[name][0](x.astype("float64")), rtol=1e-6)


def test_no_library_calls_for_what_the_processor_has():
    for name in ("sqrt", "floor", "round", "exp", "tanh", "erf", "sigmoid", "log", "fabs", "rsqrt"):
        text, cpu = emit(elementwise(intrinsic(name), ["float32"], "float32", 33, 16), f"llvm -mcpu={BASELINE}")
        assembly = llvm_jit.machine_for(cpu).emit_assembly(llvm_jit.optimized(text, cpu))
        assert "@PLT" not in assembly, name
