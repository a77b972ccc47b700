"""PartitionGraph: the functions of partitions, their names, parameters and outputs; and models that contain them."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests import c_codegen
from tests.partitions import annotate, assert_same, composite, external, marks, supports, typed  # noqa: F401
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.testing.byoc import CcompilerAnnotator

BINARY = ["add", "subtract", "multiply"]
S = (10, 10)


def variables(names: str, shape=S, dtype="float32"):
    return [relay.var(name, shape=shape, dtype=dtype) for name in names.split()]


def partitioned(mod, **options) -> tvm.IRModule:
    return transform.PartitionGraph(**options)(typed(mod))


def with_main(main, **functions) -> tvm.IRModule:
    mod = tvm.IRModule({relay.GlobalVar(name): f for name, f in functions.items()})
    mod["main"] = main
    return mod


def check_run(mod, values: dict, *wanted) -> None:
    """Run a module with the graph executor and the virtual machine."""
    c_codegen.register()
    module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(**values)
    for i, value in enumerate(wanted):
        np.testing.assert_allclose(module.get_output(i).numpy(), value, rtol=1e-5, atol=1e-6)
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    machine.set_input("main", **values)
    outputs = machine.run()
    for output, value in zip([outputs] if len(wanted) == 1 else outputs, wanted):
        np.testing.assert_allclose(output.numpy(), value, rtol=1e-5, atol=1e-6)


def arrays(rng, *names, shape=S):
    return {name: rng.random(shape, dtype="float32") for name in names}


def test_one_operator(rng):
    x, y = variables("x y")
    mod = partitioned(annotate(typed(relay.Function([x, y], x + y)), ["add"], "ccompiler"))
    values = arrays(rng, "x", "y")
    check_run(mod, values, values["x"] + values["y"])


def test_regions_of_several_operators(rng):
    x = relay.var("x", shape=S)
    w = [relay.var(f"w{i}", shape=S) for i in range(8)]
    chains = [relay.multiply(relay.subtract(relay.add(x, a), b), c) for a, b, c in (w[0:3], w[3:6])]
    rest = relay.subtract(relay.add(x, w[6]), w[7])
    body = relay.concatenate((*chains, rest), axis=0)
    mod = with_main(CcompilerAnnotator().visit(relay.Function([x, *w], body)))
    mod = partitioned(mod)
    assert sum("Compiler" in f.attrs for f in mod.functions.values()) == 2
    v = arrays(rng, "x", *(f"w{i}" for i in range(8)))
    wanted = [(v["x"] + v[f"w{i}"] - v[f"w{i + 1}"]) * v[f"w{i + 2}"] for i in (0, 3)]
    check_run(mod, v, np.concatenate([*wanted, v["x"] + v["w6"] - v["w7"]]))


def log_and_exp(x, y, shape=S):
    """A sum for the code generator, and two operators for the target."""
    total = relay.add(x, y)
    return relay.Function([x, y], relay.concatenate([relay.log(total), relay.exp(total)], axis=0))


def after_fusion(symbol, compiler, shape=S):
    (x, y), (p, q) = variables("x y", shape), variables("p q", shape)
    (r,) = variables("r", shape)
    var = relay.GlobalVar(symbol)
    fused = relay.Function([r], relay.concatenate([relay.log(r), relay.exp(r)], axis=0))
    fused = fused.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    return relay.Function([x, y], relay.Call(fused, [var(x, y)])), {var: external([p, q], p + q, compiler, symbol)}


def test_the_target_fuses_the_operators_of_the_rest(rng):
    mod = partitioned(annotate(typed(log_and_exp(*variables("x y"))), BINARY, "ccompiler"))
    main, functions = after_fusion("tvmgen_default_ccompiler_main_0", "ccompiler")
    wanted = tvm.IRModule(functions)
    wanted["main"] = main
    assert_same(transform.FuseOps(2)(mod), wanted)
    v = arrays(rng, "x", "y")
    check_run(mod, v, np.concatenate([np.log(v["x"] + v["y"]), np.exp(v["x"] + v["y"])]))


def test_names_are_identifiers():
    mod = partitioned(annotate(typed(log_and_exp(*variables("x y"))), BINARY, "odd-name++"))
    main, functions = after_fusion("tvmgen_default_odd_name___main_0", "odd-name++")
    wanted = tvm.IRModule(functions)
    wanted["main"] = main
    assert_same(transform.FuseOps(2)(mod), wanted)


def test_each_function_of_a_module_is_partitioned(rng):
    mod = with_main(log_and_exp(*variables("x y")), subfunction=log_and_exp(*variables("a b", (16, 16))))
    mod = partitioned(annotate(typed(mod), BINARY, "ccompiler"))
    wanted = tvm.IRModule()
    for name, shape in (("main", S), ("subfunction", (16, 16))):
        main, functions = after_fusion(f"tvmgen_default_ccompiler_{name}_0", "ccompiler", shape)
        for var, function in functions.items():
            wanted[var] = function
        wanted[name] = main
    assert_same(transform.FuseOps(2)(mod), wanted)
    v = arrays(rng, "x", "y")
    check_run(mod, v, np.concatenate([np.log(v["x"] + v["y"]), np.exp(v["x"] + v["y"])]))


def test_values_between_partitions(rng):
    x, y = variables("x y")
    mod = partitioned(annotate(typed(relay.Function([x, y], y * y - (x + x))), BINARY, "ccompiler"))
    assert sum("Compiler" in f.attrs for f in mod.functions.values()) == 3
    v = arrays(rng, "x", "y")
    check_run(mod, v, v["y"] ** 2 - 2 * v["x"])


def test_a_whole_graph():
    shape, weight = (1, 32, 14, 14), (32, 1, 3, 3)
    (x, p), (w, q) = variables("x p", shape), variables("w q", weight)

    def body(data, kernel):
        options = {"kernel_size": (3, 3), "padding": (1, 1), "groups": 32}
        first = relay.nn.conv2d(data, kernel, **options)
        return relay.add(first, relay.nn.conv2d(first, kernel, **options))

    begin, end = marks("acme")
    data, kernel = begin(x), begin(w)
    mod = partitioned(relay.Function([x, w], end(body(data, kernel))))
    symbol = "tvmgen_default_acme_main_0"
    var = relay.GlobalVar(symbol)
    wanted = tvm.IRModule({var: external([p, q], body(p, q), "acme", symbol)})
    wanted["main"] = relay.Function([x, w], var(x, w))
    assert_same(mod, wanted)


def norm_params(prefix, channels=16):
    return [relay.var(f"{prefix}{i}", shape=(channels,)) for i in range(4)]


LATER = (transform.SimplifyInference(), transform.FoldConstant(), transform.AlterOpLayout())


def test_functions_are_lifted_and_later_passes_skip_them():
    data, weight = relay.var("x", shape=(1, 3, 24, 24)), relay.var("w", shape=(16, 3, 3, 3))

    def conv(x, w):
        return relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=16, padding=(1, 1))

    params = norm_params("n")
    body = relay.nn.batch_norm(conv(data, weight), *params).astuple()
    mod = annotate(typed(relay.Function([data, weight, *params], body)), ["nn.batch_norm", "nn.conv2d"], "acme")
    with tvm.transform.PassContext(opt_level=3):
        mod = tvm.transform.Sequential([transform.PartitionGraph(), *LATER])(mod)
    p, q = relay.var("p", shape=(1, 3, 24, 24)), relay.var("q", shape=(16, 3, 3, 3))
    r, inner = relay.var("r", shape=(1, 16, 24, 24)), norm_params("m")
    names = ["tvmgen_default_acme_main_0", "tvmgen_default_acme_main_2"]
    first, second = map(relay.GlobalVar, names)
    wanted = tvm.IRModule({
        first: external([p, q], conv(p, q), "acme", names[0]),
        second: external([r, *inner], relay.nn.batch_norm(r, *inner).astuple(), "acme", names[1]),
    })  # fmt: skip
    wanted["main"] = relay.Function([data, weight, *params], second(first(data, weight), *params))
    assert_same(mod, wanted)


def test_inlined_functions_stay_partitions():
    data, params = relay.var("x", shape=(1, 16, 24, 24)), norm_params("n")
    body = relay.nn.batch_norm(data, *params).astuple()
    mod = annotate(typed(relay.Function([data, *params], body)), ["nn.batch_norm"], "acme")
    with tvm.transform.PassContext(opt_level=3):
        mod = tvm.transform.Sequential([transform.PartitionGraph(), *LATER, transform.Inline()])(mod)
    r, inner = relay.var("r", shape=(1, 16, 24, 24)), norm_params("m")
    symbol = "tvmgen_default_acme_main_0"
    function = external([r, *inner], relay.nn.batch_norm(r, *inner).astuple(), "acme", symbol)
    assert_same(mod, relay.Function([data, *params], relay.Call(function, [data, *params])))


def test_constants_move_into_their_partition(rng):
    ones = np.ones(S, "float32")
    (x, y), (q,) = variables("x y"), variables("q")
    main = bind_params_by_name(relay.Function([x, y], relay.log(x + y)), {"x": tvm.nd.array(ones)})
    mod = partitioned(annotate(typed(main), ["add"], "ccompiler"))
    symbol = "tvmgen_default_ccompiler_main_0"
    var = relay.GlobalVar(symbol)
    wanted = tvm.IRModule({var: external([q], relay.const(ones) + q, "ccompiler", symbol)})
    wanted["main"] = relay.Function([y], relay.log(var(y)))
    assert_same(mod, wanted)
    v = arrays(rng, "y")
    check_run(mod, v, np.log(ones + v["y"]))


def test_several_outputs():
    data, weight = relay.var("x", shape=(1, 3, 24, 24)), relay.var("w", shape=(16, 3, 3, 3))
    begin, end = marks("acme")

    def layer(x, w, *params):
        conv = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=16, padding=(1, 1))
        norm = relay.nn.batch_norm(conv, *params)
        return relay.nn.relu(norm[0]), norm[1], norm[2]

    params = [data, weight, *norm_params("n")]
    relu, mean, variance = map(end, layer(*map(begin, params)))
    mod = partitioned(relay.Function(params, relay.Tuple((relu, relay.abs(mean), relay.abs(variance)))))
    inner = [relay.var(f"p{i}", shape=v.type_annotation.shape) for i, v in enumerate(params)]
    symbol = "tvmgen_default_acme_main_0"
    var = relay.GlobalVar(symbol)
    wanted = tvm.IRModule({var: external(inner, relay.Tuple(layer(*inner)), "acme", symbol)})
    call = var(*params)
    fields = [relay.TupleGetItem(call, i) for i in range(3)]
    wanted["main"] = relay.Function(params, relay.Tuple((fields[0], relay.abs(fields[1]), relay.abs(fields[2]))))
    assert_same(mod, wanted)


def test_partitions_with_one_and_with_two_outputs():
    begin, end = marks("acme")
    (x, p), (q, r) = variables("x p"), variables("q r")
    first = relay.abs(begin(x))
    side = relay.tanh(end(first))
    body = end(relay.add(begin(end(relay.nn.relu(first))), begin(side)))
    mod = partitioned(relay.Function([x], body))
    names = [f"tvmgen_default_acme_main_{i}" for i in range(2)]
    one, two = map(relay.GlobalVar, names)
    inner = relay.abs(p)
    wanted = tvm.IRModule({
        one: external([p], relay.Tuple((relay.nn.relu(inner), inner)), "acme", names[0]),
        two: external([q, r], relay.add(q, r), "acme", names[1]),
    })  # fmt: skip
    call = one(x)
    wanted["main"] = relay.Function([x], two(relay.TupleGetItem(call, 0), relay.tanh(relay.TupleGetItem(call, 1))))
    assert_same(mod, wanted)


@pytest.mark.parametrize("joint", [True, False])
def test_a_value_with_two_users_is_one_input_or_two_partitions(joint):
    x, y, z = variables("x y z")
    total = x + y
    body = relay.log(total) * (total - z)
    operators = ["subtract", "log", *(["multiply"] if joint else [])]
    mod = annotate(typed(relay.Function([x, y, z], body)), operators, "acme")
    mod = partitioned(transform.MergeCompilerRegions()(mod))
    names = [f"tvmgen_default_acme_main_{i}" for i in range(2)]
    one, two = map(relay.GlobalVar, names)
    p, q, r = variables("p q r")
    if joint:
        wanted = tvm.IRModule({one: external([p, q], relay.log(p) * (p - q), "acme", names[0])})
        result = one(total, z)
    else:
        wanted = tvm.IRModule({
            one: external([p], relay.log(p), "acme", names[0]), two: external([q, r], q - r, "acme", names[1]),
        })  # fmt: skip
        result = one(total) * two(total, z)
    wanted["main"] = relay.Function([x, y, z], result)
    assert_same(mod, wanted)


def annotated_and_merged(mod, compiler="acme"):
    return partitioned(transform.MergeCompilerRegions()(transform.AnnotateTarget(compiler)(typed(mod))))


def test_an_output_with_several_users_is_one_output(supports):
    supports("acme", "abs")
    x, p = variables("x p")
    symbol = "tvmgen_default_acme_main_0"
    var = relay.GlobalVar(symbol)

    def main(value):
        return relay.Function([x], relay.Tuple([relay.nn.relu(value), relay.tanh(value), relay.log(value)]))

    wanted = tvm.IRModule({var: external([p], relay.abs(p), "acme", symbol)})
    wanted["main"] = main(var(x))
    assert_same(annotated_and_merged(main(relay.abs(x))), wanted)


def test_a_tuple_field_with_several_users_is_one_output(supports):
    supports("acme", "nn.batch_norm", "nn.relu")
    outer, inner = ([relay.var(f"{n}0", shape=S), *norm_params(n, 10)] for n in "xp")
    norm = relay.nn.batch_norm(*outer)
    mean = norm[1]
    body = relay.Tuple([relay.nn.relu(norm[0]), relay.tanh(mean), relay.log(mean)])
    symbol = "tvmgen_default_acme_main_0"
    var = relay.GlobalVar(symbol)
    made = relay.nn.batch_norm(*inner)
    wanted = tvm.IRModule({var: external(inner, relay.Tuple([relay.nn.relu(made[0]), made[1]]), "acme", symbol)})
    call = var(*outer)
    field = relay.TupleGetItem(call, 1)
    main = relay.Tuple([relay.TupleGetItem(call, 0), relay.tanh(field), relay.log(field)])
    wanted["main"] = relay.Function(outer, main)
    assert_same(annotated_and_merged(relay.Function(outer, body)), wanted)


def test_tuples_of_constants_move_into_their_partition(supports):
    supports("acme", "qnn.concatenate")
    a, b = variables("a b", dtype="uint8")
    one, scale = relay.const(1, "int32"), relay.const(0.5, "float32")
    body = relay.qnn.op.concatenate((relay.abs(a), b), (scale, scale), (one, one), scale, one, axis=1)
    found = annotated_and_merged(relay.Function([a, b], body))["tvmgen_default_acme_main_0"].body
    assert [type(arg) for arg in found.args[1:]] == [relay.Tuple, relay.Tuple, relay.Constant, relay.Constant]


def test_tuple_outputs_are_flattened(supports):
    supports("acme", "split", "abs")
    a, p = variables("a p", dtype="uint8")

    def halves(value):
        whole = relay.split(value, 2)
        return whole, relay.abs(relay.TupleGetItem(whole.astuple(), 0))

    whole, positive = halves(a)
    mod = annotated_and_merged(relay.Function([a], relay.Tuple((relay.concatenate(whole, 0), relay.nn.relu(positive)))))
    whole, positive = halves(p)
    symbol = "tvmgen_default_acme_main_0"
    var = relay.GlobalVar(symbol)
    fields = [relay.TupleGetItem(whole.astuple(), i) for i in range(2)]
    wanted = tvm.IRModule({var: external([p], relay.Tuple((*fields, positive)), "acme", symbol)})
    call = var(a)
    joined = relay.concatenate(relay.Tuple([relay.TupleGetItem(call, 0), relay.TupleGetItem(call, 1)]), 0)
    last = relay.nn.relu(relay.TupleGetItem(call, 2))
    wanted["main"] = relay.Function([a], relay.Tuple((joined, last)))
    assert_same(mod, wanted)


def test_a_partition_with_a_tuple_output_runs(rng):
    begin, end = marks("ccompiler")
    a, b = variables("a b")
    first, second = begin(a), begin(b)
    body = end(relay.Tuple((relay.add(first, second), relay.subtract(first, second))))
    v = arrays(rng, "a", "b")
    check_run(partitioned(relay.Function([a, b], body)), v, v["a"] + v["b"], v["a"] - v["b"])


def test_a_compiler_optimizes_its_partitions():
    begin, end = marks("test_optimized")
    tvm.register_func("relay.ext.test_optimized.optimize", transform.FoldConstant(), override=True)
    x, y, z = variables("x y z", (2, 2))
    ones = tvm.nd.array(np.ones((2, 2), "float32"))
    main = relay.Function([x, y, z], end(begin(y) + begin(z)) * x)
    mod = partitioned(bind_params_by_name(main, {"y": ones, "z": ones}))
    body = mod["tvmgen_default_test_optimized_main_0"].body
    assert isinstance(body, relay.Constant) and (body.data.numpy() == 2).all()


def test_type_definitions_are_kept():
    from tvm.relay.prelude import Prelude, StaticTensorArrayOps

    mod = tvm.IRModule()
    prelude = Prelude(mod)
    StaticTensorArrayOps(prelude, "float32", [2, 3]).register()

    def function(name):
        return prelude.get_global_var_static(name, "float32", [2, 3])

    tensor = prelude.get_tensor_ctor_static("tensor_constructor", "float32", [2, 3])
    v, index, values = relay.var("v"), relay.var("index"), function("tensor_array")(relay.const(3))
    for i in range(3):
        values = function("tensor_array_write")(values, relay.const(i), tensor(v))
    mod["main"] = relay.Function([v, index], function("tensor_array_gather")(values, index))
    mod = transform.RemoveUnusedFunctions()(mod)
    made = transform.PartitionGraph()(mod)
    assert {v.name_hint for v in made.get_global_type_vars()} == {v.name_hint for v in mod.get_global_type_vars()}


# ---- patterns of a network ----


def conv_pattern(bias=False, *more):
    pattern = is_op("nn.conv2d")(wildcard(), wildcard())
    pattern = is_op("add")(pattern, wildcard()) if bias else pattern
    for name in more:
        pattern = is_op(name)(pattern)
    return pattern


PATTERNS = {
    "conv2d_bias_relu": conv_pattern(True, "nn.relu"),
    "conv2d_relu": conv_pattern(False, "nn.relu"),
    "conv2d_bias": conv_pattern(True),
    "conv2d_bias_sigmoid": conv_pattern(True, "sigmoid"),
    "conv2d_sigmoid": conv_pattern(False, "sigmoid"),
    "conv2d_bias_sum": is_op("add")(conv_pattern(True), wildcard()),
    "conv2d_bias_sum_relu": is_op("nn.relu")(is_op("add")(conv_pattern(True), wildcard())),
}


def block(name, data, channels, bias, norm, sigmoid):
    weight, shift = relay.var(f"{name}_weight"), relay.var(f"{name}_bias")
    layer = relay.nn.conv2d(data, weight, kernel_size=(3, 3), channels=channels, padding=(1, 1))
    layer = relay.nn.bias_add(layer, shift) if bias else layer
    params = [relay.var(f"{name}_{p}") for p in ("gamma", "beta", "moving_mean", "moving_var")]
    layer = relay.nn.batch_norm(layer, *params)[0] if norm else layer
    return relay.nn.relu(relay.sigmoid(layer) if sigmoid else layer)


def workload(body):
    """A network and random weights: no sum with zeros, which SimplifyExpr would remove."""
    mod, params = relay.testing.create_workload(relay.Function(relay.analysis.free_vars(body), body))
    rng = np.random.default_rng(1)
    return mod, {name: tvm.nd.array(rng.uniform(0.5, 1, p.shape).astype(p.dtype)) for name, p in params.items()}


def patterned(net, params, names, **options):
    mod = typed(net).clone()
    mod["main"] = bind_params_by_name(mod["main"], params)
    table = [(f"layers.{name}", PATTERNS[name]) for name in names]
    passes = [
        transform.CanonicalizeOps(), transform.InferType(), transform.SimplifyInference(), transform.FoldConstant(),
        transform.FoldScaleAxis(), transform.SimplifyExpr(), transform.FoldConstant(), transform.MergeComposite(table),
        transform.AnnotateTarget("layers"), transform.PartitionGraph(**options),
    ]  # fmt: skip
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        return tvm.transform.Sequential(passes)(mod)


def supported(supports):
    supports("layers", "nn.conv2d", "nn.relu", "sigmoid", "add", "nn.dense", "nn.softmax", "nn.global_avg_pool2d")


@pytest.mark.parametrize(
    "names, bias, norm, sigmoid, count",
    [
        (["conv2d_bias_relu"], False, True, False, 3),
        (["conv2d_relu"], False, True, False, 4),
        (["conv2d_bias_relu", "conv2d_relu"], False, True, False, 2),
        (["conv2d_bias_relu", "conv2d_relu"], True, True, False, 2),
        (["conv2d_relu"], False, False, False, 2),
        (["conv2d_bias_relu"], False, False, False, 4),
        (["conv2d_bias_relu", "conv2d_relu"], False, True, True, 7),
        (["conv2d_bias", "conv2d_relu"], True, True, True, 6),
        (["conv2d_bias_sigmoid", "conv2d_relu"], True, True, True, 5),
        (["conv2d_bias_sigmoid", "conv2d_sigmoid"], True, True, True, 4),
    ],
)
def test_partitions_of_patterns(supports, names, bias, norm, sigmoid, count):
    supported(supports)
    data = relay.var("data", relay.TensorType((1, 3, 16, 16)))
    layer = block("b", block("a", data, 8, bias, norm, sigmoid), 8, False, False, sigmoid)
    mod, params = workload(layer)
    assert len(patterned(mod, params, names).functions) - 1 == count


@pytest.mark.parametrize("name, count", [("conv2d_bias_sum", 2), ("conv2d_bias_sum_relu", 1)])
def test_partitions_of_patterns_with_a_sum(supports, name, count):
    supported(supports)
    x, weight = relay.var("x", shape=(1, 32, 8, 8)), relay.const(np.ones((16, 32, 3, 3), "float32"))
    conv = relay.nn.conv2d(x, weight, channels=16, kernel_size=(3, 3))
    shift = relay.const(np.ones((16, 1, 1), "float32"))
    body = relay.nn.relu(relay.add(relay.add(conv, shift), relay.var("other", shape=(1, 16, 6, 6))))
    assert len(patterned(typed(body), {}, [name]).functions) - 1 == count


def test_partitions_of_a_network(supports):
    supported(supports)
    mod, params = relay.testing.mobilenet.get_workload(image_shape=(3, 32, 32), batch_size=1)
    made = patterned(mod, params, ["conv2d_bias_relu", "conv2d_relu"])
    # 27 convolutions with their bias and ReLU, the dense layer, softmax and global pooling.
    assert len(made.functions) - 1 == 30


@pytest.mark.parametrize("bind, count", [(True, 1), (False, 3)])
def test_constants_are_bound_or_passed(supports, bind, count):
    supported(supports)
    data = relay.var("data", relay.TensorType((1, 3, 16, 16)))
    layer = block("b", data, 8, False, True, False)
    mod, params = workload(layer)
    made = patterned(mod, params, ["conv2d_bias_relu"], bind_constants=bind)
    assert len(made["main"].body.args) == count
