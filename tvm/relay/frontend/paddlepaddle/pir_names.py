"""The operator names of PaddlePaddle 3's intermediate representation (PIR), and their names in older programs.

An entry is ``name: older name, operands -> outputs; attributes``. An operand is the older name of an input. ``.name``
is an operand that was an attribute, ``.name|Name`` one that was an input if its value is not constant, and ``_`` one
without an older name. Outputs are listed likewise. Attributes are listed if they were renamed (``perm=axis``) or if the
newer operator implies them (``lower=1``). An operator without an entry keeps its name, with the operands X and Y and
the output Out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_REDUCED = "reduce_{0} X .dim -> Out; keepdim=keep_dim dtype=out_dtype"
_RESIZED = "{0}_v2 X OutSize SizeTensor Scale -> Out; data_format=data_layout"
_FAKE = "{0} X InScale _ _ -> Out OutScale _ _"

ROWS = f"""
add: elementwise_add
add_n: sum X -> Out
addmm: addmm Input X Y -> Out; alpha=Alpha beta=Beta
affine_channel: affine_channel X Scale Bias -> Out
affine_grid: affine_grid Theta .output_shape -> Output
all: reduce_all X -> Out; axis=dim keepdim=keep_dim
allclose: allclose Input Other .rtol .atol -> Out
amax: reduce_amax X -> Out; axis=dim keepdim=keep_dim
amin: reduce_amin X -> Out; axis=dim keepdim=keep_dim
anchor_generator: anchor_generator Input -> Anchors Variances
any: reduce_any X -> Out; axis=dim keepdim=keep_dim
arange: range Start End Step -> Out
argmax: arg_max X .axis -> Out
argmin: arg_min X .axis -> Out
argsort: argsort X -> Out Indices
assign_out: assign X _ -> Out
atan2: atan2 X1 X2 -> Out
batch_norm: batch_norm X Mean Variance Scale Bias -> Y MeanOut VarianceOut SavedMean SavedVariance; \
data_format=data_layout
sync_batch_norm: batch_norm X Mean Variance Scale Bias -> Y MeanOut VarianceOut SavedMean SavedVariance; \
data_format=data_layout
bicubic_interp: {_RESIZED.format("bicubic_interp")}
bilinear_interp: {_RESIZED.format("bilinear_interp")}
linear_interp: {_RESIZED.format("linear_interp")}
nearest_interp: {_RESIZED.format("nearest_interp")}
trilinear_interp: {_RESIZED.format("trilinear_interp")}
box_coder: box_coder PriorBox PriorBoxVar TargetBox -> OutputBox
cast: cast X -> Out; dtype=out_dtype
clip: clip X .min|Min .max|Max -> Out
concat: concat X .axis -> Out
conv2d: conv2d Input Filter -> Output
conv2d_transpose: conv2d_transpose Input Filter .output_size -> Output
conv2d_transpose_bias: conv2d_transpose_bias Input Filter Bias .output_size -> Output
conv3d: conv3d Input Filter -> Output
conv3d_transpose: conv3d_transpose Input Filter -> Output
crop: crop_tensor X .shape .offsets -> Out
cumsum: cumsum X .axis -> Out
deformable_conv: deformable_conv Input Offset Filter Mask -> Output
depthwise_conv2d: depthwise_conv2d Input Filter -> Output
depthwise_conv2d_transpose: depthwise_conv2d_transpose Input Filter .output_size -> Output
dequantize_linear: dequantize_linear X Scale ZeroPoint _ _ -> Y _ _ _
diag: diag_v2
diagonal: diagonal Input -> Out
divide: elementwise_div
dropout: dropout X _ .dropout_prob -> Out Mask; mode=dropout_implementation
einsum: einsum Operands -> Out
embedding: lookup_table_v2 Ids W -> Out
expand: expand_v2 X .shape -> Out
expand_as: expand_as_v2
eye: eye .num_rows .num_columns -> Out
fake_channel_wise_dequantize_max_abs: fake_channel_wise_dequantize_max_abs X Scales -> Out
fake_channel_wise_quantize_abs_max: fake_channel_wise_quantize_abs_max X -> Out OutScale
fake_channel_wise_quantize_dequantize_abs_max: fake_channel_wise_quantize_dequantize_abs_max X -> Out OutScale
fake_dequantize_max_abs: fake_dequantize_max_abs X Scale -> Out
fake_quantize_abs_max: fake_quantize_abs_max X -> Out OutScale
fake_quantize_dequantize_abs_max: fake_quantize_dequantize_abs_max X -> Out OutScale
fake_quantize_dequantize_moving_average_abs_max: {_FAKE.format("fake_quantize_dequantize_moving_average_abs_max")}
fake_quantize_moving_average_abs_max: {_FAKE.format("fake_quantize_moving_average_abs_max")}
fake_quantize_range_abs_max: fake_quantize_range_abs_max X InScale _ -> Out OutScale _
flatten: flatten_contiguous_range
floor_divide: elementwise_floordiv
fmax: elementwise_fmax
fmin: elementwise_fmin
frobenius_norm: frobenius_norm X .dim -> Out
full_batch_size_like: fill_constant_batch_size_like Input -> Out
full_like: fill_any_like X .value -> Out
full_with_tensor: fill_constant ValueTensor .shape -> Out
gather: gather X Index .axis -> Out
gather_nd: gather_nd X Index -> Out
grid_sample: grid_sampler X Grid -> Output
group_norm: group_norm X Scale Bias -> Y Mean Variance; data_format=data_layout
hardshrink: hard_shrink
hardsigmoid: hard_sigmoid
hardswish: hard_swish
hardtanh: brelu
heaviside: elementwise_heaviside
increment: increment X -> Out; value=step
index_add: index_add X Index AddValue -> Out
index_put: index_put x indices value -> out
index_sample: index_sample X Index -> Out
index_select: index_select X Index -> Out; axis=dim
instance_norm: instance_norm X Scale Bias -> Y SavedMean SavedVariance
isclose: isclose Input Other .rtol .atol -> Out
isfinite: isfinite_v2
isinf: isinf_v2
isnan: isnan_v2
label_smooth: label_smooth X PriorDist -> Out
layer_norm: layer_norm X Scale Bias -> Y Mean Variance
leaky_relu: leaky_relu X -> Out; negative_slope=alpha
lerp: lerp X Y Weight -> Out
linspace: linspace Start Stop Num -> Out
lrn: lrn X -> Out MidOut
masked_fill: masked_fill x mask value -> out
masked_select: masked_select X Mask -> Y
matmul: matmul_v2 X Y -> Out; transpose_x=trans_x transpose_y=trans_y
max: {_REDUCED.format("max")}
mean: {_REDUCED.format("mean")}
min: {_REDUCED.format("min")}
prod: {_REDUCED.format("prod")}
sum: {_REDUCED.format("sum")}
max_pool2d_with_index: max_pool2d_with_index X -> Out Mask; kernel_size=ksize
max_pool3d_with_index: max_pool3d_with_index X -> Out Mask; kernel_size=ksize
maximum: elementwise_max
mean_all: mean
minimum: elementwise_min
mish: mish X -> Out; lambda=threshold
moving_average_abs_max_scale: moving_average_abs_max_scale X _ _ -> Out OutScale _ _
multiclass_nms3: multiclass_nms3 BBoxes Scores RoisNum -> Out Index NmsRoisNum
multiply: elementwise_mul
mv: mv X Vec -> Out
nonzero: where_index Condition -> Out
norm: norm X -> Out Norm
numel: size Input -> Out
one_hot: one_hot_v2 X .depth -> Out
pad: pad X .pad_value -> Out
pad3d: pad3d X .paddings -> Out; pad_value=value
pool2d: pool2d X .ksize -> Out
pool3d: pool3d X -> Out; kernel_size=ksize
pow: pow X -> Out; y=factor
prelu: prelu X Alpha -> Out
prior_box: prior_box Input Image -> Boxes Variances
put_along_axis: put_along_axis Input Index Value -> Result; axis=Axis include_self=Include_self reduce=Reduce
quantize_linear: quantize_linear X Scale ZeroPoint _ _ -> Y _ _ _
remainder: elementwise_mod
repeat_interleave: repeat_interleave X -> Out; axis=dim repeats=Repeats
reshape: reshape2 X .shape -> Out
reverse: reverse X .axis -> Out
rnn: rnn Input PreState WeightList SequenceLength _ -> Out _ State _
roi_align: roi_align X ROIs RoisNum -> Out
roi_pool: roi_pool X ROIs RoisNum -> Out Argmax
roll: roll X .shifts -> Out
rrelu: rrelu X -> Out Noise
scale: scale X .scale|ScaleTensor -> Out
scatter: scatter X Ids Updates -> Out
scatter_nd_add: scatter_nd_add X Index Updates -> Out
searchsorted: searchsorted SortedSequence Values -> Out
sequence_mask: sequence_mask X .maxlen -> Y
set_value: set_value Input .starts .ends .steps -> Out
set_value_with_tensor: set_value Input ValueTensor .starts .ends .steps -> Out
shape: shape Input -> Out
shape64: shape64 Input -> Out
share_data: share_data
slice: slice Input .starts .ends -> Out
softshrink: softshrink X -> Out; threshold=lambda
spectral_norm: spectral_norm Weight U V -> Out
split: split X .sections .axis -> Out
split_with_num: split X .axis -> Out
squeeze: squeeze2 X .axes -> Out
stack: stack X -> Y
strided_slice: strided_slice Input .starts .ends .strides -> Out
subtract: elementwise_sub
take_along_axis: take_along_axis Input Index -> Result; axis=Axis
tile: tile X .repeat_times -> Out
topk: top_k_v2 X .k -> Out Indices
transpose: transpose2 X -> Out; perm=axis
tril: tril_triu X -> Out; lower=1
triu: tril_triu X -> Out; lower=0
unfold: unfold X -> Y
unique: unique X -> Out Indices Index Counts
unsqueeze: unsqueeze2 X .axes -> Out
unstack: unstack X -> Y
where: where Condition X Y -> Out
yolo_box: yolo_box X ImgSize -> Boxes Scores
"""


class Row(NamedTuple):
    """An operator's older name, the names of its operands, outputs and attributes, and the attributes that it
    implies."""

    kind: str
    operands: list[str]
    results: list[str]
    renamed: dict[str, str]
    implied: dict[str, Any]


def _row(text: str) -> tuple[str, Row]:
    name, _, rest = text.partition(": ")
    names, _, attributes = rest.partition("; ")
    kinds, _, results = names.partition(" -> ")
    kind, *operands = kinds.split()
    pairs = [pair.split("=") for pair in attributes.split()]
    return name, Row(kind, operands or ["X", "Y"], results.split() or ["Out"],
                     {new: old for new, old in pairs if not old.isdigit()},
                     {new: bool(int(old)) for new, old in pairs if old.isdigit()})  # fmt: skip


NAMES = dict(_row(line) for line in ROWS.strip().splitlines())


def names_of(kind: str) -> Row:
    """Return the entry of an operator. An in-place operator (``relu_``) has that of the plain operator."""
    plain = kind.removesuffix("_")
    return NAMES.get(kind) or NAMES.get(plain) or Row(plain, ["X", "Y"], ["Out"], {}, {})


__all__ = ["NAMES", "Row", "names_of"]
