"""Converters of operators on single elements: functions, arithmetic of two tensors or of a tensor and a number,
comparisons, activations. Results of ``mx.nd`` keep the element type; those of ``mx.np`` follow its rules."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .table import Context, op

# -- functions of one element -----------------------------------------------------------------------------------------


def _rounded(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Halves go away from zero."""
    half = relay.floor(relay.add(relay.abs(x), ctx.like(0.5, x)))
    return relay.multiply(relay.sign(x), half)


def _nearest(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Halves go down."""
    low, high = relay.floor(x), relay.ceil(x)
    return relay.where(relay.less_equal(relay.subtract(x, low), relay.subtract(high, x)), low, high)


def _sign(ctx: Context, x: RelayExpr) -> RelayExpr:
    """What is no number has none."""
    return relay.where(relay.isnan(x), ctx.like(0, x), relay.sign(x)) if ctx.is_float(x) else relay.sign(x)


def cube_root(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.multiply(relay.sign(x), relay.power(relay.abs(x), ctx.like(1 / 3, x)))


def _softsign(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.divide(x, relay.add(ctx.like(1, x), relay.abs(x)))


def _expm1(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Near zero a series, elsewhere the difference itself."""
    small = x
    for k in (5, 4, 3, 2):
        small = relay.multiply(x, relay.add(ctx.like(1, x), relay.divide(small, ctx.like(k, x))))
    return relay.where(relay.less(relay.abs(x), ctx.like(0.1, x)), small, relay.subtract(relay.exp(x), ctx.like(1, x)))


def polynomial(ctx: Context, x: RelayExpr, factors) -> RelayExpr:
    """The highest power's factor comes first."""
    out = ctx.like(factors[0], x)
    for factor in factors[1:]:
        out = relay.add(relay.multiply(out, x), ctx.like(factor, x))
    return out


# Approximations of the inverse of the error function, in the middle and near the ends.
_MIDDLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)
_ENDS = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
         1.00167406, 2.83297682)


def _erfinv(ctx: Context, x: RelayExpr) -> RelayExpr:
    one = ctx.like(1, x)
    w = relay.negative(relay.log(relay.multiply(relay.subtract(one, x), relay.add(one, x))))
    middle = polynomial(ctx, relay.subtract(w, ctx.like(2.5, x)), _MIDDLE)
    ends = polynomial(ctx, relay.subtract(relay.sqrt(w), ctx.like(3, x)), _ENDS)
    out = relay.multiply(x, relay.where(relay.less(w, ctx.like(5, x)), middle, ends))
    # At the ends themselves it is infinite.
    return relay.where(relay.equal(relay.abs(x), one), relay.multiply(x, ctx.like(math.inf, x)), out)


# Lanczos' approximation of the gamma function.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


def _gamma_parts(ctx: Context, x: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
    """For numbers of at least a half: log(gamma), and gamma itself."""
    z = relay.subtract(x, ctx.like(1, x))
    total = ctx.like(_LANCZOS[0], x)
    for k, factor in enumerate(_LANCZOS[1:], 1):
        total = relay.add(total, relay.divide(ctx.like(factor, x), relay.add(z, ctx.like(k, x))))
    t = relay.add(z, ctx.like(7.5, x))
    power = relay.add(z, ctx.like(0.5, x))
    log = relay.add(relay.subtract(relay.multiply(power, relay.log(t)), t), relay.log(total))
    log = relay.add(log, ctx.like(0.5 * math.log(2 * math.pi), x))
    return log, relay.exp(log)


def _gamma(logarithm: bool):
    def convert(ctx: Context, x: RelayExpr) -> RelayExpr:
        """Below a half by reflection. Sums are of 64 bits: they nearly cancel out."""
        kind = ctx.dtype(x)
        x = relay.cast(x, "float64") if kind != "float64" else x
        wide = ctx.made(x)
        half, one = ctx.like(0.5, wide), ctx.like(1, wide)
        low = relay.less(wide, half)
        log, own = _gamma_parts(ctx, ctx.made(relay.where(low, relay.subtract(one, wide), wide)))
        sine = relay.sin(relay.multiply(ctx.like(math.pi, wide), wide))
        pi = ctx.like(math.pi, wide)
        if logarithm:
            mirrored = relay.subtract(relay.log(relay.divide(pi, relay.abs(sine))), log)
            out = relay.where(low, mirrored, log)
        else:
            out = relay.where(low, relay.divide(pi, relay.multiply(sine, own)), own)
        return relay.cast(out, kind) if kind != "float64" else out

    return convert


def _plain(function):
    return lambda ctx, x: function(x)


def _scaled(factor: float):
    return lambda ctx, x: relay.multiply(x, ctx.like(factor, x))


_UNARY = {
    "abs": _plain(relay.abs), "sign": _sign, "negative": _plain(relay.negative),
    "round": _rounded, "rint": _nearest, "ceil": _plain(relay.ceil), "floor": _plain(relay.floor),
    "trunc": _plain(relay.trunc), "fix": _plain(relay.trunc), "square": lambda ctx, x: relay.multiply(x, x),
    "sqrt": _plain(relay.sqrt), "rsqrt": _plain(relay.rsqrt), "cbrt": cube_root,
    "rcbrt": lambda ctx, x: relay.divide(ctx.like(1, x), cube_root(ctx, x)), "exp": _plain(relay.exp),
    "expm1": _expm1, "log": _plain(relay.log), "log10": _plain(relay.log10), "log2": _plain(relay.log2),
    "log1p": _plain(relay.log1p), "sin": _plain(relay.sin), "cos": _plain(relay.cos), "tan": _plain(relay.tan),
    "arcsin": _plain(relay.asin), "arccos": _plain(relay.acos), "arctan": _plain(relay.atan),
    "sinh": _plain(relay.sinh), "cosh": _plain(relay.cosh), "tanh": _plain(relay.tanh),
    "arcsinh": _plain(relay.asinh), "arccosh": _plain(relay.acosh), "arctanh": _plain(relay.atanh),
    "degrees": _scaled(180 / math.pi), "radians": _scaled(math.pi / 180), "erf": _plain(relay.erf),
    "erfinv": _erfinv, "gamma": _gamma(False), "gammaln": _gamma(True),
    "reciprocal": lambda ctx, x: relay.divide(ctx.like(1, x), x), "relu": _plain(relay.nn.relu),
    "sigmoid": _plain(relay.sigmoid), "softsign": _softsign,
    "logical_not": lambda ctx, x: relay.cast(relay.equal(x, ctx.like(0, x)), ctx.dtype(x)),
}  # fmt: skip
# Functions whose results of integers are integers.
_WHOLE = ("abs", "sign", "negative", "square", "ceil", "floor", "trunc", "fix", "round", "rint", "relu", "logical_not")


def _unary(name: str):
    function = _UNARY[name]

    def convert(ctx, inputs, attrs):
        x = inputs[0]
        if ctx.is_float(x):
            return function(ctx, x)
        if name in ("ceil", "floor", "trunc", "fix", "round", "rint"):
            return x
        if name in _WHOLE:
            return function(ctx, x)
        # Computed as real numbers; ``mx.nd`` gives them back as integers.
        return relay.cast(function(ctx, ctx.made(relay.cast(x, "float32"))), ctx.dtype(x))

    return convert


for _name in _UNARY:
    op(_name)(_unary(_name))
for _name in ("sign negative ceil floor trunc fix square sqrt cbrt exp expm1 log log10 log2 log1p sin cos tan arcsin"
              " arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians reciprocal").split():
    op(f"_npi_{_name}")(_unary(_name))
op("_npi_absolute")(_unary("abs"))
op("_npx_relu")(_unary("relu"))
op("_npx_sigmoid")(_unary("sigmoid"))
op("_npi_rint")(_unary("rint"))


@op("_npi_around", "decimals:int=0")
def np_around(ctx, inputs, attrs):
    x = inputs[0]
    if not ctx.is_float(x):
        return x
    if abs(attrs.decimals) > 30:
        raise TVMError(f"the attribute decimals={attrs.decimals} is not supported")
    # Halves go to the even number.
    if not attrs.decimals:
        return relay.round(x)
    scale = ctx.like(10.0**attrs.decimals, x)
    return relay.divide(relay.round(relay.multiply(x, scale)), scale)


@op("_npi_logical_not")
def np_logical_not(ctx, inputs, attrs):
    return relay.equal(inputs[0], ctx.like(0, inputs[0]))


@op("_npi_bitwise_not")
def np_bitwise_not(ctx, inputs, attrs):
    x = inputs[0]
    return relay.logical_not(x) if ctx.dtype(x) == "bool" else relay.bitwise_not(x)


def _question(name: str, ask):
    @op(name)
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        return ask(ctx, x if ctx.is_float(x) else ctx.made(relay.cast(x, "float32")))


_question("_npi_isnan", lambda ctx, x: relay.isnan(x))
_question("_npi_isinf", lambda ctx, x: relay.isinf(x))
_question("_npi_isfinite", lambda ctx, x: relay.isfinite(x))
_question("_npi_isposinf", lambda ctx, x: relay.equal(x, ctx.like(math.inf, x)))
_question("_npi_isneginf", lambda ctx, x: relay.equal(x, ctx.like(-math.inf, x)))


@op("_npi_nan_to_num", "copy:bool=True nan:float=0 posinf:float?=None neginf:float?=None")
def nan_to_num(ctx, inputs, attrs):
    x = inputs[0]
    if not ctx.is_float(x):
        return x
    limits = np.finfo(ctx.dtype(x))
    high = float(limits.max) if attrs.posinf is None else attrs.posinf
    low = float(limits.min) if attrs.neginf is None else attrs.neginf
    x = relay.where(relay.isnan(x), ctx.like(attrs.nan, x), x)
    x = relay.where(relay.equal(x, ctx.like(math.inf, inputs[0])), ctx.like(high, inputs[0]), x)
    return relay.where(relay.equal(x, ctx.like(-math.inf, inputs[0])), ctx.like(low, inputs[0]), x)


# -- the same element -------------------------------------------------------------------------------------------------


@op("_copy BlockGrad make_loss _np_copy _contrib_gradientmultiplier _copyto _CrossDeviceCopy _npx_constraint_check",
    "scalar:float=1 msg:str=")
def identity(ctx, inputs, attrs):
    """What only training or another device would change."""
    return inputs[0]


@op("IdentityAttachKLSparseReg", "sparseness_target:float=0.1 penalty:float=0.001", takes=1)
def identity_with_penalty(ctx, inputs, attrs):
    return inputs[0]


@op("MakeLoss", "valid_thresh:float=0 normalization:batch|null|valid=null")
def make_loss(ctx, inputs, attrs):
    return inputs[0]


@op("_identity_with_attr_like_rhs", takes=1)
def identity_like(ctx, inputs, attrs):
    return inputs[0]


@op("LinearRegressionOutput MAERegressionOutput", takes=1)
def regression_output(ctx, inputs, attrs):
    return inputs[0]


@op("SVMOutput", "margin:float=1 regularization_coefficient:float=1 use_linear:bool=False", takes=1)
def svm_output(ctx, inputs, attrs):
    return inputs[0]


@op("LogisticRegressionOutput", takes=1)
def logistic_output(ctx, inputs, attrs):
    return relay.sigmoid(inputs[0])


@op("Dropout", "p:float=0.5 mode:training|always=training axes:dims=()")
def dropout(ctx, inputs, attrs):
    if attrs.mode == "always":
        raise TVMError("mode=always draws random numbers in every run; this is not supported")
    return [inputs[0], relay.ones_like(inputs[0])]


@op("cast_storage", "stype:default|csr|row_sparse")
def cast_storage(ctx, inputs, attrs):
    return inputs[0]


@op("Cast", "dtype:dtype")
def cast(ctx, inputs, attrs):
    return converted(ctx, inputs[0], attrs.dtype)


def converted(ctx: Context, x: RelayExpr, dtype: str) -> RelayExpr:
    """Another element type; as a truth value a number is whether it is not zero."""
    if dtype == "bool" and ctx.dtype(x) != "bool":
        return relay.not_equal(x, ctx.like(0, x))
    return ctx.cast(x, dtype)


@op("amp_cast", "dtype:dtype")
def amp_cast(ctx, inputs, attrs):
    """Integers stay."""
    return ctx.cast(inputs[0], attrs.dtype) if ctx.is_float(inputs[0]) else inputs[0]


_WIDTHS = ("float16", "bfloat16", "float32")


@op("amp_multicast", "num_outputs:int cast_narrow:bool=False")
def amp_multicast(ctx, inputs, attrs):
    """All real numbers of at most 32 bits of the widest type, or of the narrowest."""
    kinds = [ctx.dtype(x) for x in inputs if ctx.dtype(x) in _WIDTHS]
    if attrs.num_outputs != len(inputs):
        raise TVMError(f"the attribute num_outputs is {attrs.num_outputs}, there are {len(inputs)} inputs")
    chosen = (min if attrs.cast_narrow else max)(kinds, key=_WIDTHS.index) if kinds else ""
    return [ctx.cast(x, chosen) if ctx.dtype(x) in _WIDTHS else x for x in inputs]


# -- two elements -----------------------------------------------------------------------------------------------------


def _mod(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """The remainder has the sign of the divisor; that by zero is zero."""
    zero = ctx.like(0, b)
    none = relay.equal(b, zero)
    if not ctx.is_float(b):
        out = relay.floor_mod(a, relay.where(none, ctx.like(1, b), b))
    else:
        rest = relay.mod(a, b)
        other = relay.logical_and(relay.not_equal(rest, zero), relay.not_equal(relay.less(rest, zero),
                                                                               relay.less(b, zero)))
        out = relay.where(other, relay.add(rest, b), rest)
    return relay.where(none, relay.zeros_like(out), out)


def _divide(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    return relay.divide(a, b) if ctx.is_float(b) else relay.trunc_divide(a, b)


def _hypot(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """By the greater one, so that squares do not overflow."""
    if not ctx.is_float(a):
        out = _hypot(ctx, *(ctx.made(relay.cast(x, "float32")) for x in (a, b)))
        return relay.cast(out, ctx.dtype(a))
    a, b = relay.abs(a), relay.abs(b)
    high, low = relay.maximum(a, b), relay.minimum(a, b)
    zero = relay.equal(high, relay.zeros_like(high))
    ratio = relay.divide(low, relay.where(zero, relay.ones_like(high), high))
    return relay.multiply(high, relay.sqrt(relay.add(relay.ones_like(ratio), relay.multiply(ratio, ratio))))


def _power(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    if ctx.is_float(a):
        return relay.power(a, b)
    wide = relay.power(relay.cast(a, "float64"), relay.cast(b, "float64"))
    return relay.cast(relay.trunc(wide), ctx.dtype(a))


def _copysign(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """A zero has a sign too, which its reciprocal shows."""
    zero, one = ctx.like(0, b), ctx.like(1, b)
    below = relay.where(relay.equal(b, zero), relay.less(relay.divide(one, b), zero), relay.less(b, zero))
    return relay.where(below, relay.negative(relay.abs(a)), relay.abs(a))


def _arctan2(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    zero, pi = ctx.like(0, a), ctx.like(math.pi, a)
    plain = relay.atan(relay.divide(a, relay.where(relay.equal(b, zero), ctx.like(1, a), b)))
    turned = relay.where(relay.less(a, zero), relay.negative(pi), pi)
    left = relay.where(relay.less(b, zero), relay.add(plain, turned), plain)
    upright = relay.multiply(relay.sign(a), ctx.like(math.pi / 2, a))
    return relay.where(relay.equal(b, zero), upright, left)


def _plain2(function):
    return lambda ctx, a, b: function(a, b)


_BINARY = {
    "add": _plain2(relay.add), "sub": _plain2(relay.subtract), "mul": _plain2(relay.multiply), "div": _divide,
    "mod": _mod, "power": _power, "maximum": _plain2(relay.maximum), "minimum": _plain2(relay.minimum),
    "hypot": _hypot, "copysign": _copysign, "arctan2": _arctan2,
    "ldexp": lambda ctx, a, b: relay.multiply(a, relay.power(ctx.like(2, b), b)),
}  # fmt: skip
_COMPARISONS = {
    "equal": relay.equal, "not_equal": relay.not_equal, "greater": relay.greater,
    "greater_equal": relay.greater_equal, "lesser": relay.less, "lesser_equal": relay.less_equal,
}  # fmt: skip
_LOGIC = {"logical_and": relay.logical_and, "logical_or": relay.logical_or, "logical_xor": relay.logical_xor}


def _true(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.not_equal(x, ctx.like(0, x))


def binary(ctx: Context, name: str, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """An operator of ``mx.nd``: both sides have one element type, the result has it too."""
    if name in _BINARY:
        return _BINARY[name](ctx, a, b)
    if name in _COMPARISONS:
        return relay.cast(_COMPARISONS[name](a, b), ctx.dtype(a))
    return relay.cast(_LOGIC[name](_true(ctx, a), _true(ctx, b)), ctx.dtype(a))


def _same_types(ctx: Context, inputs: list) -> None:
    a, b = (ctx.dtype(x) for x in inputs)
    if a != b:
        raise TVMError(f"the inputs have the element types {a} and {b}; they must be the same")


def _two(name: str):
    def convert(ctx, inputs, attrs):
        """States that begin as zeros of no known batch have a batch of one here: they broadcast."""
        _same_types(ctx, inputs)
        return binary(ctx, name, *inputs)

    return convert


for _name in ("add", "sub", "mul", "div"):
    op(f"elemwise_{_name}")(_two(_name))
op("_grad_add")(_two("add"))
op("_scatter_elemwise_div")(_two("div"))
for _name in ("mod", "power", "maximum", "minimum", "hypot", *_COMPARISONS, *_LOGIC):
    op(f"_{_name}")(_two(_name))
    op(f"broadcast_{_name}")(_two(_name))
for _name in ("add", "sub", "mul", "div"):
    op(f"broadcast_{_name}")(_two(_name))


def scalar(ctx: Context, value: float, x: RelayExpr) -> RelayExpr:
    """A number as an element of a tensor's type; a number that is none of them ends at the nearest."""
    kind = ctx.dtype(x)
    if not ctx.is_float(x) and kind != "bool":
        limits = np.iinfo(kind)
        if not math.isfinite(value):
            raise TVMError(f"the attribute scalar={value} is no {kind}")
        value = min(max(int(value), int(limits.min)), int(limits.max))
    return const(value, kind)


def _with_number(name: str, reverse: bool = False):
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        number = scalar(ctx, attrs.scalar, x)
        return binary(ctx, name, number, x) if reverse else binary(ctx, name, x, number)

    return convert


_NUMBER = "scalar:float=1"
for _name, _kind in (("plus", "add"), ("minus", "sub"), ("mul", "mul"), ("div", "div"), ("mod", "mod"),
                     ("power", "power"), ("maximum", "maximum"), ("minimum", "minimum"), ("hypot", "hypot"),
                     *((n, n) for n in (*_COMPARISONS, *_LOGIC))):
    op(f"_{_name}_scalar", _NUMBER)(_with_number(_kind))
for _name, _kind in (("rminus", "sub"), ("rdiv", "div"), ("rmod", "mod"), ("rpower", "power")):
    op(f"_{_name}_scalar", _NUMBER)(_with_number(_kind, True))
op("_scatter_plus_scalar", _NUMBER)(_with_number("add"))
op("_scatter_minus_scalar", _NUMBER)(_with_number("sub"))


@op("add_n")
def add_n(ctx, inputs, attrs):
    if not inputs:
        raise TVMError("there is no input")
    out = inputs[0]
    for x in inputs[1:]:
        out = relay.add(out, x)
    return out


@op("_contrib_quadratic", "a:float=0 b:float=0 c:float=0")
def quadratic(ctx, inputs, attrs):
    return polynomial(ctx, inputs[0], (attrs.a, attrs.b, attrs.c))


@op("smooth_l1", "scalar:float=1")
def smooth_l1(ctx, inputs, attrs):
    """A parabola near zero, straight lines beyond."""
    x, square = inputs[0], attrs.scalar * attrs.scalar
    size = relay.abs(x)
    near = relay.multiply(ctx.like(0.5 * square, x), relay.multiply(x, x))
    far = relay.subtract(size, ctx.like(0.5 / square if square else math.inf, x))
    return relay.where(relay.greater(size, ctx.like(1 / square if square else math.inf, x)), far, near)


@op("clip", "a_min:float a_max:float")
def clip(ctx, inputs, attrs):
    x = inputs[0]
    low, high = (scalar(ctx, v, x) if math.isfinite(v) or ctx.is_float(x) else None for v in (attrs.a_min, attrs.a_max))
    x = x if high is None else relay.minimum(x, high)
    return x if low is None else relay.maximum(x, low)


@op("hard_sigmoid", "alpha:float=0.2 beta:float=0.5")
def hard_sigmoid(ctx, inputs, attrs):
    x = inputs[0]
    return relay.clip(relay.add(relay.multiply(x, ctx.like(attrs.alpha, x)), ctx.like(attrs.beta, x)), 0.0, 1.0)


@op("_contrib_round_ste")
def round_ste(ctx, inputs, attrs):
    return _rounded(ctx, inputs[0])


@op("_contrib_sign_ste")
def sign_ste(ctx, inputs, attrs):
    return relay.sign(inputs[0])


# -- activations ------------------------------------------------------------------------------------------------------


def softplus(ctx: Context, x: RelayExpr) -> RelayExpr:
    """log(1 + exp(x)), without overflow."""
    return relay.add(relay.nn.relu(x), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


def activated(ctx: Context, x: RelayExpr, kind: str) -> RelayExpr:
    if kind == "softrelu":
        return softplus(ctx, x)
    if kind == "softsign":
        return _softsign(ctx, x)
    return {"relu": relay.nn.relu, "sigmoid": relay.sigmoid, "tanh": relay.tanh}[kind](x)


@op("Activation", "act_type:relu|sigmoid|softrelu|softsign|tanh")
def activation(ctx, inputs, attrs):
    return activated(ctx, inputs[0], attrs.act_type)


def _slopes(ctx, known, attrs) -> dict:
    rank = ctx.rank(known[0])
    return {1: (ctx.known_size(known[0], 1 if rank > 1 else 0),)}


@op("LeakyReLU", "act_type:elu|gelu|leaky|prelu|rrelu|selu=leaky slope:float=0.25 lower_bound:float=0.125"
    " upper_bound:float=0.334", shapes=_slopes)
def leaky_relu(ctx, inputs, attrs):
    x, kind = inputs[0], attrs.act_type
    if kind == "leaky":
        return relay.nn.leaky_relu(x, attrs.slope)
    if kind == "rrelu":
        # Outside training the slope is the mean of the two bounds.
        return relay.nn.leaky_relu(x, (attrs.lower_bound + attrs.upper_bound) / 2)
    if kind == "prelu":
        return _prelu(ctx, x, inputs[1])
    if kind == "gelu":
        inner = relay.erf(relay.multiply(x, ctx.like(math.sqrt(0.5), x)))
        return relay.multiply(relay.multiply(x, ctx.like(0.5, x)), relay.add(ctx.like(1, x), inner))
    scale, alpha = (1.0507009873554804934, 1.6732632423543772848) if kind == "selu" else (1.0, attrs.slope)
    below = relay.multiply(ctx.like(alpha, x), _expm1(ctx, relay.minimum(x, ctx.like(0, x))))
    out = relay.where(relay.greater(x, ctx.like(0, x)), x, below)
    return relay.multiply(out, ctx.like(scale, x)) if kind == "selu" else out


def _prelu(ctx: Context, x: RelayExpr, slope: RelayExpr) -> RelayExpr:
    """A vector of slopes is one for each channel; any other broadcasts."""
    if ctx.rank(slope) == 1 and ctx.rank(x) > 1:
        count = ctx.known_size(slope, 0)
        if count not in (1, ctx.known_size(x, 1)):
            raise TVMError(f"{count} slopes do not fit {ctx.known_size(x, 1)} channels")
        slope = relay.reshape(slope, (1, count, *[1] * (ctx.rank(x) - 2)))
    return relay.where(relay.greater(x, ctx.like(0, x)), x, relay.multiply(x, slope))


__all__ = ["activated", "binary", "converted", "cube_root", "polynomial", "scalar", "softplus"]
