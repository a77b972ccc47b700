"""Small symbols of one MXNet operator each, with their inputs. What MXNet makes of them is in cases.npz, which
tools/mxnet_reference.py writes; this file needs neither MXNet nor anything of this package but NumPy."""

from __future__ import annotations

import json
import zlib

import numpy as np

CASES: dict = {}
VERSION = 10901


class Drawn:
    """An input: its value is drawn from the name of the case."""

    def __init__(self, *shape, dtype="float32", low=None, high=None):
        self.shape, self.dtype, self.low, self.high = shape, dtype, low, high

    def value(self, state):
        if self.dtype.startswith("float"):
            low, high = -4.0 if self.low is None else self.low, 4.0 if self.high is None else self.high
            return np.asarray(state.uniform(low, high, self.shape)).astype(self.dtype)
        if self.dtype == "bool":
            return np.asarray(state.randint(0, 2, self.shape)).astype("bool")
        low, high = -9 if self.low is None else self.low, 9 if self.high is None else self.high
        return np.asarray(state.randint(low, high + 1, self.shape)).astype(self.dtype)


def f(*shape, **rest):
    return Drawn(*shape, **rest)


def i(*shape, **rest):
    return Drawn(*shape, **{"dtype": "int32", **rest})


class Case:
    """A symbol of one operator. ``inputs`` are drawn, or arrays; ``want`` is what NumPy makes of them, of operators
    that MXNet has only where a tensor is changed in place or has no known size. ``outputs`` is how many are
    compared."""

    def __init__(self, name, inputs, attrs, graphs, want, outputs):
        self.name, self.op = name, name.split("/")[0]
        self.specs, self.attrs, self.graphs = inputs, attrs, graphs
        self.want, self.outputs = want, outputs

    def arrays(self):
        state = np.random.RandomState(zlib.crc32(self.name.encode()) & 0x7FFFFFFF)
        return [s.value(state) if isinstance(s, Drawn) else np.asarray(s) for s in self.specs]

    def symbol(self, outputs: int = 1) -> str:
        count = len(self.specs)
        nodes = [{"op": "null", "name": f"x{k}", "inputs": []} for k in range(count)]
        node = {"op": self.op, "name": "y", "attrs": self.attrs, "inputs": [[k, 0, 0] for k in range(count)]}
        if self.graphs:
            node["subgraphs"] = self.graphs
        attrs = {"mxnet_version": ["int", VERSION]}
        if self.op.startswith("_np"):
            attrs["is_np_shape"] = ["int", 1]
        return json.dumps(
            {
                "nodes": [*nodes, node],
                "arg_nodes": list(range(count)),
                "node_row_ptr": [*range(count + 1), count + outputs],
                "heads": [[count, k, 0] for k in range(outputs)],
                "attrs": attrs,
            }
        )


def case(name, *inputs, graphs=None, want=None, outputs_=None, **attrs):
    """``name`` is the operator, or the operator and what is special, with a slash."""
    key = name if name not in CASES else next(f"{name}/{k}" for k in range(2, 99) if f"{name}/{k}" not in CASES)
    CASES[key] = Case(key, inputs, {k: str(v) for k, v in attrs.items()}, graphs, want, outputs_)


# -- single elements --------------------------------------------------------------------------------------------------

SPECIAL = np.array([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.49, np.inf, -np.inf, np.nan], "float32")
UNIT = {"low": -1, "high": 1}
ABOVE = {"low": 0.01, "high": 9}
for name in (
    "abs sign negative round rint ceil floor trunc fix square cbrt exp expm1 sin cos tan arctan sinh cosh tanh"
    " arcsinh degrees radians erf gamma gammaln reciprocal rcbrt relu sigmoid softsign logical_not"
).split():
    case(name, f(3, 5))
for name in ("round", "rint", "sign", "floor", "ceil", "trunc", "relu", "abs"):
    case(f"{name}/special", SPECIAL)
for name in ("sqrt", "rsqrt", "log", "log10", "log2", "log1p"):
    case(name, f(3, 5, **ABOVE))
for name in ("arcsin", "arccos", "arctanh", "erfinv"):
    case(name, f(3, 5, low=-0.99, high=0.99))
case("arccosh", f(7, low=1, high=9))
case("erfinv/ends", np.array([-1, 1, 0, 1e-6, 0.9999], "float32"))
case("gammaln/above", f(9, low=0.1, high=30))
for name in ("square", "abs", "negative", "sign", "relu"):
    case(f"{name}/integers", i(7))
for name in (
    "absolute sign negative ceil floor trunc fix square cbrt exp expm1 sin cos tan arctan sinh cosh tanh"
    " arcsinh degrees radians reciprocal logical_not rint"
).split():
    case(f"_npi_{name}", f(3, 5))
for name in ("sqrt", "log", "log10", "log2", "log1p"):
    case(f"_npi_{name}", f(3, 5, **ABOVE))
for name in ("arcsin", "arccos", "arctanh"):
    case(f"_npi_{name}", f(3, 5, low=-0.99, high=0.99))
case("_npi_arccosh", f(7, low=1, high=9))
case("_npi_rint/special", SPECIAL)
for name in ("sqrt", "exp", "sin"):
    case(f"_npi_{name}/integers", i(7, low=0, high=9))
case("_npi_bitwise_not", i(7))
case("_npi_bitwise_not/bool", Drawn(7, dtype="bool"))
for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf"):
    case(f"_npi_{name}", SPECIAL)
case("_npi_around", f(9, low=-99, high=99), decimals=1)
case("_npi_around/whole", SPECIAL)
case("_npi_nan_to_num", SPECIAL, nan=3.0)
case("_npi_nan_to_num/limits", SPECIAL, posinf=7.0, neginf=-8.0)
case("_npx_relu", f(3, 4))
case("_npx_sigmoid", f(3, 4))
case("_copy", f(3))
case("BlockGrad", f(3))
case("make_loss", f(3))
case("_np_copy", f(3))
case("MakeLoss", f(3), grad_scale=2.0)
case("IdentityAttachKLSparseReg", f(3, 4, **ABOVE), f(4))
case("_identity_with_attr_like_rhs", f(3), f(3))
case("_contrib_gradientmultiplier", f(3), scalar=0.5)
case("LinearRegressionOutput", f(3, 2), f(3, 2))
case("MAERegressionOutput", f(3, 2), f(3, 2))
case("LogisticRegressionOutput", f(3, 2), f(3, 2))
case("SVMOutput", f(3, 2), f(3))
case("Dropout", f(3, 5), p=0.3)
case("cast_storage", f(3, 2), stype="default")
for kind in ("int32", "float16", "float64", "uint8", "bool"):
    case(f"Cast/{kind}", f(9, low=0, high=9), dtype=kind)
case("Cast/float", i(9), dtype="float32")
case("amp_cast", f(4), dtype="float16")
case("amp_multicast", f(4), f(4, dtype="float64"), num_outputs=2)
HALVES = [np.array([0.5, 1.25], "float32"), np.array([2, 3], "float16")]
case("amp_multicast/wide", *HALVES, num_outputs=2, want=[a.astype("float32") for a in HALVES])
case("amp_multicast/narrow", *HALVES, num_outputs=2, cast_narrow=True, want=[a.astype("float16") for a in HALVES])
for name in ("add", "sub", "mul", "div"):
    case(f"elemwise_{name}", f(3, 4), f(3, 4))
    case(f"broadcast_{name}", f(3, 1, 4), f(1, 5, 4))
    case(f"elemwise_{name}/integers", i(9), i(9, low=1))
case("_grad_add", f(3), f(3))
for name in (
    "mod",
    "maximum",
    "minimum",
    "hypot",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
):
    case(f"_{name}", i(11, dtype="float32", low=-3, high=3), f(11))
    case(f"broadcast_{name}", i(3, 4, dtype="float32", low=-2, high=2), i(1, 4, dtype="float32", low=-2, high=2))
    case(f"_{name}_scalar", f(9), scalar=1.5)
    case(f"_{name}_scalar/zero", i(9, low=-3, high=3), scalar=0)
WHOLE = np.array([-3, -2, -1, 0, 1, 2, 3, 0, 2], "float32")
case("broadcast_equal/same", WHOLE, WHOLE[::-1].copy())
case("broadcast_mod/signs", np.array([7, -7, 7, -7, 5, 0], "float32"), np.array([3, 3, -3, -3, 0, 2], "float32"))
case("broadcast_mod/integers", np.array([7, -7, 7, -7, 0], "int32"), np.array([3, 3, -3, -3, 2], "int32"))
case("_power", f(9, **ABOVE), f(9))
case("broadcast_power", f(3, 1, **ABOVE), f(1, 4))
for name in ("plus", "minus", "mul", "div", "rminus", "rdiv", "rmod"):
    case(f"_{name}_scalar", f(9), scalar=2.5)
    case(f"_{name}_scalar/integers", i(9, low=1), scalar=3)
case("_power_scalar", f(9, **ABOVE), scalar=1.7)
case("_rpower_scalar", f(9), scalar=1.7)
case("_scatter_elemwise_div", f(4), f(4))
case("_scatter_plus_scalar", f(4), scalar=2)
case("_scatter_minus_scalar", f(4), scalar=2)
case("add_n", f(3, 4), f(3, 4), f(3, 4), num_args=3)
case("_contrib_quadratic", f(9), a=2.0, b=-3.0, c=0.5)
case("smooth_l1", f(9), scalar=2.0)
case("clip", f(9), a_min=-1.5, a_max=2.0)
case("clip/integers", i(9), a_min=-3, a_max=4)
case("hard_sigmoid", f(9), alpha=0.3, beta=0.4)
case("_contrib_round_ste", SPECIAL[:9])
case("_contrib_sign_ste", f(5))
for kind in ("relu", "sigmoid", "softrelu", "softsign", "tanh"):
    case(f"Activation/{kind}", f(3, 5, low=-90, high=90), act_type=kind)
for kind in ("leaky", "elu", "selu", "gelu"):
    case(f"LeakyReLU/{kind}", f(2, 3, 5), act_type=kind, slope=0.3)
case("LeakyReLU/rrelu", f(2, 3, 5), act_type="rrelu", outputs_=1)
case("LeakyReLU/prelu", f(2, 3, 4, 5), f(3), act_type="prelu")
case("LeakyReLU/prelu one", f(2, 3, 4), f(1), act_type="prelu")
case("LeakyReLU/prelu matrix", f(2, 3), f(3), act_type="prelu")
for name in (
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "mod",
    "arctan2",
    "copysign",
    "hypot",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
):
    case(f"_npi_{name}", f(3, 1, 4), f(2, 4))
case("_npi_power", f(9, **ABOVE), f(9))
case("_npi_ldexp", f(9), i(9, dtype="float32", low=-3, high=3))
case("_npi_arctan2/signs", np.array([0, 0, 1, -1, 1, -1, 2], "float32"), np.array([1, -1, 0, 0, -1, -1, 3], "float32"))
for name in ("add", "subtract", "multiply"):
    case(f"_npi_{name}/mixed", f(4), i(4))
case("_npi_true_divide/integers", i(4), i(4, low=1))
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    case(f"_npi_{name}", i(9), i(9))
    case(f"_npi_{name}_scalar", i(9), scalar=5)
for name in (
    "add",
    "subtract",
    "rsubtract",
    "multiply",
    "true_divide",
    "rtrue_divide",
    "mod",
    "rmod",
    "power",
    "rpower",
    "arctan2",
    "rarctan2",
    "copysign",
    "rcopysign",
    "ldexp",
    "rldexp",
    "equal",
    "not_equal",
    "greater",
    "less",
    "greater_equal",
    "less_equal",
):
    case(f"_npi_{name}_scalar", f(9, low=0.5, high=4), scalar=2.5, is_int=False)
for name in ("add", "multiply", "true_divide", "greater"):
    case(f"_npi_{name}_scalar/integers", i(9), scalar=2, is_int=True)
    case(f"_npi_{name}_scalar/half", i(9), scalar=2.5, is_int=False)

# -- layers -----------------------------------------------------------------------------------------------------------

case("Convolution", f(2, 3, 9, 7), f(4, 3, 3, 2), f(4), kernel="(3, 2)", num_filter=4)
case(
    "Convolution/all",
    f(1, 4, 11, 9),
    f(6, 2, 3, 3),
    kernel="(3L, 3L)",
    stride="(2, 1)",
    pad="(1, 2)",
    dilate="(2, 1)",
    num_filter=6,
    num_group=2,
    no_bias="True",
    workspace=512,
)
case("Convolution/depthwise", f(1, 4, 7, 7), f(4, 1, 3, 3), f(4), kernel="(3, 3)", num_filter=4, num_group=4)
case("Convolution/1", f(2, 3, 11), f(5, 3, 3), f(5), kernel="(3,)", stride="(2,)", pad="(1,)", num_filter=5)
case("Convolution/3", f(1, 2, 5, 6, 4), f(3, 2, 2, 3, 2), f(3), kernel="(2, 3, 2)", pad="(1, 0, 1)", num_filter=3)
case("Convolution_v1", f(1, 3, 7, 7), f(2, 3, 3, 3), f(2), kernel="(3, 3)", num_filter=2)
case("Deconvolution", f(2, 3, 5, 4), f(3, 4, 3, 2), kernel="(3, 2)", num_filter=4, stride="(2, 3)", pad="(1, 0)")
case(
    "Deconvolution/adj",
    f(1, 4, 5, 4),
    f(4, 3, 4, 4),
    f(6),
    kernel="(4, 4)",
    num_filter=6,
    stride="(2, 2)",
    pad="(1, 1)",
    adj="(1, 0)",
    num_group=2,
    no_bias="False",
)
case(
    "Deconvolution/target",
    f(1, 2, 5, 5),
    f(2, 3, 4, 4),
    kernel="(4, 4)",
    num_filter=3,
    stride="(2, 2)",
    target_shape="(10, 10)",
)
case("Deconvolution/1", f(1, 2, 7), f(2, 3, 3), kernel="(3,)", num_filter=3, stride="(2,)")
case(
    "Deconvolution/dilate",
    f(1, 2, 4, 5),
    f(2, 3, 3, 2),
    kernel="(3, 2)",
    num_filter=3,
    stride="(2, 1)",
    dilate="(2, 3)",
)
case("FullyConnected", f(3, 4, 2), f(5, 8), f(5), num_hidden=5)
case("FullyConnected/rows", f(3, 4, 2), f(5, 2), num_hidden=5, flatten="False", no_bias="True")
case("FullyConnected/rows bias", f(2, 3, 4, 2), f(5, 2), f(5), num_hidden=5, flatten="False")
case("Embedding", i(3, 4, dtype="float32", low=-2, high=9), f(7, 5), input_dim=7, output_dim=5)
case("_contrib_SparseEmbedding", i(3, low=0, high=6, dtype="float32"), f(7, 5), input_dim=7, output_dim=5)
for kind in ("max", "avg", "sum"):
    case(f"Pooling/{kind}", f(1, 3, 9, 8), kernel="(3, 2)", stride="(2, 1)", pool_type=kind)
    case(f"Pooling/{kind} pad", f(1, 3, 9, 8), kernel="(3, 2)", stride="(2, 2)", pad="(1, 1)", pool_type=kind)
    case(
        f"Pooling/{kind} full",
        f(1, 2, 9, 8),
        kernel="(2, 3)",
        stride="(2, 2)",
        pad="(1, 1)",
        pool_type=kind,
        pooling_convention="full",
    )
    case(f"Pooling/{kind} global", f(1, 3, 5, 4), kernel="(2, 2)", global_pool="True", pool_type=kind)
case(
    "Pooling/avg exclude",
    f(1, 3, 9, 8),
    kernel="(3, 3)",
    stride="(2, 2)",
    pad="(1, 1)",
    pool_type="avg",
    count_include_pad="False",
)
case(
    "Pooling/avg exclude full",
    f(1, 3, 9, 8),
    kernel="(3, 3)",
    stride="(2, 2)",
    pad="(1, 1)",
    pool_type="avg",
    count_include_pad="False",
    pooling_convention="full",
)
for p in (1, 2, 3):
    case(f"Pooling/lp {p}", f(1, 2, 7, 6), kernel="(3, 2)", pool_type="lp", p_value=p)
case("Pooling/lp global", f(1, 2, 7, 6), kernel="(1, 1)", pool_type="lp", p_value=2, global_pool="True")
case("Pooling/1", f(1, 2, 9), kernel="(3,)", stride="(2,)", pool_type="avg")
case("Pooling/3", f(1, 2, 5, 6, 4), kernel="(3, 2, 2)", stride="(2, 1, 2)", pool_type="max")
case("Pooling_v1/max", f(1, 3, 9, 8), kernel="(3, 2)", stride="(2, 2)", pad="(1, 1)", pool_type="max")
case("Pooling_v1/avg", f(1, 3, 9, 8), kernel="(3, 2)", stride="(2, 2)", pad="(1, 1)", pool_type="avg")
case("Pooling_v1/full", f(1, 3, 9, 8), kernel="(2, 3)", stride="(2, 2)", pool_type="avg", pooling_convention="full")
case("_contrib_AdaptiveAvgPooling2D", f(1, 3, 9, 7), output_size="(4, 3)")
case("_contrib_AdaptiveAvgPooling2D/one", f(1, 3, 9, 7), output_size="3")
case("_contrib_AdaptiveAvgPooling2D/none", f(1, 3, 5, 7))
NORM = (f(2, 4, 5), f(4), f(4), f(4), f(4, **ABOVE))
case("BatchNorm", *NORM, fix_gamma="False", eps=1e-5)
case("BatchNorm/fixed", *NORM)
case("BatchNorm/axis", f(2, 5, 4), f(4), f(4), f(4), f(4, **ABOVE), axis=-1, fix_gamma="False", use_global_stats="True")
# MXNet has this one in a library for other processors only.
_X = np.linspace(-2, 3, 24, dtype="float32").reshape(2, 4, 3)
_ROWS = np.linspace(0.5, 2, 16, dtype="float32").reshape(4, 4)
_SCALED = (_X - _ROWS[2][:, None]) / np.sqrt(_ROWS[3][:, None] + 1e-3) * _ROWS[0][:, None] + _ROWS[1][:, None]
case("_contrib_BatchNormWithReLU", _X, *_ROWS, fix_gamma="False", want=np.maximum(_SCALED, 0))
case("_contrib_SyncBatchNorm", f(2, 4, 5, 3), *NORM[1:], fix_gamma="False", key="k")
case("LayerNorm", f(2, 3, 5), f(5), f(5))
case("LayerNorm/axis", f(2, 3, 5), f(3), f(3), axis=1, eps=1e-3)
case("LayerNorm/outputs", f(2, 3, 5), f(5), f(5), output_mean_var="True")
case("InstanceNorm", f(2, 3, 5, 4), f(3), f(3))
case("GroupNorm", f(2, 6, 5, 4), f(3), f(3), num_groups=3)
for mode in ("instance", "channel", "spatial"):
    case(f"L2Normalization/{mode}", f(2, 3, 4, 5), mode=mode)
case("LRN", f(1, 7, 3, 4), nsize=5, alpha=0.1, beta=0.6, knorm=1.5)
for name in ("softmax", "log_softmax", "softmin"):
    case(name, f(3, 5))
    case(f"{name}/axis", f(2, 3, 4), axis=1, temperature=2.5)
case("softmax/length", f(3, 5), np.array([2, 5, 1], "int32"), axis=1, use_length="True")
case("SoftmaxActivation", f(2, 3, 4))
case("SoftmaxActivation/channel", f(2, 3, 4, 2), mode="channel")
case("SoftmaxOutput", f(3, 5), f(3))
case("SoftmaxOutput/multi", f(2, 3, 4), f(2, 4), multi_output="True")
case("SoftmaxOutput/preserve", f(2, 3, 4), f(2, 3), preserve_shape="True")
case("SoftmaxOutput/rows", f(2, 3, 4), f(2, 3))

# -- reductions -------------------------------------------------------------------------------------------------------

for name in ("sum", "mean", "prod", "max", "min", "nansum", "nanprod", "_square_sum"):
    if name != "_square_sum":
        case(name, f(3, 4, 5))
        case(f"{name}/axes", f(3, 4, 5), axis="(0, -1)", keepdims="True")
        case(f"{name}/exclude", f(3, 4, 5), axis="1", exclude="True")
case("nansum/nan", np.array([[1, np.nan, 3], [np.nan, np.nan, 2]], "float32"), axis="1")
case("nanprod/nan", np.array([[1, np.nan, 3], [np.nan, np.nan, 2]], "float32"), axis="1")
case("moments", f(3, 4, 5), axes="(0, 2)")
case("moments/keep", f(3, 4, 5), axes="(1,)", keepdims="True")
case("norm", f(3, 4))
case("norm/one", f(3, 4, 2), ord=1, axis="1")
case("norm/two", f(3, 4, 2), ord=2, axis="-1", keepdims="True")
for name in ("argmax", "argmin"):
    case(name, f(3, 4, 5))
    case(f"{name}/axis", f(3, 4, 5), axis=1)
    case(f"{name}/keep", f(3, 4, 5), axis=-1, keepdims="True")
    case(f"_npi_{name}", f(3, 4, 5))
    case(f"_npi_{name}/axis", f(3, 4, 5), axis=1, keepdims="True")
case("argmax_channel", f(3, 5))
for name in ("_np_sum", "_np_prod"):
    case(name, f(3, 4, 2))
    case(f"{name}/axis", f(3, 4, 2), axis="(0, 2)", keepdims="True")
    case(f"{name}/integers", i(3, 4, low=1, high=3), axis="1")
case("_np_sum/dtype", i(3, 4), axis="0", dtype="float32")
for name in ("_np_max", "_np_min"):
    case(name, f(3, 4))
    case(f"{name}/axis", f(3, 4), axis="-1", keepdims="True")
for name in ("_np_all", "_np_any"):
    case(name, i(3, 4, low=0, high=1))
    case(f"{name}/axis", i(3, 4, low=0, high=1), axis="1")
for name in ("_npi_mean", "_npi_var", "_npi_std"):
    case(name, f(3, 4, 2))
    case(f"{name}/axis", f(3, 4, 2), axis="(1,)", keepdims="True")
case("_npi_mean/integers", i(3, 4))
case("_npi_var/ddof", f(3, 4), axis="1", ddof=1)
case("_npi_average", f(3, 4), f(4, **ABOVE), axis="1")
case("_npi_average/plain", f(3, 4), weighted="False", axis="0")
case("_np_cumsum", f(3, 4))
case("_np_cumsum/axis", f(3, 4), axis=1)
case("sort", f(3, 7))
case("sort/down", f(3, 7), axis=0, is_ascend="False")
case("sort/flat", f(3, 4), axis="None")
case("argsort", f(3, 7))
case("argsort/down", f(3, 7), axis=0, is_ascend="False", dtype="int32")
for kind in ("indices", "value", "both", "mask"):
    case(f"topk/{kind}", f(3, 7), k=3, ret_typ=kind)
case("topk/up", f(3, 7), axis=0, k=2, is_ascend="True", ret_typ="both", dtype="int32")
case("topk/flat", f(3, 4), axis="None", k=5, ret_typ="both")

# -- shapes -----------------------------------------------------------------------------------------------------------

for shape in ("(4, 0, 2)", "(6, 1, -1)", "(0, -2)", "(-3, 4)", "(-4, 1, 2, -2)", "(0, -3, -1)", "(-4, -1, 2, 0, 0)"):
    case(f"Reshape/{shape}", f(2, 3, 4) if shape[1] != "4" else f(6, 2, 2), shape=shape.replace("4, 0, 2", "-1, 0, 4"))
case("Reshape/reverse", f(10, 5, 4), shape="(-1, 0)", reverse="True")
case("Reshape/target", f(2, 3, 4), target_shape="(2, 0)")
case("Reshape/highest", f(2, 3, 4), target_shape="(0, 12)", keep_highest="True")
for shape in ("(-1,)", "(-2, 12)", "(-5, 4)", "(-6, 1, 2, -4)", "(-2, -2, 2, 2)"):
    case(f"_npx_reshape/{shape}", f(2, 3, 4), newshape=shape)
case("_npx_reshape/ones", f(2, 1, 4), newshape="(-2, -3, -2)")
case("_np_reshape", f(2, 3, 4), newshape="(4, -1)")
case("reshape_like", f(2, 6), f(3, 4))
case("reshape_like/axes", f(30, 7), f(15, 2, 4), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
case("Flatten", f(2, 3, 4))
case("transpose", f(2, 3, 4))
case("transpose/axes", f(2, 3, 4), axes="(1, 2, 0)")
case("_np_transpose", f(2, 3, 4))
case("_np_transpose/axes", f(2, 3, 4), axes="(1, 2, 0)")
case("SwapAxis", f(2, 3, 4), dim1=0, dim2=2)
case("_np_moveaxis", f(2, 3, 4), source="(0, 1)", destination="(2, 0)")
case("expand_dims", f(2, 3), axis=1)
case("expand_dims/end", f(2, 3), axis=-1)
case("squeeze", f(2, 1, 3, 1))
case("squeeze/axis", f(2, 1, 3, 1), axis="(1,)")
case("_np_squeeze", f(1, 1))
case("reverse", f(2, 3, 4), axis="(0, 2)")
case("_npi_flip", f(2, 3, 4), axis="(1,)")
case("slice", f(5, 6, 4), begin="(1, None)", end="(4, -1)")
case("slice/steps", f(5, 6, 4), begin="(4, None, 1)", end="(0, None, None)", step="(-2, 3, 1)")
case("slice_axis", f(5, 6), axis=1, begin=2, end=-1)
case("slice_axis/end", f(5, 6), axis=-1, begin=-4, end="None")
case("slice_like", f(5, 6, 4), f(3, 4, 4))
case("slice_like/axes", f(5, 6, 4), f(3, 9), axes="(0,)")
case("_slice_assign", f(5, 6), f(2, 3), begin="(1, 0)", end="(3, 6)", step="(1, 2)")
case("_slice_assign_scalar", f(5, 6), scalar=7, begin="(4, None)", end="(None, 2)")
case("Crop", f(1, 2, 7, 8), f(1, 1, 4, 5), num_args=2, offset="(1, 2)")
case("Crop/center", f(1, 2, 7, 8), num_args=1, h_w="(3, 4)", center_crop="True")
case("Concat", f(2, 3), f(2, 4), num_args=2)
case("Concat/dim", f(2, 3, 2), f(1, 3, 2), num_args=2, dim=0)
case("_rnn_param_concat", f(3), f(4), num_args=2, dim=0)
case("_npi_concatenate", f(2, 3), f(2, 4), num_args=2, axis=-1)
case("_npi_concatenate/flat", f(2, 3), f(4), num_args=2, axis="None")
case("stack", f(2, 3), f(2, 3), num_args=2, axis=1)
case("_npi_stack", f(2, 3), f(2, 3), num_args=2, axis=-1)
case("SliceChannel", f(2, 6, 3), num_outputs=3)
case("SliceChannel/squeeze", f(2, 3, 4), num_outputs=3, axis=1, squeeze_axis="True")
case("_split_v2", f(2, 7), indices="(0, 2, 5)", axis=1)
case("_split_v2/sections", f(6, 2), indices="()", axis=0, sections=3)
case("_npi_hsplit", f(2, 6), indices="(0, 2)", axis=1)
case("_npi_dsplit", f(2, 3, 4), indices="(0, 1)", axis=2)
case("broadcast_to", f(2, 1, 3), shape="(0, 4, 3)")
case("_npi_broadcast_to", f(3, 1), shape="(2, 3, 4)")
case("broadcast_axis", f(2, 1, 3, 1), axis="(1, 3)", size="(4, 2)")
case("broadcast_like", f(2, 1, 3), f(2, 4, 3))
case("broadcast_like/axes", f(1, 2, 1), f(5, 6, 7), lhs_axes="(0, 2)", rhs_axes="(1, -1)")
case("tile", f(2, 3), reps="(2, 3)")
case("tile/more", f(2, 3), reps="(2, 1, 2)")
case("tile/fewer", f(2, 3), reps="(2,)")
case("repeat", f(2, 3), repeats=2)
case("repeat/axis", f(2, 3), repeats=3, axis=-1)
case("Pad", f(1, 2, 3, 4), mode="constant", pad_width="(0, 0, 0, 0, 1, 2, 3, 1)", constant_value=2.5)
case("Pad/edge", f(1, 2, 3, 4), mode="edge", pad_width="(0, 0, 0, 0, 1, 2, 3, 1)")
case("Pad/reflect", f(1, 2, 3, 5), mode="reflect", pad_width="(0, 0, 0, 0, 1, 2, 3, 1)")
for mode in ("constant", "edge", "reflect", "symmetric"):
    case(
        f"_npi_pad/{mode}",
        f(3, 4),
        pad_width="((1, 2), (0, 3))",
        mode=mode,
        **({"constant_value": 1.5} if mode == "constant" else {}),
    )
case("depth_to_space", f(1, 8, 2, 3), block_size=2)
case("space_to_depth", f(1, 2, 4, 6), block_size=2)
case("_zeros", shape="(2, 3)", dtype="int32")
case("_ones", shape="(2, 3)")
case("_full", shape="(2,)", value=2.5)
case("_npi_zeros", shape="()")
case("_npi_ones", shape="(2, 3)", dtype="float64")
case("zeros_like", f(2, 3))
case("ones_like", f(2, 3))
case("_npi_full_like", f(2, 3), fill_value=1.5)
case("_arange", start=2, stop=9, step=1.5)
case("_arange/repeat", start=4, repeat=2)
case("_npi_arange", start=0, stop=5, dtype="int32")
case("_contrib_arange_like", f(3, 4))
case("_contrib_arange_like/axis", f(3, 4), axis=1, start=2, step=0.5)
case("_linspace", start=1, stop=2, num=7, endpoint="False")
case("_npi_logspace", start=0, stop=2, num=5)
case("_eye", N=3, M=4, k=1)
case("_npi_eye", N=3, M=4, k=-1)
case("_npi_identity", shape="(3, 3)")
case("_npi_indices", dimensions="(2, 3)")
for name in ("hanning", "hamming", "blackman"):
    case(f"_npi_{name}", M=7)
case("shape_array", f(2, 3, 4))
case("size_array", f(2, 3, 4))
case("_contrib_index_array", f(2, 3))
case("_contrib_index_array/axes", f(2, 3, 4), axes="(2, 0)")
case("diag", f(4), k=1)
case("diag/matrix", f(3, 5), k=-1)
case("diag/axes", f(2, 3, 4), axis1=0, axis2=2)
case("_np_diag", f(3, 4), k=1)
case("_np_diag/vector", f(3), k=-2)
case("_np_diagflat", f(2, 2), k=1)
case("_np_diagonal", f(3, 4, 2), offset=1)
case("_np_trace", f(3, 4), offset=-1)
case("_npi_tril", f(3, 4), k=1)

# -- places -----------------------------------------------------------------------------------------------------------

case("take", f(5, 3), i(2, 4, low=-2, high=8, dtype="float32"))
case("take/wrap", f(5, 3), i(4, low=-9, high=9), axis=1, mode="wrap")
case("pick", f(3, 5), np.array([0, 4, 9], "float32"))
case("pick/axis", f(3, 5), np.array([0, 1, 2, -1, 1], "float32"), axis=0, keepdims="True", mode="wrap")
case("batch_take", f(3, 5), np.array([0, 4, 2], "int32"))
case("gather_nd", f(4, 5, 2), np.array([[0, 3, 1], [4, 0, 2]], "float32"))
case("scatter_nd", f(3), np.array([[0, 3, 1], [4, 0, 2]], "int32"), shape="(4, 5)")
case("_contrib_index_copy", f(5, 3), np.array([1, 4], "int32"), f(2, 3))
case("one_hot", np.array([[0, 2], [3, 9]], "int32"), depth=4, on_value=2, off_value=-1)
MASK = np.array([[1, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0]], "bool")
TABLE = np.arange(12, dtype="float32").reshape(3, 4)
case("where", i(3, 4, low=0, high=1, dtype="float32"), f(3, 4), f(3, 4))
case("where/rows", np.array([0, 1, 2], "float32"), f(3, 4), f(3, 4))
case("_npi_where", Drawn(3, 1, dtype="bool"), f(3, 4), f(4))
case("_npi_where_lscalar", Drawn(3, 4, dtype="bool"), f(3, 4), scalar=2.5)
case("_npi_where_rscalar", Drawn(3, 4, dtype="bool"), f(3, 4), scalar=2.5)
case("_npi_where_scalar2", Drawn(3, 4, dtype="bool"), x=1.5, y=-2.0)
case("_contrib_boolean_mask", f(5, 3), np.array([0, 1, 0, 1, 1], "float32"))
case("_npx_nonzero", MASK.astype("int32"), want=np.argwhere(MASK))
case(
    "_npi_boolean_mask_assign_scalar", TABLE, MASK, value=2.5, start_axis=0, want=np.where(MASK, np.float32(2.5), TABLE)
)
case(
    "_npi_boolean_mask_assign_tensor",
    TABLE,
    MASK[:, 0].copy(),
    np.array([7], "float32"),
    start_axis=0,
    want=np.where(MASK[:, :1], np.float32(7), TABLE),
)
case("_unravel_index", np.array([22, 41, 37], "int32"), shape="(7, 6)")
case("_ravel_multi_index", np.array([[3, 6, 6], [4, 5, 1]], "int32"), shape="(7, 6)")
LENGTHS = np.array([2, 4, 1], "float32")
for name in ("SequenceMask", "SequenceLast", "SequenceReverse"):
    case(name, f(4, 3, 2))
    case(f"{name}/lengths", f(4, 3, 2), LENGTHS, use_sequence_length="True")
case("SequenceMask/axis", f(3, 4, 2), LENGTHS, use_sequence_length="True", axis=1, value=-1.5)
case("SequenceLast/axis", f(3, 4, 2), LENGTHS, use_sequence_length="True", axis=1)

# -- products ---------------------------------------------------------------------------------------------------------

case("dot", f(3, 4), f(4, 5))
case("dot/transposed", f(4, 3), f(5, 4), transpose_a="True", transpose_b="True")
case("dot/vectors", f(4), f(4))
case("dot/more", f(2, 3, 4), f(4, 5))
case("_np_dot", f(3, 4), f(4, 5))
case("_np_dot/vectors", f(4), f(4))
case("batch_dot", f(2, 3, 4), f(2, 4, 5))
case("batch_dot/transposed", f(2, 4, 3), f(2, 5, 4), transpose_a="True", transpose_b="True")
case("_npi_matmul", f(2, 3, 4), f(4, 5))
case("_npi_tensordot", f(2, 3, 4), f(4, 3, 5), a_axes_summed="(1, 2)", b_axes_summed="(1, 0)")
case("_npi_tensordot_int_axes", f(2, 3, 4), f(3, 4, 5), axes=2)
case("_npi_einsum", f(2, 3, 4), f(2, 4, 5), num_args=2, subscripts="bij,bjk->bik")
case("_npi_einsum/implied", f(3, 4), f(4, 5), num_args=2, subscripts="ij,jk")
case("khatri_rao", f(2, 3), f(4, 3), num_args=2)
case("_linalg_gemm", f(2, 3, 4), f(2, 4, 5), f(2, 3, 5), alpha=2.0, beta=0.5)
case("_linalg_gemm2", f(4, 3), f(4, 5), transpose_a="True", alpha=0.5)
case("_linalg_syrk", f(3, 4), alpha=2.0)
case("_linalg_syrk/transposed", f(3, 4), transpose="True")
case("_linalg_trmm", f(3, 3), f(3, 4), alpha=2.0)
case("_linalg_trmm/right", f(4, 4), f(3, 4), rightside="True", transpose="True", lower="False")
case("_linalg_extractdiag", f(2, 4, 4), offset=1)
case("_linalg_makediag", f(2, 3), offset=-1)
case("_linalg_sumlogdiag", f(2, 3, 3, **ABOVE))
case("_contrib_interleaved_matmul_selfatt_qk", f(5, 2, 24), heads=2)
case("_contrib_interleaved_matmul_selfatt_valatt", f(5, 2, 24), f(4, 5, 5), heads=2)
case("_contrib_interleaved_matmul_encdec_qk", f(3, 2, 8), f(5, 2, 16), heads=2)
case("_contrib_interleaved_matmul_encdec_valatt", f(5, 2, 16), f(4, 3, 5), heads=2)
case("_contrib_div_sqrt_dim", f(2, 3, 5))

# -- recurrent networks -----------------------------------------------------------------------------------------------


def rnn(name, mode, steps, batch, features, hidden, layers, both, projection=None, lengths=False, **attrs):
    gates, ways = {"lstm": 4, "gru": 3}.get(mode, 1) * hidden, 2 if both else 1
    out = projection or hidden
    count = sum(
        ways
        * (gates * (features if k == 0 else out * ways) + gates * out + (out * hidden if projection else 0) + 2 * gates)
        for k in range(layers)
    )
    states = [f(layers * ways, batch, out, **UNIT)]
    states += [f(layers * ways, batch, hidden, **UNIT)] if mode == "lstm" else []
    extra = [np.array([1 + k % steps for k in range(batch)], "int32")] if lengths else []
    case(
        f"RNN/{name}",
        f(steps, batch, features),
        f(count, **UNIT),
        *states,
        *extra,
        mode=mode,
        state_size=hidden,
        num_layers=layers,
        bidirectional=both,
        state_outputs=True,
        **attrs,
    )


for kind in ("rnn_relu", "rnn_tanh", "lstm", "gru"):
    rnn(kind, kind, 4, 3, 5, 2, 1, False)
    rnn(f"{kind} two", kind, 3, 2, 3, 4, 2, True, p=0.5)
rnn("projection", "lstm", 3, 2, 5, 4, 1, False, projection=3, projection_size=3)
rnn("one step", "gru", 1, 1, 3, 2, 1, True)

# -- boxes and images -------------------------------------------------------------------------------------------------


def boxes(count, seed, size=1.0, classes=3):
    state = np.random.RandomState(seed)
    at = state.uniform(0, 0.6 * size, (count, 2))
    far = at + state.uniform(0.1 * size, 0.4 * size, (count, 2))
    kinds, scores = state.randint(0, classes, (count, 1)), state.permutation(count)[:, None] / count
    return np.concatenate([kinds, scores, at, far], 1).astype("float32")


case("_contrib_MultiBoxPrior", f(1, 2, 3, 4), sizes="(0.5, 0.25)", ratios="(1, 2, 0.5)")
case(
    "_contrib_MultiBoxPrior/all",
    f(1, 2, 3, 2),
    sizes="(0.7,)",
    ratios="(1, 2)",
    clip="True",
    steps="(0.3, 0.4)",
    offsets="(0.4, 0.6)",
)
PRIORS = boxes(9, 1)[None, :, 2:]
CLASSES = np.random.RandomState(2).dirichlet([1, 1, 1], (2, 9)).transpose(0, 2, 1).astype("float32")
case("_contrib_MultiBoxDetection", CLASSES, f(2, 36, **UNIT), PRIORS)
case(
    "_contrib_MultiBoxDetection/all",
    CLASSES,
    f(2, 36, **UNIT),
    PRIORS,
    clip="False",
    threshold=0.2,
    nms_threshold=0.3,
    force_suppress="True",
    variances="(0.2, 0.1, 0.3, 0.1)",
    nms_topk=5,
)
case("_contrib_box_nms", np.stack([boxes(9, 3), boxes(9, 4)]), id_index=0)
case("_contrib_box_nms/all", boxes(12, 5), overlap_thresh=0.3, valid_thresh=0.2, topk=6, force_suppress="True")
case("_contrib_box_nms/background", boxes(12, 6), id_index=0, background_id=1, overlap_thresh=0.3)
case("_contrib_box_nms/formats", boxes(9, 7), in_format="center", out_format="center", overlap_thresh=0.2)
case("_contrib_box_iou", boxes(4, 8)[:, 2:], boxes(5, 9)[:, 2:])
case("_contrib_box_iou/center", boxes(4, 8)[:, 2:], boxes(5, 9)[:, 2:], format="center")
case("_contrib_box_decode", f(2, 5, 4, **UNIT), boxes(5, 10)[None, :, 2:], std0=0.1, std1=0.1, std2=0.2, std3=0.2)
case("_contrib_box_decode/corner", f(2, 5, 4, **UNIT), boxes(5, 10)[None, :, 2:], format="corner", clip=0.3)
ROIS = np.concatenate([[[0], [1], [0]], boxes(3, 11, 12.0)[:, 2:]], 1).astype("float32")
case("_contrib_ROIAlign", f(2, 3, 9, 8), ROIS, pooled_size="(2, 3)", spatial_scale=0.7, sample_ratio=2)
case("_contrib_ROIAlign/aligned", f(2, 3, 9, 8), ROIS, pooled_size="(2, 2)", spatial_scale=0.7, aligned="True")
case("ROIPooling", f(2, 3, 9, 8), np.round(ROIS), pooled_size="(2, 3)", spatial_scale=0.5)
SCORES = np.random.RandomState(12).permutation(2 * 6 * 3 * 4).reshape(1, 12, 3, 4).astype("float32") / 144
INFO = np.array([[48, 64, 1]], "float32")
case(
    "_contrib_Proposal",
    SCORES,
    f(1, 24, 3, 4, low=-0.3, high=0.3),
    INFO,
    scales="(1, 2)",
    ratios="(0.5, 1, 2)",
    rpn_pre_nms_top_n=30,
    rpn_post_nms_top_n=8,
    rpn_min_size=4,
    threshold=0.5,
)
case("_contrib_BilinearResize2D", f(1, 2, 5, 4), height=7, width=3)
case("_contrib_BilinearResize2D/half", f(1, 2, 5, 4), height=7, width=9, align_corners="False")
case("_contrib_BilinearResize2D/scale", f(1, 2, 5, 4), scale_height=2, scale_width=1.5)
case("_contrib_BilinearResize2D/like", f(1, 2, 5, 4), f(1, 1, 8, 7), mode="like")
for mode in ("odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
    case(f"_contrib_BilinearResize2D/{mode}", f(1, 2, 5, 4), mode=mode, scale_height=2, scale_width=2)
case("UpSampling", f(1, 2, 3, 4), scale=2, sample_type="nearest", num_args=1)
case("UpSampling/concat", f(1, 2, 3, 4), f(1, 3, 6, 8), scale=2, sample_type="nearest", num_args=2)
case("UpSampling/sum", f(1, 2, 3, 4), f(1, 2, 6, 8), scale=2, sample_type="nearest", num_args=2, multi_input_mode="sum")
case("UpSampling/bilinear", f(1, 2, 3, 4), f(2, 1, 4, 4), scale=2, sample_type="bilinear", num_args=2, num_filter=2)
case("BilinearSampler", f(1, 2, 5, 6), f(1, 2, 3, 4, low=-1.3, high=1.3))
case("GridGenerator", f(2, 6, **UNIT), transform_type="affine", target_shape="(3, 4)")
case("GridGenerator/warp", f(1, 2, 3, 4), transform_type="warp")
case(
    "SpatialTransformer",
    f(1, 2, 5, 6),
    f(1, 6, **UNIT),
    target_shape="(3, 4)",
    transform_type="affine",
    sampler_type="bilinear",
)
case("Correlation", f(1, 3, 6, 7), f(1, 3, 6, 7), kernel_size=1, max_displacement=2, stride1=1, stride2=1, pad_size=2)
case(
    "Correlation/difference",
    f(1, 3, 8, 7),
    f(1, 3, 8, 7),
    kernel_size=3,
    max_displacement=1,
    pad_size=2,
    is_multiply="False",
)
case("im2col", f(1, 2, 5, 6), kernel="(3, 2)", stride="(2, 1)", pad="(1, 0)", dilate="(1, 2)")
OFFSETS = f(1, 18, 5, 6, low=-0.7, high=0.7)
case("_contrib_DeformableConvolution", f(1, 4, 7, 8), OFFSETS, f(3, 4, 3, 3), f(3), kernel="(3, 3)", num_filter=3)
case(
    "_contrib_DeformableConvolution/groups",
    f(1, 4, 7, 8),
    f(1, 36, 7, 8, low=-0.7, high=0.7),
    f(4, 2, 3, 3),
    kernel="(3, 3)",
    pad="(1, 1)",
    num_filter=4,
    num_group=2,
    num_deformable_group=2,
    no_bias="True",
)
case(
    "_contrib_ModulatedDeformableConvolution",
    f(1, 4, 7, 8),
    f(1, 18, 5, 6, low=-1.7, high=1.7),
    f(1, 9, 5, 6, low=0, high=1),
    f(3, 4, 3, 3),
    f(3),
    kernel="(3, 3)",
    num_filter=3,
)
case(
    "_contrib_ModulatedDeformableConvolution/groups",
    f(2, 4, 7, 8),
    f(2, 36, 4, 4, low=-2.7, high=2.7),
    f(2, 18, 4, 4, low=0, high=1),
    f(4, 4, 3, 3),
    kernel="(3, 3)",
    pad="(1, 1)",
    stride="(2, 2)",
    num_filter=4,
    num_deformable_group=2,
    no_bias="True",
)
case("_image_to_tensor", i(4, 5, 3, dtype="uint8", low=0, high=255))
case("_image_normalize", f(3, 4, 5), mean="(0.1, 0.2, 0.3)", std="(1.5, 2.5, 3.5)")
case("_image_resize", f(4, 5, 3), size="(7, 9)")
case("_image_resize/nearest", f(4, 5, 3), size="(8, 8)", interp=0)
case("_image_crop", f(6, 7, 3), x=1, y=2, width=3, height=4)
case("_image_flip_left_right", f(5, 4, 3))
case("_image_flip_top_bottom", f(4, 5, 3))

# -- the rest of mx.np ------------------------------------------------------------------------------------------------

case("_npi_vstack", f(3), f(2, 3), num_args=2)
case("_npi_hstack", f(2, 3), f(2, 1), num_args=2)
case("_npi_hstack/vectors", f(3), f(2), num_args=2, dim=0)
case("_npi_dstack", f(2, 3), f(2, 3), num_args=2)
case("_npi_column_stack", f(3), f(3, 2), num_args=2)
for n in (1, 2, 3):
    case(f"_np_atleast_{n}d", f(3), f(2, 3), num_args=2)
case("_np_roll", f(3, 4), shift="(5,)")
case("_np_roll/axes", f(3, 4), shift="(1, -2)", axis="(0, 1)")
for k in (1, 2, 3):
    case(f"_npi_rot90/{k}", f(2, 3), k=k, axes="(0, 1)")
case("_npi_diff", f(3, 5), n=2)
case("_npi_polyval", f(4), f(3))

# -- control flow -----------------------------------------------------------------------------------------------------


def inner(arguments, *nodes, heads):
    """A graph inside a node; nodes are (operator, inputs, attributes)."""
    rows = [{"op": "null", "name": f"a{k}", "inputs": []} for k in range(arguments)]
    rows += [
        {
            "op": o,
            "name": f"n{k}",
            "attrs": {a: str(v) for a, v in attrs.items()},
            "inputs": [[p, 0, 0] for p in places],
        }
        for k, (o, places, attrs) in enumerate(nodes)
    ]
    return {
        "nodes": rows,
        "arg_nodes": list(range(arguments)),
        "node_row_ptr": list(range(len(rows) + 1)),
        "heads": [[h, 0, 0] for h in heads],
    }


STEP = inner(3, ("elemwise_add", [0, 1], {}), ("elemwise_mul", [3, 2], {}), ("tanh", [4], {}), heads=[4, 5])
case(
    "_foreach",
    f(4, 2, 3),
    f(2, 3),
    f(2, 3),
    graphs=[STEP],
    num_args=4,
    num_outputs=2,
    num_out_data=1,
    in_data_locs="[0]",
    in_state_locs="[1]",
    remain_locs="[2]",
)
case(
    "_while_loop",
    np.array([0], "float32"),
    f(3),
    graphs=[
        inner(1, ("_lesser_scalar", [0], {"scalar": 3}), heads=[1]),
        inner(2, ("_plus_scalar", [1], {"scalar": 1}), ("broadcast_add", [0, 2], {}), heads=[3, 2, 3]),
    ],
    num_args=4,
    num_outputs=3,
    num_out_data=1,
    max_iterations=5,
    cond_input_locs="[0]",
    func_input_locs="[1, 0]",
    func_var_locs="[1, 0]",
)
for answer in (0, 2):
    case(
        f"_cond/{answer}",
        np.array([answer], "float32"),
        f(3),
        graphs=[
            inner(1, ("_greater_scalar", [0], {"scalar": 1}), heads=[1]),
            inner(1, ("negative", [0], {}), heads=[1]),
            inner(1, ("square", [0], {}), heads=[1]),
        ],
        num_args=5,
        num_outputs=1,
        cond_input_locs="[0]",
        then_input_locs="[1]",
        else_input_locs="[1]",
    )

# -- quantized operators ----------------------------------------------------------------------------------------------


def q(*shape, dtype="int8"):
    return Drawn(*shape, dtype=dtype, low=-127 if dtype == "int8" else 0, high=127 if dtype == "int8" else 255)


def to(*limits):
    """Ranges, each of one number below and one above zero."""
    return [np.array([v], "float32") for limit in limits for v in (-limit, limit)]


case("_contrib_quantize_v2", f(3, 5))
case("_contrib_quantize_v2/calibrated", f(3, 5), min_calib_range=-3.0, max_calib_range=2.5)
case("_contrib_quantize_v2/uint8", f(3, 5, low=0), out_type="uint8", min_calib_range=0.0, max_calib_range=2.5)
case("_contrib_quantize_v2/auto", f(3, 5, low=0), out_type="auto", min_calib_range=0.0, max_calib_range=2.5)
case("_contrib_quantize", f(3, 5), *to(3.0), out_type="int8")
case("_contrib_dequantize", q(3, 5), *to(2.5))
case("_contrib_dequantize/uint8", q(3, 5, dtype="uint8"), np.array([0], "float32"), np.array([2.5], "float32"))
WIDE = Drawn(3, 5, dtype="int32", low=-(2**31) + 1, high=2**31 - 2)
case("_contrib_requantize", WIDE, *to(2.5))
case("_contrib_requantize/calibrated", WIDE, *to(2.5), min_calib_range=-1.0, max_calib_range=1.5)
case(
    "_contrib_quantized_conv",
    q(1, 3, 6, 5, dtype="uint8"),
    q(4, 3, 3, 2),
    *to(1.5, 2.0),
    kernel="(3, 2)",
    num_filter=4,
    no_bias="True",
    stride="(2, 1)",
    pad="(1, 1)",
)
case("_contrib_quantized_fully_connected", q(2, 6), q(4, 6), *to(1.5, 2.0), num_hidden=4, no_bias="True")
case("_contrib_quantized_fully_connected/bias", q(2, 2, 3), q(4, 6), q(4), *to(1.5, 2.0, 1.0), num_hidden=4)
case("_contrib_quantized_pooling/max", q(1, 3, 5, 6), *to(1.5), kernel="(3, 2)", stride="(2, 2)", pool_type="max")
case("_contrib_quantized_pooling/avg", q(1, 3, 5, 6), *to(1.5), kernel="(2, 2)", stride="(2, 2)", pool_type="avg")
case("_contrib_quantized_pooling/global", q(1, 3, 5, 6), *to(1.5), kernel="(1, 1)", global_pool="True", pool_type="avg")
case("_contrib_quantized_act", q(2, 6), *to(1.5), act_type="relu")
case("_contrib_quantized_flatten", q(2, 3, 2), *to(1.5))
case("_contrib_quantized_embedding", i(3, low=0, high=4, dtype="float32"), q(5, 3), *to(1.5), input_dim=5, output_dim=3)
case("_contrib_quantized_concat", q(2, 3), q(2, 4), *to(1.0, 2.0), num_args=2, dim=1)
case("_contrib_quantized_elemwise_mul", q(2, 6), q(2, 6), *to(1.0, 2.0))
case("_contrib_quantized_elemwise_mul/float", q(2, 6), q(2, 6), *to(1.0, 2.0), enable_float_output="True")


# -- operators of devices, and those that MXNet writes itself ---------------------------------------------------------

_TABLE = np.arange(12, dtype="float32").reshape(3, 4)
case("_copyto", _TABLE, want=_TABLE)
case("_CrossDeviceCopy", _TABLE, want=_TABLE)
case("_npx_constraint_check", np.array([True, True]))
_SET = _TABLE.copy()
_SET[[0, 2], [1, 3]] = 10, 20
# MXNet has it in place only.
case(
    "_scatter_set_nd",
    _TABLE,
    np.array([10, 20], "float32"),
    np.array([[0, 2], [1, 3]], "int64"),
    shape="(3, 4)",
    want=_SET,
)
case("_zeros_without_dtype", shape="(2, 3)", want=np.zeros((2, 3), "float32"))
case("BatchNorm_v1", f(2, 4, 5, 3), *NORM[1:], fix_gamma="False", eps=1e-5)
case("BatchNorm_v1/fixed", f(2, 4, 5, 3), *NORM[1:], use_global_stats="True")
case(
    "_contrib_MultiProposal",
    np.concatenate([SCORES, SCORES[:, :, ::-1]]),
    f(2, 24, 3, 4, low=-0.3, high=0.3),
    np.concatenate([INFO, INFO]),
    scales="(1, 2)",
    ratios="(0.5, 1, 2)",
    rpn_pre_nms_top_n=30,
    rpn_post_nms_top_n=8,
    rpn_min_size=4,
    threshold=0.5,
)
# MXNet has it of sparse tensors only.
case("_square_sum", _TABLE, axis="1", want=(_TABLE**2).sum(1))
case("_square_sum/kept", _TABLE, axis="0", keepdims="True", want=(_TABLE**2).sum(0, keepdims=True))
