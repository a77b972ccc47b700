"""Products of bfloat16 by dot products: exact where they are whole numbers, on machines with and without the
instructions."""

import os
import platform
import random
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import tvm
from tests.relay.transform.cpu.test_bfloat16 import BFLOAT16, CONVS, check_conv2d, run, whole
from tvm import relay, tir
from tvm.ir.prim import Shuffle
from tvm.topi.cpu import dot_products
from tvm.topi.cpu.dot_products import DotProduct

# As those of x86, which take a word in every lane, and of Arm, which take a lane of a vector.
FORMS = {"x86": (16, 8, 4), "Arm": (4,)}


def emulated_product(dtype, name, sums, a, b):
    """What the instructions compute, in plain vectors."""
    if not name.startswith("emulated"):
        return tir.call_intrin(dtype, "tir.call_llvm_pure_intrin", tir.StringImm(name), sums, a, b)
    lanes = int(dtype.partition("x")[2])
    for part in range(2):
        at = tuple(tir.const(2 * lane + part, "int32") for lane in range(lanes))
        x, y = (Shuffle((operand,), at).astype(dtype) for operand in (a, b))
        sums = sums + x * y
    return sums


@contextmanager
def emulated(form):
    """A scope in which this machine has dot products of bfloat16."""
    types, is_arm = ("bfloat16", "bfloat16"), form == "Arm"
    rows = [DotProduct("", "", *types, n, f"emulated.{form}.of.{n}", is_arm) for n in FORMS[form]]
    with (
        mock.patch.object(dot_products, "instructions", lambda target: rows),
        mock.patch.object(dot_products.tir, "call_llvm_pure_intrin", emulated_product),
    ):
        yield "llvm -mattr=-amx-bf16" if platform.machine() == "x86_64" else "llvm"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CONVS.values(), ids=CONVS.keys())
def test_convolutions_are_exact(case, form):
    with emulated(form) as target:
        names = check_conv2d(case, target)
    groups, channels, filters = case[-1], case[1], case[4]
    # Groups are multiplied in float32, which the data is cast to after its rounding.
    is_plain = groups == 1 or groups == channels == filters
    assert is_plain == all("cast_cast" not in name for name in names), names


@pytest.mark.parametrize("form", FORMS)
def test_random_convolutions_are_exact(form):
    rng = random.Random(f"{os.environ['TVM_TEST_SEED']} dots {form}")
    with emulated(form) as target:
        for _ in range(int(os.environ.get("TVM_FUZZ_CASES", 3))):
            strides, dilation = (rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])), (rng.choice([1, 1, 2]),) * 2
            kh, kw = rng.randint(1, 4), rng.randint(1, 5)
            padding = tuple(rng.randint(0, 2) for _ in range(4))
            h, w = (rng.randint((k - 1) * dilation[0] + 1, 24) for k in (kh, kw))
            c, o = rng.randint(1, 40), rng.randint(1, 70)
            case = (rng.randint(1, 2), c, h, w, o, kh, kw, strides, padding, dilation, 1)
            print(case)
            check_conv2d(case, target, rng.randrange(1 << 30))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape, batch", [
    ((1, 2048, 1000), None), ((128, 1024, 64), None), ((197, 50, 33), None), ((13, 3, 7), None), ((5, 64, 20), None),
    ((1, 1, 1), None), ((1, 256, 40), 3), ((197, 50, 33), 3), ((5, 64, 20), 3),
])  # fmt: skip
def test_dense_layers_are_exact(shape, batch, form):
    m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    # A dense layer over a batch of sequences is one of a matrix, whose reshapes go.
    lead = () if batch is None else (batch,)
    x, w = whole(rng, (*lead, m, k)), whole(rng, (n, k))
    weight = relay.const(w.astype(BFLOAT16), "bfloat16")

    def make(x):
        if batch is None:
            return relay.nn.dense(x, weight, out_dtype="float32")
        return relay.reshape(relay.nn.dense(relay.reshape(x, (-1, k)), weight, out_dtype="float32"), (batch, m, n))

    with emulated(form) as target:
        got, _ = run(make, {"x": x}, target)
    np.testing.assert_array_equal(got, x.astype("int64") @ w.astype("int64").T)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(3, 128, 64, 128), (2, 197, 64, 197), (1, 9, 5, 48), (2, 6, 32, 12)])
@pytest.mark.parametrize("transposed", [True, False])
def test_batches_of_matmuls_are_exact(shape, transposed, form):
    b, m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    x, y = whole(rng, (b, m, k)), whole(rng, (b, n, k) if transposed else (b, k, n))
    make = lambda x, y: relay.nn.batch_matmul(x, y, out_dtype="float32", transpose_b=transposed)
    with emulated(form) as target:
        got, _ = run(make, {"x": x, "y": y}, target)
    rhs = y.transpose(0, 2, 1) if transposed else y
    np.testing.assert_array_equal(got, x.astype("int64") @ rhs.astype("int64"))


def network():
    """A convolution, a depthwise one, a dense layer and a batch of matmuls with constants of bfloat16."""
    rng = np.random.default_rng(0)
    constant = lambda *shape: relay.const(whole(rng, shape).astype(BFLOAT16), "bfloat16")
    x = relay.var("x", shape=(1, 24, 8, 8), dtype="bfloat16")
    y = relay.cast(relay.nn.conv2d(x, constant(32, 24, 3, 3), padding=(1, 1), out_dtype="float32"), "bfloat16")
    y = relay.cast(relay.nn.dense(relay.reshape(y, (64, 32)), constant(48, 32), out_dtype="float32"), "bfloat16")
    y = relay.reshape(y, (1, 64, 48))
    return tvm.IRModule.from_expr(relay.nn.batch_matmul(y, y, out_dtype="float32"))


@pytest.mark.usual_code
@pytest.mark.parametrize("target, product, conversion", [
    ("llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake", "vdpbf16ps", "vcvtneps2bf16"),
    ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", "vdpbf16ps", "vcvtneps2bf16"),
    ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids", "tdpbf16ps", "vcvtneps2bf16"),
    ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -mattr=-amx-bf16", "vfmadd", ""),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1", "bfmmla", "bfcvt"),
    ("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake", "vfmadd", ""),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "fmla", ""),
])  # fmt: skip
def test_a_target_multiplies_and_rounds_with_what_it_has(target, product, conversion):
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(network(), target)
    text = built.lib.get_source("asm")
    assert product in text and conversion in text
    others = {"vdpbf16ps", "bfdot", "bfmmla", "tdpbf16ps"} - {product}
    assert not any(other in text for other in others)


@pytest.mark.parametrize("cpu, product, lacks", [
    ("x86_64-linux-gnu -mcpu=cascadelake", "llvm.x86.avx512bf16.dpbf16ps.512", "avx512bf16"),
    ("aarch64-linux-gnu -mcpu=neoverse-n1", "llvm.aarch64.neon.bfdot", "bf16"),
])  # fmt: skip
def test_an_instruction_the_processor_lacks_is_refused(cpu, product, lacks):
    from tvm import te

    lanes = 16 if "x86" in cpu else 4
    a = te.placeholder((2 * lanes,), "bfloat16", name="a")
    row = next(i for i in dot_products.INSTRUCTIONS if i.name == product)
    b = te.placeholder((lanes, 2), "bfloat16", name="b")
    k = te.reduce_axis((0, 2), name="k")
    c = te.compute((lanes,), lambda j: te.sum(a[k].astype("float32") * b[j, k].astype("float32"), axis=k), name="c")
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[0], dot_products.multiply(row, lanes, 2))
    with pytest.raises(tvm.TVMError, match=f"{product} is an instruction of .*lacks {lacks}"):
        tvm.build(s, [a, b, c], f"llvm -mtriple={cpu}")
