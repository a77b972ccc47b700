"""Strategies: which implementation of an operator a target takes, and how a package outside adds its own."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import autotvm, relay, te, topi
from tvm.ir.op import OPS
from tvm.relay.backend.te_compiler import get_valid_implementations, lower_to_primfunc, select_implementation
from tvm.relay.op import strategy as _strategy
from tvm.te import SpecializedCondition


def offered(op, shapes, target, dtype="float32", **attrs):
    """Names of the implementations of an operator, by falling level, and the choice."""
    inputs = [relay.var(f"p{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]
    node = relay.testing.run_infer_type(op(*inputs, **attrs))
    tensors = [te.placeholder(shape, dtype) for shape in shapes]
    args = node.op, node.attrs, tensors, node.checked_type, tvm.target.Target(target)
    found = sorted(get_valid_implementations(*args), key=lambda offer: -offer.plevel)
    chosen, outs = select_implementation(*args)
    assert [str(d) for d in outs[0].shape] == [str(d) for d in node.checked_type.shape]
    return [offer.name for offer in found], chosen.name


@pytest.mark.parametrize("op, shapes, attrs, families", [
    (relay.nn.dense, [(4, 8), (16, 8)], {}, ["gpu"]),
    (relay.nn.batch_matmul, [(2, 4, 8), (2, 16, 8)], {}, ["cpu", "gpu"]),
    (relay.nn.conv2d, [(1, 8, 9, 9), (16, 8, 3, 3)], {}, ["gpu"]),
    (relay.nn.conv2d_transpose, [(1, 8, 9, 9), (8, 16, 3, 3)], {}, ["gpu"]),
    (relay.sort, [(4, 8)], {}, ["gpu"]), (relay.nn.softmax, [(4, 8)], {}, []),
])  # fmt: skip
def test_every_target_has_the_mathematics_and_those_of_a_family_its_templates(op, shapes, attrs, families):
    short = op(*[relay.var(f"p{i}", shape=s) for i, s in enumerate(shapes)], **attrs).op.name.rpartition(".")[2]
    for family, target in (("cpu", "llvm"), ("gpu", "cuda -arch=sm_80"), ("gpu", "opencl")):
        names = [f"{short}.{family}"] * (family in families) + [f"{short}.generic"]
        assert offered(op, shapes, target, **attrs) == (names, names[0])


def test_an_operator_is_found_with_its_strategy():
    assert OPS["nn.dense"].get_attr("FTVMStrategy") is _strategy.dense_strategy is _strategy.generic.dense_strategy
    assert "fdefault" in vars(_strategy.softmax_strategy)
    with pytest.raises(AttributeError, match="no attribute 'nothing_strategy'"):
        _strategy.nothing_strategy


def test_loops_before_a_schedule_are_those_of_the_mathematics():
    x, w = relay.var("x", shape=(100, 64)), relay.var("w", shape=(50, 64))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))))
    texts = {lower_to_primfunc(mod["main"], target).script() for target in ("llvm", "cuda", "opencl")}
    assert len(texts) == 1


# -- strategies of others ----------------------------------------------------------------------------------------------


@pytest.fixture
def own_strategies():
    """Restores what was registered for a key, and replaced, of these operators."""
    names = ("nn.dense", "nn.conv2d")
    generics = [strategy.generic_func_node for strategy in (_strategy.dense_strategy, _strategy.conv2d_strategy)]
    before = [(g, dict(g.functions), g.default) for g in generics]
    facts = {name: OPS[name].get_attr("FTVMStrategy") for name in names}
    yield
    for generic, functions, default in before:
        generic.functions.clear()
        generic.functions.update(functions)
        generic.default = default
    for name, value in facts.items():
        OPS[name].reset_attr("FTVMStrategy")
        tvm.ir.register_op_attr(name, "FTVMStrategy", value, 0)


def run(expr, *arrays, target="llvm"):
    function = relay.Function(relay.analysis.free_vars(expr), expr)
    return relay.create_executor("graph", target=target).evaluate(function)(*arrays).numpy()


def negated(data, weight, bias=None, out_dtype=None):
    """A dense layer that can be told from the mathematics."""
    return topi.negative(topi.nn.dense(data, weight, bias, out_dtype))


def numbers(rng, *shapes):
    return [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def test_targets_with_a_key_take_the_strategy_registered_for_it(own_strategies, rng):
    @_strategy.dense_strategy.register("acme")
    def dense_strategy_acme(attrs, inputs, out_type, target):
        offers = _strategy.dense_strategy.fdefault(attrs, inputs, out_type, target)
        schedule = _strategy.wrap_topi_schedule(topi.generic.schedule_dense)
        offers.add_implementation(_strategy.wrap_compute_dense(negated), schedule, name="dense.acme", plevel=20)
        return offers

    a, b = numbers(rng, (5, 9), (7, 9))
    layer = relay.nn.dense(relay.var("x", shape=(5, 9)), relay.var("w", shape=(7, 9)))
    np.testing.assert_allclose(run(layer, a, b, target="llvm -keys=acme,cpu"), -(a @ b.T), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(layer, a, b), a @ b.T, rtol=1e-4, atol=1e-5)
    names, chosen = offered(relay.nn.dense, [(5, 9), (7, 9)], "llvm -keys=acme,cpu")
    assert names == ["dense.acme", "dense.generic"] and chosen == "dense.acme"


def test_a_strategy_may_be_replaced_by_its_name_or_registered_for_the_operator(own_strategies, rng):
    def only_mine(attrs, inputs, out_type, target):
        offers = relay.op.OpStrategy()
        offers.add_implementation(_strategy.wrap_compute_dense(negated), _strategy.schedule_injective, name="mine")
        return offers

    a, b = numbers(rng, (5, 9), (7, 9))
    layer = relay.nn.dense(relay.var("x", shape=(5, 9)), relay.var("w", shape=(7, 9)))
    tvm.target.override_native_generic_func("dense_strategy")(only_mine)
    np.testing.assert_allclose(run(layer, a, b), -(a @ b.T), rtol=1e-4, atol=1e-5)
    relay.op.register_strategy("nn.dense", lambda *args: relay.op.OpStrategy(), level=11)
    with pytest.raises(tvm.TVMError, match="the strategy of operator nn.dense has no implementation for target llvm"):
        run(layer, a, b)


def test_conditions_on_sizes_decide_which_implementations_are_valid(own_strategies):
    @_strategy.dense_strategy.register("acme")
    def by_rows(attrs, inputs, out_type, target):
        offers, schedule = relay.op.OpStrategy(), _strategy.schedule_injective
        offers.add_implementation(_strategy.wrap_compute_dense(topi.nn.dense), schedule, name="any", plevel=10)
        rows = inputs[0].shape[0]
        with SpecializedCondition(rows > 16):
            offers.add_implementation(_strategy.wrap_compute_dense(topi.nn.dense), schedule, name="many", plevel=15)
        with SpecializedCondition([rows > 16, rows < 32]):
            offers.add_implementation(_strategy.wrap_compute_dense(topi.nn.dense), schedule, name="some", plevel=20)
        return offers

    def names(rows):
        return offered(relay.nn.dense, [(rows, 9), (7, 9)], "llvm -keys=acme,cpu")[0]

    assert names(16) == ["any"] and names(20) == ["some", "many", "any"] and names(64) == ["many", "any"]
    assert SpecializedCondition.current() is None


def test_a_computation_of_a_user_takes_the_place_of_ours_on_every_target():
    record = OPS["nn.dense"]
    relay.op.register_compute("nn.dense", lambda attrs, inputs, out: [negated(*inputs)])
    try:
        assert offered(relay.nn.dense, [(5, 9), (7, 9)], "cuda")[0] == ["dense.generic"]
    finally:
        record.reset_attr("FTVMCompute")
    assert offered(relay.nn.dense, [(5, 9), (7, 9)], "cuda")[0] == ["dense.gpu", "dense.generic"]


# -- a package outside, with tuning ------------------------------------------------------------------------------------

PACKAGE = '''
"""Implementations of two operators for targets with the key "acme", with knobs."""
from tvm import autotvm, relay, te, topi
from tvm.relay.op import strategy


def tiled(cfg, outs):
    s = te.create_schedule([t.op for t in outs])
    out = outs[0].op
    cfg.define_split("tile", out.axis[-1], num_outputs=2)
    outer, inner = cfg["tile"].apply(s, out.output(0), out.axis[-1])
    cfg.define_knob("vectorize", [False, True])
    if cfg["vectorize"].val:
        s[out].vectorize(inner)
    return s


@autotvm.register_topi_compute("dense.acme")
def dense(cfg, data, weight, bias=None, out_dtype=None):
    return topi.nn.dense(data, weight, bias, out_dtype)


@autotvm.register_topi_schedule("dense.acme")
def schedule_dense(cfg, outs):
    return tiled(cfg, outs)


@autotvm.register_topi_compute("conv2d_nchw.acme")
def conv2d_nchw(cfg, data, kernel, strides, padding, dilation, out_dtype):
    return topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation, out_dtype)


@autotvm.register_topi_schedule("conv2d_nchw.acme")
def schedule_conv2d_nchw(cfg, outs):
    return tiled(cfg, outs)


@strategy.dense_strategy.register("acme")
def dense_strategy(attrs, inputs, out_type, target):
    offers = strategy.dense_strategy.fdefault(attrs, inputs, out_type, target)
    offers.add_implementation(
        strategy.wrap_compute_dense(dense), strategy.wrap_topi_schedule(schedule_dense), name="dense.acme", plevel=1)
    return offers


@strategy.conv2d_strategy.register("acme")
def conv2d_strategy(attrs, inputs, out_type, target):
    offers = relay.op.OpStrategy()
    offers.add_implementation(
        strategy.wrap_compute_conv2d(conv2d_nchw), strategy.wrap_topi_schedule(schedule_conv2d_nchw),
        name="conv2d_nchw.acme", plevel=15)
    return offers
'''


@pytest.fixture
def package(own_strategies, tmp_path, monkeypatch):
    (tmp_path / "acme_kernels.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "acme_kernels", raising=False)
    yield __import__("acme_kernels")
    for name in ("dense.acme", "conv2d_nchw.acme"):
        autotvm.task.task.TASK_TABLE.pop(name, None)


def model(rng):
    x, k, w = relay.var("x", shape=(1, 3, 9, 9)), *map(relay.const, numbers(rng, (8, 3, 3, 3), (10, 8)))
    pooled = relay.nn.global_avg_pool2d(relay.nn.conv2d(x, k, padding=(1, 1), kernel_size=(3, 3), channels=8))
    body = relay.nn.dense(relay.nn.batch_flatten(pooled), w)
    return tvm.IRModule.from_expr(relay.Function([x], body)), k.data.numpy(), w.data.numpy()


@pytest.mark.slow("tunes with worker processes")
def test_a_package_outside_adds_implementations_that_are_tuned(package, rng, tmp_path):
    target = tvm.target.Target("llvm -keys=acme,cpu")
    mod, kernel, weight = model(rng)
    (x,) = numbers(rng, (1, 3, 9, 9))
    want = topi.testing.conv2d_nchw_python(x, kernel, 1, 1).mean((2, 3)) @ weight.T

    def compiled():
        with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout", "PackDense", "WinogradConv2D"]):
            return relay.build(mod, target), autotvm.task.extract_from_program(mod, {}, target)

    def result(lib):
        runner = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
        runner.run(x=x)
        return runner.get_output(0).numpy()

    lib, tasks = compiled()
    np.testing.assert_allclose(result(lib), want, rtol=1e-4, atol=1e-5)
    assert sorted(task.name for task in tasks) == ["conv2d_nchw.acme", "dense.acme"]
    records = tmp_path / "records.log"
    for task in tasks:
        assert len(task.config_space) > 4
        option = autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=1, timeout=30))
        autotvm.tuner.RandomTuner(task).tune(4, option, callbacks=[autotvm.callback.log_to_file(str(records))])
    names = {"dense.generic", "dense.acme"}
    with autotvm.apply_history_best(str(records)):
        # The plain layer has the higher level; that of the package has a time.
        found, chosen = offered(relay.nn.dense, [(1, 8), (10, 8)], target)
        assert set(found) == names and chosen == "dense.acme"
        np.testing.assert_allclose(result(compiled()[0]), want, rtol=1e-4, atol=1e-5)
    assert offered(relay.nn.dense, [(1, 8), (10, 8)], target)[1] == "dense.generic"
