"""The MXNet symbol format: element types, operator aliases, and parsers of attributes, which files store as text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ....error import TVMError

# The element types by their number in files.
DTYPES = (
    "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16", "uint32", "uint64",
    "bfloat16",
)  # fmt: skip
# Attributes that only affect performance or training. They do not change the outputs.
NEUTRAL = frozenset(
    "workspace cudnn_tune cudnn_off ctx sparse_grad forward_stype momentum grad_scale num_args is_int".split()
)
# Attributes of device placement and training, which old files set on any node, with or without the prefix of an input's
# name.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope")
# Maps operator aliases to names in the table of converters.
ALIASES = dict(
    pair.split("=")
    for pair in """
ElementWiseSum=add_n Softmax=SoftmaxOutput _Div=elemwise_div _DivScalar=_div_scalar _Equal=_equal
_EqualScalar=_equal_scalar _Greater=_greater _GreaterEqualScalar=_greater_equal_scalar
_GreaterScalar=_greater_scalar _Greater_Equal=_greater_equal _Hypot=_hypot _HypotScalar=_hypot_scalar
_Lesser=_lesser _LesserEqualScalar=_lesser_equal_scalar _LesserScalar=_lesser_scalar _Lesser_Equal=_lesser_equal
_LogicalAndScalar=_logical_and_scalar _LogicalOrScalar=_logical_or_scalar _LogicalXorScalar=_logical_xor_scalar
_Logical_And=_logical_and _Logical_Or=_logical_or _Logical_Xor=_logical_xor _Maximum=_maximum
_MaximumScalar=_maximum_scalar _Minimum=_minimum _MinimumScalar=_minimum_scalar _Minus=elemwise_sub
_MinusScalar=_minus_scalar _Mod=_mod _ModScalar=_mod_scalar _Mul=elemwise_mul _MulScalar=_mul_scalar
_NotEqualScalar=_not_equal_scalar _Not_Equal=_not_equal _Plus=elemwise_add _PlusScalar=_plus_scalar _Power=_power
_PowerScalar=_power_scalar _RDivScalar=_rdiv_scalar _RMinusScalar=_rminus_scalar _RModScalar=_rmod_scalar
_RPowerScalar=_rpower_scalar _add=elemwise_add _contrib_box_non_maximum_suppression=_contrib_box_nms
_div=elemwise_div _minus=elemwise_sub _mul=elemwise_mul _np_amax=_np_max _np_amin=_np_min _np_product=_np_prod
_np_repeat=repeat _np_sometrue=_np_any _npi_abs=_npi_absolute _npi_argsort=argsort
_npi_boolean_mask=_contrib_boolean_mask _npi_cast=Cast _npi_clip=clip _npi_copyto=_copyto _npi_det=_linalg_det
_npi_expand_dims=expand_dims _npi_full=_full _npi_gather_nd=gather_nd _npi_hypot_scalar=_hypot_scalar
_npi_inv=_linalg_inverse _npi_linspace=_linspace _npi_maximum=broadcast_maximum _npi_maximum_scalar=_maximum_scalar
_npi_minimum=broadcast_minimum _npi_minimum_scalar=_minimum_scalar _npi_nonzero=_npx_nonzero
_npi_reshape=_npx_reshape _npi_rnn_param_concat=_rnn_param_concat _npi_slice=slice _npi_slogdet=_linalg_slogdet
_npi_sort=sort _npi_split=_split_v2 _npi_swapaxes=SwapAxis _npi_take=take _npi_tile=tile
_npx__image_adjust_lighting=_image_adjust_lighting _npx__image_crop=_image_crop
_npx__image_flip_left_right=_image_flip_left_right _npx__image_flip_top_bottom=_image_flip_top_bottom
_npx__image_normalize=_image_normalize _npx__image_resize=_image_resize _npx__image_to_tensor=_image_to_tensor
_npx_activation=Activation _npx_arange_like=_contrib_arange_like _npx_batch_dot=batch_dot _npx_batch_flatten=Flatten
_npx_batch_norm=BatchNorm _npx_cast=Cast _npx_convolution=Convolution _npx_deconvolution=Deconvolution
_npx_dropout=Dropout _npx_embedding=Embedding _npx_erf=erf _npx_erfinv=erfinv _npx_fully_connected=FullyConnected
_npx_gamma=gamma _npx_gammaln=gammaln _npx_gather_nd=gather_nd _npx_layer_norm=LayerNorm _npx_leaky_relu=LeakyReLU
_npx_log_softmax=log_softmax _npx_multibox_detection=_contrib_MultiBoxDetection
_npx_multibox_prior=_contrib_MultiBoxPrior _npx_multibox_target=_contrib_MultiBoxTarget _npx_one_hot=one_hot
_npx_pick=pick _npx_pooling=Pooling _npx_reshape_like=reshape_like _npx_rnn=RNN _npx_roi_pooling=ROIPooling
_npx_sequence_mask=SequenceMask _npx_shape_array=shape_array _npx_slice=slice _npx_smooth_l1=smooth_l1
_npx_softmax=softmax _npx_topk=topk _plus=elemwise_add _sub=elemwise_sub broadcast_axes=broadcast_axis
broadcast_minus=broadcast_sub broadcast_plus=broadcast_add cast=Cast choose_element_0index=pick concat=Concat
crop=slice cumsum=_np_cumsum flatten=Flatten flip=reverse identity=_copy linalg_det=_linalg_det
linalg_extractdiag=_linalg_extractdiag linalg_extracttrian=_linalg_extracttrian linalg_gelqf=_linalg_gelqf
linalg_gemm=_linalg_gemm linalg_gemm2=_linalg_gemm2 linalg_inverse=_linalg_inverse linalg_makediag=_linalg_makediag
linalg_maketrian=_linalg_maketrian linalg_potrf=_linalg_potrf linalg_potri=_linalg_potri
linalg_slogdet=_linalg_slogdet linalg_sumlogdiag=_linalg_sumlogdiag linalg_syrk=_linalg_syrk
linalg_trmm=_linalg_trmm linalg_trsm=_linalg_trsm max_axis=max min_axis=min pad=Pad
ravel_multi_index=_ravel_multi_index reshape=Reshape split=SliceChannel stop_gradient=BlockGrad sum_axis=sum
swapaxes=SwapAxis unravel_index=_unravel_index
""".split()
)


def operator_name(name: str) -> str:
    """Return the primary name of an operator. Operators on sparse arrays map to those on dense arrays."""
    name = name.removeprefix("_sparse_")
    return ALIASES.get(name, name)


# -- attributes -------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[-+]?\d+L?")


def _int(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        # Python writes integral values of other types with a decimal point.
        value = float(text)
        if value != int(value):
            raise ValueError(text)
        return int(value)
    return int(text.rstrip("L"))


def _float(text: str) -> float:
    return math.nan if text.lower() == "nan" else float(text)


def _bool(text: str) -> bool:
    if text in ("True", "true", "1"):
        return True
    if text in ("False", "false", "0"):
        return False
    raise ValueError(text)


def _items(text: str) -> list[str]:
    """Split a list into its items. A single value without brackets is a list of one item."""
    if text[:1] + text[-1:] in ("()", "[]"):
        text = text[1:-1].strip()
        text = text[:-1].strip() if text.endswith(",") else text
        return [part.strip() for part in text.split(",")] if text else []
    return [text]


def _dims(text: str) -> tuple:
    """Parse a list of integers, in which None is allowed, as in slices."""
    return tuple(None if part == "None" else _int(part) for part in _items(text))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(_float(part) for part in _items(text))


def _pairs(text: str) -> tuple[tuple[int, ...], ...]:
    if text[:1] + text[-1:] not in ("()", "[]"):
        raise ValueError(text)
    inner = re.findall(r"[(\[]([^()\[\]]*)[)\]]", text[1:-1])
    return tuple(tuple(_int(part) for part in _items(f"({row})")) for row in inner)


def _dtype(text: str) -> str:
    if text not in DTYPES:
        raise ValueError(text)
    return text


_KINDS: dict[str, Callable[[str], Any]] = {
    "int": _int, "float": _float, "bool": _bool, "str": str, "dims": _dims, "floats": _floats, "pairs": _pairs,
    "dtype": _dtype,
}  # fmt: skip
_WORDS = {
    "int": "a whole number", "float": "a number", "bool": "True or False", "str": "text", "dims": "a list of numbers",
    "floats": "a list of numbers", "pairs": "a list of pairs", "dtype": "an element type",
}  # fmt: skip
# The maximum length of an attribute's text.
_LONGEST = 1 << 16


class Attribute:
    """An attribute of an operator: its type, and its default as text (none if it is required).

    An ``optional`` attribute may be None.
    """

    def __init__(self, line: str):
        head, self.given, default = line.partition("=")
        self.name, _, kind = head.partition(":")
        self.optional = kind.endswith("?")
        kind = kind.rstrip("?")
        self.choices = kind.split("|") if kind not in _KINDS else []
        self.kind = "str" if self.choices else kind
        self.default = default

    def read(self, text: str | None) -> Any:
        if text is None:
            if not self.given:
                raise TVMError(f"the attribute {self.name} is missing")
            text = self.default
        text = text.strip()
        if text == "None" and (self.optional or self.choices):
            return None
        if self.choices and text not in self.choices:
            raise TVMError(f"the attribute {self.name} is '{text[:60]}'; it must be one of {', '.join(self.choices)}")
        try:
            if len(text) > _LONGEST:
                raise ValueError(text)
            return _KINDS[self.kind](text)
        except (ValueError, OverflowError):
            raise TVMError(f"the attribute {self.name} is '{text[:60]}'; expected {_WORDS[self.kind]}") from None


class Attributes:
    """The attributes of an operator, from a line of ``name:type`` or ``name:type=default`` items.

    A type ending in ``?`` may be None. A type with ``|`` lists the allowed values.
    """

    def __init__(self, line: str):
        self.rows = {row.name: row for row in map(Attribute, line.split())}

    def read(self, texts: dict[str, str]) -> Values:
        """Parse the values of all attributes."""
        for name in texts:
            if name not in self.rows and name not in NEUTRAL and not is_hidden(name):
                raise TVMError(f"unknown attribute {name} ('{texts[name][:60]}')")
        return Values({name: row.read(texts.get(name)) for name, row in self.rows.items()})


class Values:
    """The attribute values of a node, by name."""

    def __init__(self, values: dict[str, Any]):
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def is_hidden(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") or name.endswith(HIDDEN)


__all__ = ["ALIASES", "DTYPES", "Attributes", "Values", "is_hidden", "operator_name"]
