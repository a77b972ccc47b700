"""A back end as a package of somebody else brings it: importing it is all that TVM Classic needs.

The Acme is a device beside the CPU whose memory the CPU can read. Its code is C, compiled by the C compiler.
"""

import os
import shutil
import subprocess

from tvm import autotvm, relay, runtime, te, topi
from tvm.relay.op import strategy
from tvm.relay.op.record import OPAQUE
from tvm.relay.transform.backend_passes import GraphPasses
from tvm.relay.transform.fuse_ops import FusionRules
from tvm.target.backend import BACKENDS, Backend, load, register_backend
from tvm.target.kinds import Option, TargetKind, register_kind

DEVICE_TYPE = 97


# The device, a table of functions in a shared library.


def device_library() -> str:
    folder = os.environ["ACME_FOLDER"]
    path = os.path.join(folder, "acme_device.so")
    if not os.path.exists(path):
        source = os.path.join(os.path.dirname(__file__), "device.c")
        compiler = shutil.which("gcc") or shutil.which("cc") or "clang"
        made = f"{path}.{os.getpid()}"
        options = ["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{runtime.include_path()}", "-o", made, source]
        subprocess.run([compiler, *options], check=True)
        os.rename(made, path)
    return path


runtime.load_device_library(device_library())


# The kind of target, and its back end: C as ours, a graph pass and a fusion rule of its own.

register_kind(
    TargetKind("acme", {"num-cores": Option(int)}, ("acme", "cpu"), DEVICE_TYPE, "cpu", facts={"has_acme_unit": True})
)

# What was asked of the package, for its test.
SEEN: list[str] = []


def build(mod, target):
    SEEN.append("build")
    return load(BACKENDS["c"].build)(mod, target)


@relay.transform.function_pass(opt_level=0, name="AcmePass", required=["InferType"])
def acme_pass(func, mod, ctx):
    SEEN.append("pass")
    return func


def graph_passes(target):
    return GraphPasses(layout=(acme_pass,))


def fusion_rules(target):
    """The Acme computes tanh by a unit that nothing else can be fused with."""
    return FusionRules(pattern=lambda call: OPAQUE if call.op.name == "tanh" else None)


register_backend(
    Backend(
        "acme",
        build,
        is_host=True,
        templates="cpu",
        package="acme",
        graph_passes=graph_passes,
        fusion_rules=fusion_rules,
    )
)


# Two operators of its own, with a template whose knobs are tuned.


def tiled(cfg, outs):
    s = te.create_schedule([t.op for t in outs])
    out = outs[0].op
    cfg.define_split("tile", out.axis[-1], num_outputs=2)
    cfg["tile"].apply(s, out.output(0), out.axis[-1])
    return s


@autotvm.register_topi_compute("dense.acme")
def dense(cfg, data, weight, bias=None, out_dtype=None):
    return topi.nn.dense(data, weight, bias, out_dtype)


@autotvm.register_topi_schedule("dense.acme")
def schedule_dense(cfg, outs):
    return tiled(cfg, outs)


@strategy.dense_strategy.register("acme")
def dense_strategy(attrs, inputs, out_type, target):
    offers = relay.op.OpStrategy()
    schedule = strategy.wrap_topi_schedule(schedule_dense)
    offers.add_implementation(strategy.wrap_compute_dense(dense), schedule, name="dense.acme", plevel=15)
    return offers


@autotvm.register_topi_compute("conv2d_nchw.acme")
def conv2d_nchw(cfg, data, kernel, strides, padding, dilation, out_dtype):
    return topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation, out_dtype)


@autotvm.register_topi_schedule("conv2d_nchw.acme")
def schedule_conv2d_nchw(cfg, outs):
    return tiled(cfg, outs)


@strategy.conv2d_strategy.register("acme")
def conv2d_strategy(attrs, inputs, out_type, target):
    offers = relay.op.OpStrategy()
    schedule = strategy.wrap_topi_schedule(schedule_conv2d_nchw)
    offers.add_implementation(strategy.wrap_compute_conv2d(conv2d_nchw), schedule, name="conv2d_nchw.acme", plevel=15)
    return offers
