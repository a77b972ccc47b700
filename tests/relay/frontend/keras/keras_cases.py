"""Small models of Keras, one for each layer with odd settings. ``tools/keras_reference.py`` builds them with Keras 3 or
Keras 2 (``tf_keras``) and writes the files and what Keras makes of them into cases.tar.xz; tests need no Keras.

A builder takes the module of Keras and returns a model. Cases whose names begin with ``v2_`` are of Keras 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CASES: dict[str, tuple[str, Callable[[Any], Any]]] = {}


def case(name: str, kind: str, build: Callable[[Any], Any], versions=(3,)) -> None:
    for version in versions:
        full = name if version == 3 else f"v2_{name}"
        assert full not in CASES, full
        CASES[full] = (kind, build)


def chain(name: str, kind: str, shape, make: Callable[[Any], Any], dtype="float32", versions=(3,)) -> None:
    """A model of one layer or of a list of them."""

    def build(k):
        x = k.Input(shape, dtype=dtype, name="x")
        made = make(k.layers)
        y = x
        for layer in made if isinstance(made, list) else [made]:
            y = layer(y)
        return k.Model(x, y)

    case(name, kind, build, versions)


def rows(family: str, kind: str, shape, settings: list[dict], versions=(3,), dtype="float32") -> None:
    for number, given in enumerate(settings):
        chain(f"{family}_{number}", kind, shape, lambda L, g=given: getattr(L, kind)(**g), dtype, versions)


BOTH = (3, 2)


def _core() -> None:
    rows("dense", "Dense", (7,), [{"units": 5, "activation": "relu"}, {"units": 3, "use_bias": False}], BOTH)
    rows("dense_3d", "Dense", (4, 7), [{"units": 5, "activation": "gelu"}], BOTH)
    rows("dense_half", "Dense", (7,), [{"units": 5, "dtype": "mixed_float16"}])
    for number, (equation, out, bias) in enumerate([
        ("abc,cd->abd", (None, 6), "d"), ("ab,bcd->acd", (2, 3), "cd"), ("...x,xy->...y", (6,), "y"),
        ("abc,cde->abde", (None, 2, 3), "de"), ("abc,bcd->abd", (3, 4), "bd"), ("abc,cd->adb", (4, None), "d"),
    ]):  # fmt: skip
        shape = (5,) if equation.startswith("ab,") else (3, 5)
        chain(
            f"einsum_{number}",
            "EinsumDense",
            shape,
            lambda L, e=equation, o=out, b=bias: L.EinsumDense(e, output_shape=o, bias_axes=b),
            versions=BOTH[:1],
        )
    rows("embedding", "Embedding", (6,), [{"input_dim": 9, "output_dim": 4}], BOTH, "int32")
    rows("embedding_real", "Embedding", (6,), [{"input_dim": 9, "output_dim": 4, "mask_zero": True}])
    for reverse in (False, True):
        case(f"reversible_embedding_{reverse}", "ReversibleEmbedding", lambda k, r=reverse: _reversible(k, r))
    chain("masking", "Masking", (6, 3), lambda L: [L.Masking(0.5), L.LSTM(4)], versions=BOTH)
    chain("identity", "Identity", (3, 2), lambda L: L.Identity())
    rows("dropout", "Dropout", (4,), [{"rate": 0.3}], BOTH)
    for name, given in (("AlphaDropout", {"rate": 0.2}), ("GaussianDropout", {"rate": 0.2}),
                        ("GaussianNoise", {"stddev": 0.2}), ("ActivityRegularization", {"l1": 0.1}),
                        ("SpatialDropout1D", {"rate": 0.2})):  # fmt: skip
        rows(name.lower(), name, (4, 3), [given], BOTH)
    rows("spatialdropout2d", "SpatialDropout2D", (4, 3, 2), [{"rate": 0.3}])
    rows("spatialdropout3d", "SpatialDropout3D", (2, 4, 3, 2), [{"rate": 0.3}])


def _reversible(k, reverse: bool):
    x = k.Input((5,), dtype="int32", name="x")
    shared = k.layers.ReversibleEmbedding(7, 4, tie_weights=not reverse)
    return k.Model(x, shared(k.layers.Dense(4)(shared(x)), reverse=True))


def _convolutions() -> None:
    for n, shape in ((1, (11, 4)), (2, (9, 8, 4)), (3, (5, 6, 7, 4))):
        kind = f"Conv{n}D"
        rows(f"conv{n}d", kind, shape, [
            {"filters": 6, "kernel_size": 3}, {"filters": 6, "kernel_size": 3, "padding": "same", "strides": 2},
            {"filters": 6, "kernel_size": 2, "padding": "same", "dilation_rate": 2, "activation": "tanh"},
            {"filters": 6, "kernel_size": 3, "groups": 2, "use_bias": False},
        ], BOTH)  # fmt: skip
        first = (shape[-1], *shape[:-1])
        rows(
            f"conv{n}d_first",
            kind,
            first,
            [{"filters": 6, "kernel_size": 3, "data_format": "channels_first", "padding": "same", "strides": 2}],
        )
        rows(f"conv{n}d_transpose", f"{kind}Transpose", shape, [
            {"filters": 3, "kernel_size": 3}, {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"},
            {"filters": 3, "kernel_size": 2, "strides": 3}, {"filters": 3, "kernel_size": 4, "strides": 3,
            "padding": "same"},
        ], BOTH)  # fmt: skip
        extra = {"filters": 3, "kernel_size": 3, "strides": 3, "output_padding": 1, "padding": "same"}
        rows(f"conv{n}d_transpose_extra", f"{kind}Transpose", shape, [extra, {**extra, "padding": "valid"}])
    rows("conv2d_odd", "Conv2D", (10, 7, 3), [
        {"filters": 4, "kernel_size": (1, 5), "strides": (2, 3), "padding": "same"},
        {"filters": 4, "kernel_size": (4, 2), "dilation_rate": (1, 3)},
        {"filters": 6, "kernel_size": 3, "groups": 3, "padding": "same", "activation": "selu"},
        {"filters": 4, "kernel_size": 3, "dtype": "float16"},
    ], BOTH)  # fmt: skip
    rows(
        "conv2d_transpose_odd",
        "Conv2DTranspose",
        (5, 4, 3),
        [{"filters": 4, "kernel_size": (1, 4), "strides": (2, 3), "padding": "same"}],
    )
    rows("conv1d_causal", "Conv1D", (9, 3), [
        {"filters": 4, "kernel_size": 3, "padding": "causal"}, {"filters": 4, "kernel_size": 3, "padding": "causal",
                                                                "dilation_rate": 2}], BOTH)  # fmt: skip
    rows(
        "depthwise1d",
        "DepthwiseConv1D",
        (9, 3),
        [{"kernel_size": 3, "depth_multiplier": 2}, {"kernel_size": 3, "padding": "same", "strides": 2}],
        BOTH,
    )
    rows("depthwise2d", "DepthwiseConv2D", (9, 8, 3), [
        {"kernel_size": 3, "depth_multiplier": 2, "activation": "relu6"}, {"kernel_size": 3, "padding": "same",
        "strides": 2},
        {"kernel_size": (2, 3), "dilation_rate": 2, "use_bias": False}], BOTH)  # fmt: skip
    rows("depthwise2d_one", "DepthwiseConv2D", (9, 8, 1), [{"kernel_size": 3, "depth_multiplier": 3}])
    rows(
        "depthwise2d_first",
        "DepthwiseConv2D",
        (3, 9, 8),
        [{"kernel_size": 3, "depth_multiplier": 2, "data_format": "channels_first"}],
    )
    for n, shape in ((1, (9, 3)), (2, (9, 8, 3))):
        rows(
            f"separable{n}d",
            f"SeparableConv{n}D",
            shape,
            [
                {"filters": 5, "kernel_size": 3, "depth_multiplier": 2},
                {"filters": 5, "kernel_size": 3, "padding": "same", "strides": 2, "activation": "elu"},
            ],
            BOTH,
        )
    rows("separable1d_causal", "SeparableConv1D", (9, 3), [{"filters": 5, "kernel_size": 3, "padding": "causal"}], (2,))


def _pooling() -> None:
    for n, shape in ((1, (9, 3)), (2, (9, 8, 3)), (3, (5, 6, 7, 3))):
        first = (shape[-1], *shape[:-1])
        for kind in ("Max", "Average"):
            rows(f"{kind.lower()}_pool{n}d", f"{kind}Pooling{n}D", shape, [
                {"pool_size": 2}, {"pool_size": 3, "strides": 2, "padding": "same"}, {"pool_size": 2, "strides": 1,
                "padding": "same"},
            ], BOTH)  # fmt: skip
            if kind == "Average":
                rows(
                    f"average_pool{n}d_first",
                    f"AveragePooling{n}D",
                    first,
                    [{"pool_size": 3, "strides": 2, "padding": "same", "data_format": "channels_first"}],
                )
            rows(f"global_{kind.lower()}_pool{n}d", f"Global{kind}Pooling{n}D", shape, [{}, {"keepdims": True}], BOTH)
            rows(f"adaptive_{kind.lower()}_pool{n}d", f"Adaptive{kind}Pooling{n}D", shape, [{"output_size": 4}])
        rows(f"global_average_pool{n}d_first", f"GlobalAveragePooling{n}D", first, [{"data_format": "channels_first"}])
    chain(
        "global_average_pool1d_masked",
        "GlobalAveragePooling1D",
        (7,),
        lambda L: [L.Embedding(6, 4, mask_zero=True), L.GlobalAveragePooling1D()],
        "int32",
        BOTH,
    )


def _normalizations() -> None:
    rows(
        "batch_norm",
        "BatchNormalization",
        (5, 4, 3),
        [{}, {"axis": 1, "epsilon": 0.1}, {"scale": False}, {"center": False, "scale": False}],
        BOTH,
    )
    rows("batch_norm_half", "BatchNormalization", (5, 3), [{"dtype": "mixed_float16"}])
    rows(
        "layer_norm",
        "LayerNormalization",
        (4, 5),
        [{}, {"axis": [1, 2], "epsilon": 1e-2}, {"axis": 1, "center": False}, {"scale": False}],
        BOTH,
    )
    rows("layer_norm_rms", "LayerNormalization", (4, 5), [{"rms_scaling": True}])
    rows(
        "group_norm",
        "GroupNormalization",
        (4, 5, 6),
        [{"groups": 3}, {"groups": -1, "axis": -1}, {"groups": 2, "axis": 1, "scale": False}, {"groups": 1}],
        BOTH,
    )
    rows("rms_norm", "RMSNormalization", (4, 5), [{}, {"epsilon": 0.1}])
    rows("unit_norm", "UnitNormalization", (4, 5), [{}, {"axis": [1, 2]}], BOTH)
    chain("spectral_norm", "SpectralNormalization", (9, 8, 3), lambda L: L.SpectralNormalization(L.Conv2D(4, 3)))


def _activations() -> None:
    names = (
        "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear log_sigmoid "
        "log_softmax mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus "
        "sparse_sigmoid sparsemax squareplus tanh tanh_shrink"
    ).split()
    for name in names:
        chain(f"activation_{name}", "Activation", (5, 6), lambda L, n=name: L.Activation(n))
    for name in ("elu exponential gelu hard_sigmoid linear mish relu selu sigmoid softmax softplus softsign swish "
                 "tanh").split():  # fmt: skip
        chain(f"activation_{name}", "Activation", (5, 6), lambda L, n=name: L.Activation(n), versions=(2,))
    rows("relu", "ReLU", (5, 6), [
        {}, {"max_value": 1.5}, {"negative_slope": 0.2}, {"threshold": 0.7, "max_value": 2.0, "negative_slope": 0.1},
        {"threshold": 0.5}], BOTH)  # fmt: skip
    rows("leaky_relu", "LeakyReLU", (5, 6), [{}, {"negative_slope": 0.05}])
    rows("leaky_relu", "LeakyReLU", (5, 6), [{}, {"alpha": 0.05}], (2,))
    rows("elu", "ELU", (5, 6), [{}, {"alpha": 0.4}], BOTH)
    rows("prelu", "PReLU", (4, 5, 3), [{}, {"shared_axes": [1, 2]}], BOTH)
    rows("softmax", "Softmax", (4, 5, 3), [{}, {"axis": 1}, {"axis": [1, 2]}, {"axis": [-1, 1]}], BOTH)
    rows("thresholded_relu", "ThresholdedReLU", (5, 6), [{"theta": 0.6}], (2,))

    def given(k):
        x = k.Input((5, 6), name="x")
        return k.Model(x, k.layers.Dense(4, activation=k.layers.LeakyReLU(0.3))(x))

    case("activation_layer", "Dense", given)


def _shapes() -> None:
    rows("flatten", "Flatten", (4, 3, 2), [{}, {"data_format": "channels_first"}], BOTH)
    rows("reshape", "Reshape", (4, 6), [{"target_shape": (8, 3)}, {"target_shape": (2, -1, 3)}], BOTH)
    rows("permute", "Permute", (4, 3, 2), [{"dims": (3, 1, 2)}], BOTH)
    rows("repeat", "RepeatVector", (4,), [{"n": 3}], BOTH)
    for n, shape in ((1, (9, 3)), (2, (6, 8, 3)), (3, (5, 6, 7, 2))):
        odd = [(1, 2), (0, 3), (2, 1)][:n] if n > 1 else (1, 2)
        rows(f"crop{n}d", f"Cropping{n}D", shape, [{"cropping": 1}, {"cropping": odd}], BOTH)
        rows(f"pad{n}d", f"ZeroPadding{n}D", shape, [{"padding": 2}, {"padding": odd}], BOTH)
        rows(f"up{n}d", f"UpSampling{n}D", shape, [{"size": 3}], BOTH)
    for kind, key in (("Cropping2D", "cropping"), ("ZeroPadding2D", "padding")):
        rows(f"{kind.lower()}_first", kind, (3, 6, 8), [{key: ((1, 2), (0, 3)), "data_format": "channels_first"}])
    rows(
        "up2d_modes",
        "UpSampling2D",
        (5, 4, 3),
        [{"size": (2, 3), "interpolation": "bilinear"}, {"size": 2, "interpolation": "bicubic"}],
        BOTH,
    )
    rows("up2d_first", "UpSampling2D", (3, 5, 4), [{"size": (1, 2), "data_format": "channels_first"}])


def _merging() -> None:
    def merge(name, inputs, make, kind=None):
        def build(k):
            xs = [k.Input(s, name=f"x{i}") for i, s in enumerate(inputs)]
            return k.Model(xs, make(k.layers)(xs))

        case(name, kind or name, build, BOTH)

    for kind in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"):
        merge(f"merge_{kind.lower()}", [(4, 3), (4, 3)], lambda L, n=kind: getattr(L, n)(), kind)
    merge("merge_three", [(4, 3), (4, 1), (4, 3)], lambda L: L.Add(), "Add")
    merge("merge_ranks", [(4, 3), (3,)], lambda L: L.Multiply(), "Multiply")
    merge("concatenate", [(4, 3), (4, 2)], lambda L: L.Concatenate(), "Concatenate")
    merge("concatenate_axis", [(4, 3), (2, 3)], lambda L: L.Concatenate(axis=1), "Concatenate")
    merge("dot_vectors", [(4,), (4,)], lambda L: L.Dot(axes=1), "Dot")
    merge("dot_matrices", [(4, 3), (5, 3)], lambda L: L.Dot(axes=2, normalize=True), "Dot")
    merge("dot_axes", [(4, 3), (4, 2)], lambda L: L.Dot(axes=(1, 1)), "Dot")

    def masked(k):
        x = k.Input((6,), dtype="int32", name="x")
        y = k.layers.Embedding(5, 3, mask_zero=True)(x)
        z = k.layers.Embedding(5, 3, mask_zero=True)(x)
        both = k.layers.Add()([y, k.layers.Dropout(0.1)(z)])
        joined = k.layers.Concatenate()([both, y])
        return k.Model(x, k.layers.GRU(4)(joined))

    case("merge_masked", "Concatenate", masked, BOTH)


def _recurrent() -> None:
    for kind in ("SimpleRNN", "LSTM", "GRU"):
        rows(kind.lower(), kind, (5, 3), [
            {"units": 4}, {"units": 4, "return_sequences": True, "go_backwards": True},
            {"units": 3, "return_state": True, "use_bias": False, "activation": "relu"},
            {"units": 3, "return_sequences": True, "return_state": True, "unroll": True},
        ], BOTH)  # fmt: skip
        chain(
            f"{kind.lower()}_masked",
            kind,
            (6,),
            lambda L, n=kind: [
                L.Embedding(5, 3, mask_zero=True),
                getattr(L, n)(4, return_sequences=True),
                getattr(L, n)(3),
            ],
            "int32",
            BOTH,
        )
        chain(f"{kind.lower()}_both", "Bidirectional", (6,), lambda L, n=kind: [
            L.Embedding(5, 3, mask_zero=True), L.Bidirectional(getattr(L, n)(4, return_sequences=True)),
            L.Bidirectional(getattr(L, n)(3), merge_mode="sum")], "int32", BOTH)  # fmt: skip
        chain(
            f"{kind.lower()}_cells",
            "RNN",
            (5, 3),
            lambda L, n=kind: L.RNN([getattr(L, f"{n}Cell")(4), getattr(L, f"{n}Cell")(3)], return_sequences=True),
            versions=BOTH,
        )
        chain(
            f"{kind.lower()}_cell",
            "RNN",
            (5, 3),
            lambda L, n=kind: L.RNN(getattr(L, f"{n}Cell")(4), return_state=True, go_backwards=True),
            versions=BOTH,
        )
    rows("lstm_hard", "LSTM", (5, 3), [{"units": 4, "recurrent_activation": "hard_sigmoid"}], BOTH)
    rows("gru_before", "GRU", (5, 3), [{"units": 4, "reset_after": False}, {"units": 4, "reset_after": False,
                                                                           "use_bias": False}], BOTH)  # fmt: skip
    for mode in ("mul", "ave", None):
        chain(
            f"bidirectional_{mode}",
            "Bidirectional",
            (5, 3),
            lambda L, m=mode: L.Bidirectional(L.GRU(4, return_sequences=True), merge_mode=m),
            versions=BOTH,
        )
    chain(
        "bidirectional_own",
        "Bidirectional",
        (5, 3),
        lambda L: L.Bidirectional(
            L.LSTM(4, return_sequences=True), backward_layer=L.GRU(3, return_sequences=True, go_backwards=True)
        ),
        versions=BOTH,
    )
    chain(
        "bidirectional_state",
        "Bidirectional",
        (5, 3),
        lambda L: L.Bidirectional(L.LSTM(4, return_state=True)),
        versions=BOTH,
    )
    case("lstm_states", "LSTM", _states, BOTH)
    chain(
        "time_dense",
        "TimeDistributed",
        (5, 3),
        lambda L: L.TimeDistributed(L.Dense(4, activation="relu")),
        versions=BOTH,
    )
    chain("time_conv", "TimeDistributed", (3, 6, 5, 2), lambda L: [
        L.TimeDistributed(L.Conv2D(4, 3)), L.TimeDistributed(L.BatchNormalization()),
        L.TimeDistributed(L.GlobalAveragePooling2D()), L.GRU(3)], versions=BOTH)  # fmt: skip
    for n, shape in ((1, (3, 6, 2)), (2, (3, 6, 5, 2)), (3, (2, 4, 5, 3, 2))):
        rows(f"conv_lstm{n}d", f"ConvLSTM{n}D", shape, [
            {"filters": 3, "kernel_size": 3, "padding": "same", "return_sequences": True},
            {"filters": 3, "kernel_size": 2, "strides": 2, "go_backwards": True},
        ], BOTH)  # fmt: skip


def _states(k):
    x, h, c = k.Input((5, 3), name="x"), k.Input((4,), name="h"), k.Input((4,), name="c")
    out, *states = k.layers.LSTM(4, return_state=True)(x, initial_state=[h, c])
    again = k.layers.LSTM(4, return_sequences=True)(x, initial_state=states)
    return k.Model([x, h, c], [out, again])


def _attention() -> None:
    def heads(name, call, kind="MultiHeadAttention", versions=BOTH, query=(5, 6), value=(4, 6), **given):
        def build(k):
            q, v = k.Input(query, name="q"), k.Input(value, name="v")
            out = call(getattr(k.layers, kind)(**given), q, v)
            return k.Model([q, v], out)

        case(name, kind, build, versions)

    heads("heads", lambda a, q, v: a(q, v), num_heads=2, key_dim=3)
    heads("heads_odd", lambda a, q, v: a(q, v), num_heads=3, key_dim=2, value_dim=4, use_bias=False, output_shape=5)
    heads("heads_causal", lambda a, q, v: a(q, q, use_causal_mask=True), num_heads=2, key_dim=3)
    heads("heads_scores", lambda a, q, v: a(q, v, return_attention_scores=True), num_heads=2, key_dim=3)
    heads(
        "heads_axes",
        lambda a, q, v: a(q, v),
        num_heads=2,
        key_dim=3,
        attention_axes=[1, 2],
        query=(3, 4, 6),
        value=(2, 5, 6),
    )
    heads(
        "heads_axis",
        lambda a, q, v: a(q, v),
        num_heads=2,
        key_dim=3,
        attention_axes=[2],
        query=(3, 4, 6),
        value=(3, 5, 6),
    )
    heads("heads_gate", lambda a, q, v: a(q, v), versions=(3,), num_heads=2, key_dim=3, use_gate=True)
    heads(
        "heads_window",
        lambda a, q, v: a(q, q, use_causal_mask=True),
        versions=(3,),
        num_heads=2,
        key_dim=3,
        sliding_window=2,
    )
    grouped = {"kind": "GroupQueryAttention", "versions": (3,), "head_dim": 3, "num_query_heads": 4,
               "num_key_value_heads": 2}  # fmt: skip
    heads("grouped", lambda a, q, v: a(q, v), **grouped)
    heads("grouped_causal", lambda a, q, v: a(q, q, use_causal_mask=True), **grouped)
    for number, given in enumerate([{}, {"use_scale": True}, {"score_mode": "concat", "use_scale": True}]):
        heads(f"attention_{number}", lambda a, q, v: a([q, v]), kind="Attention", **given)
    heads("attention_causal", lambda a, q, v: a([q, q, q], use_causal_mask=True), kind="Attention")
    heads("additive", lambda a, q, v: a([q, v]), kind="AdditiveAttention")
    heads("additive_plain", lambda a, q, v: a([q, v]), kind="AdditiveAttention", use_scale=False)

    def masked(k, kind):
        x = k.Input((6,), dtype="int32", name="x")
        y = k.layers.Embedding(4, 6, mask_zero=True)(x)
        if kind == "MultiHeadAttention":
            out = k.layers.MultiHeadAttention(2, 3)(y, y)
        else:
            out = getattr(k.layers, kind)()([y, y])
        return k.Model(x, k.layers.GlobalAveragePooling1D()(out))

    for kind in ("MultiHeadAttention", "Attention", "AdditiveAttention"):
        case(f"masked_{kind.lower()}", kind, lambda k, n=kind: masked(k, n), BOTH)


def _preprocessing() -> None:
    rows("rescaling", "Rescaling", (4, 3), [{"scale": 0.5, "offset": -1.0}, {"scale": [0.5, 2.0, 1.0]}], BOTH)
    rows("rescaling_integer", "Rescaling", (4, 3), [{"scale": 1 / 255}], BOTH, "uint8")
    rows("normalization", "Normalization", (4, 3), [
        {"mean": [1.0, 2.0, 3.0], "variance": [0.5, 1.0, 2.0]}, {"mean": 1.5, "variance": 4.0, "axis": None},
        {"mean": 1.0, "variance": 4.0, "axis": None, "invert": True}], BOTH)  # fmt: skip
    rows("center_crop", "CenterCrop", (7, 8, 3), [{"height": 4, "width": 5}, {"height": 9, "width": 5}], BOTH)
    rows("resizing", "Resizing", (7, 6, 3), [
        {"height": 5, "width": 9}, {"height": 14, "width": 3, "interpolation": "nearest"},
        {"height": 11, "width": 10, "interpolation": "bicubic"}, {"height": 4, "width": 8,
        "crop_to_aspect_ratio": True}],
         BOTH)  # fmt: skip
    rows("discretization", "Discretization", (6,), [{"bin_boundaries": [-1.0, 0.0, 0.5, 2.0]}], BOTH)
    rows(
        "discretization_modes",
        "Discretization",
        (6,),
        [{"bin_boundaries": [-1.0, 0.0, 0.5], "output_mode": m} for m in ("one_hot", "multi_hot", "count")],
    )
    rows(
        "category",
        "CategoryEncoding",
        (4,),
        [{"num_tokens": 9, "output_mode": "multi_hot"}, {"num_tokens": 9, "output_mode": "count"}],
        BOTH,
        "int32",
    )
    rows("category_one", "CategoryEncoding", (1,), [{"num_tokens": 9, "output_mode": "one_hot"}], BOTH, "int32")
    for name in (
        "RandomFlip",
        "RandomRotation",
        "RandomZoom",
        "RandomContrast",
        "RandomTranslation",
        "RandomBrightness",
    ):
        given = {"RandomFlip": {}, "RandomTranslation": {"height_factor": 0.1, "width_factor": 0.1}}.get(
            name, {"height_factor": 0.1} if name == "RandomZoom" else {"factor": 0.1})  # fmt: skip
        rows(name.lower(), name, (4, 5, 3), [given], (2,) if name == "RandomBrightness" else BOTH)


def _operations() -> None:
    def ops(name, kind, make, shape=(4, 6), dtype="float32"):
        def build(k):
            x = k.Input(shape, dtype=dtype, name="x")
            return k.Model(x, make(k.ops, x))

        case(f"ops_{name}", f"ops.{kind}", build)

    for kind, make in {
        "Add": lambda o, x: 1.5 + x + x, "Subtract": lambda o, x: 2 - x, "Multiply": lambda o, x: x * 3,
        "Divide": lambda o, x: x / 2.5, "Power": lambda o, x: x**2, "Negative": lambda o, x: -x, "Absolute": lambda o,
        x: abs(x),
        "Maximum": lambda o, x: o.maximum(x, 0.3), "Minimum": lambda o, x: o.minimum(x, 0.3),
        "Exp": lambda o, x: o.exp(x), "Log": lambda o, x: o.log(o.abs(x) + 1), "Sqrt": lambda o, x: o.sqrt(o.abs(x)),
        "Rsqrt": lambda o, x: o.rsqrt(o.abs(x) + 1), "Square": lambda o, x: o.square(x), "Sin": lambda o, x: o.sin(x),
        "Cos": lambda o, x: o.cos(x), "Floor": lambda o, x: o.floor(x), "Ceil": lambda o, x: o.ceil(x),
        "Sign": lambda o, x: o.sign(x), "Erf": lambda o, x: o.erf(x), "Log1p": lambda o, x: o.log1p(o.abs(x)),
        "Expm1": lambda o, x: o.expm1(x), "Reciprocal": lambda o, x: o.reciprocal(o.abs(x) + 1),
        "Mean": lambda o, x: o.mean(x, axis=1, keepdims=True), "Sum": lambda o, x: o.sum(x, axis=-1),
        "Max": lambda o, x: o.max(x, axis=(1, 2)), "Min": lambda o, x: o.min(x, axis=1), "Var": lambda o, x: o.var(x,
        axis=2),
        "Std": lambda o, x: o.std(x, axis=1), "Prod": lambda o, x: o.prod(x, axis=1), "Argmax": lambda o,
        x: o.argmax(x, axis=2),
        "Argmin": lambda o, x: o.argmin(x, axis=1), "Logsumexp": lambda o, x: o.logsumexp(x, axis=2),
        "Cumsum": lambda o, x: o.cumsum(x, axis=1), "Any": lambda o, x: o.any(x > 1, axis=1),
        "All": lambda o, x: o.all(x > -3, axis=1), "Greater": lambda o, x: x > 0.5, "LessEqual": lambda o, x: x <= 0.5,
        "Equal": lambda o, x: o.equal(x, x), "LogicalAnd": lambda o, x: o.logical_and(x > 0, x < 1),
        "LogicalNot": lambda o, x: o.logical_not(x > 0), "LogicalOr": lambda o, x: o.logical_or(x > 1, x < -1),
        "Where": lambda o, x: o.where(x > 0, x, 0.1), "Clip": lambda o, x: o.clip(x, -0.5, 0.7),
        "Cast": lambda o, x: o.cast(x, "int32"), "Reshape": lambda o, x: o.reshape(x, (-1, 3, 8)),
        "Transpose": lambda o, x: o.transpose(x, (0, 2, 1)), "ExpandDims": lambda o, x: o.expand_dims(x, -1),
        "Squeeze": lambda o, x: o.squeeze(o.expand_dims(x, 1), 1), "Concatenate": lambda o, x: o.concatenate([x, x],
        axis=1),
        "Stack": lambda o, x: o.stack([x, x], axis=2), "Split": lambda o, x: o.split(x, 3, axis=2),
        "Tile": lambda o, x: o.tile(x, (1, 2, 3)), "Repeat": lambda o, x: o.repeat(x, 2, axis=1),
        "Flip": lambda o, x: o.flip(x, axis=1), "Pad": lambda o, x: o.pad(x, ((0, 0), (1, 2), (0, 1))),
        "GetItem": lambda o, x: x[:, 1:4:2, ::-1], "Take": lambda o, x: o.take(x, [0, 3, -1], axis=1),
        "Swapaxes": lambda o, x: o.swapaxes(x, 1, 2), "Moveaxis": lambda o, x: o.moveaxis(x, 1, -1),
        "Matmul": lambda o, x: o.matmul(x, o.transpose(x, (0, 2, 1))), "Einsum": lambda o, x: o.einsum("abc,adc->abd",
        x, x),
        "Normalize": lambda o, x: o.normalize(x, axis=-1), "Softmax": lambda o, x: o.softmax(x, axis=1),
        "Relu": lambda o, x: o.relu(x), "Sigmoid": lambda o, x: o.sigmoid(x), "Tanh": lambda o, x: o.tanh(x),
        "Gelu": lambda o, x: o.gelu(x), "Silu": lambda o, x: o.silu(x), "HardSigmoid": lambda o, x: o.hard_sigmoid(x),
        "Unstack": lambda o, x: o.unstack(x, 4, axis=1), "ZerosLike": lambda o, x: o.zeros_like(x) + x,
        "FloorDivide": lambda o, x: x // 2, "Mod": lambda o, x: x % 2,
    }.items():  # fmt: skip
        ops(kind.lower(), kind, make)
    ops("onehot", "OneHot", lambda o, x: o.one_hot(x, 7), (4,), "int32")
    ops("getitem_odd", "GetItem", lambda o, x: x[..., None, 2], (4, 6))
    ops("resize", "Resize", lambda o, x: o.image.resize(x, (7, 5)), (5, 4, 3))


def _graphs() -> None:
    def shared(k):
        a, b = k.Input((5,), name="a"), k.Input((5,), name="b")
        dense = k.layers.Dense(4, activation="tanh")
        return k.Model([a, b], [dense(a), k.layers.Add()([dense(a), dense(b)])])

    def inner(k, trainable=True):
        layers = [k.Input((6,), name="i"), k.layers.Dense(5, name="p"), k.layers.BatchNormalization(),
                  k.layers.Dense(4, name="q", trainable=trainable), k.layers.Dense(4, name="r")]  # fmt: skip
        return k.Sequential(layers, name="inside")

    def nested(k):
        x = k.Input((6,), name="x")
        y = inner(k, False)(x)
        i = k.Input((4,), name="j")
        two = k.Model(i, [k.layers.Dense(3)(i), k.layers.Dense(2)(i)], name="two")
        left, right = two(y)
        return k.Model(x, [k.layers.Concatenate()([left, right]), left])

    def twice(k):
        a, b = k.Input((6,), name="a"), k.Input((6,), name="b")
        part = inner(k)
        return k.Model({"a": a, "b": b}, {"sum": k.layers.Add()([part(a), part(b)]), "one": part(a)})

    def sequential(k):
        return k.Sequential(
            [
                k.Input((8, 7, 3), name="x"),
                k.layers.Conv2D(4, 3, activation="relu"),
                k.layers.MaxPooling2D(),
                k.layers.Flatten(),
                k.layers.Dense(5, activation="softmax"),
            ]
        )

    def residual(k):
        x = k.Input((9, 8, 3), name="x")
        y = k.layers.BatchNormalization()(k.layers.Conv2D(4, 3, padding="same")(x))
        z = k.layers.Add()([y, k.layers.Conv2D(4, 1)(x)])
        return k.Model(x, [k.layers.ReLU()(z), k.layers.GlobalAveragePooling2D()(z)])

    def frozen(k):
        model = nested(k)
        model.layers[1].trainable = False
        return model

    def slices(k):
        x = k.Input((6, 4), name="x")
        return k.Model(x, k.layers.Dense(3)(x[:, 1:5, ::2] * 2.0 + 1.0))

    for name, build in (("shared", shared), ("nested", nested), ("twice", twice), ("sequential", sequential),
                        ("residual", residual), ("frozen", frozen), ("slices", slices)):  # fmt: skip
        case(f"graph_{name}", "Functional", build, BOTH)


for _family in (
    _core,
    _convolutions,
    _pooling,
    _normalizations,
    _activations,
    _shapes,
    _merging,
    _recurrent,
    _attention,
    _preprocessing,
    _operations,
    _graphs,
):
    _family()
