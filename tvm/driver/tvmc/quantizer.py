"""``tvmc compile --quantize``: converts a float model to an integer model, or only its weights to few bits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...error import TVMError
from .errors import TVMCException
from .files import check_writable, write_whole
from .image import add_image_arguments, is_image, load_image, photo_of
from .model import TVMCModel
from .parser import detail_group
from .runner import read_npz

# Bits of weights by the values of --quantize that quantize only weights.
WEIGHTS = {"weights-int8": 8, "weights-int4": 4}
MODES = ("max", "percentile", "kl_divergence")
# Number of samples that are used for the report of quantization errors per layer.
REPORTED = 8


def generate_quantization_args(parser: argparse.ArgumentParser) -> None:
    """Add the options of quantization."""
    parser.add_argument(
        "--quantize",
        choices=["int8", *WEIGHTS],
        default=None,
        help="int8: convert a float model to integers, with the samples of --calibration; weights-...: "
        "only the weights of dense layers",
    )
    parser.add_argument(
        "--calibration",
        metavar="FOLDER",
        default=None,
        help="samples for --quantize: photos, or .npz files of inputs by name",
    )
    group = detail_group(parser, "quantization")
    group.add_argument(
        "--quantize-group",
        type=int,
        metavar="N",
        default=None,
        help="number of weights of an output unit that share one scale, 0: all of them (default: 0 of "
        "weights-int8, 32 of weights-int4)",
    )
    group.add_argument(
        "--calibration-mode",
        choices=MODES,
        default=None,
        help="how the ranges of tensors are computed (default: percentile)",
    )
    group.add_argument(
        "--calibration-labels",
        metavar="FILE",
        help="file with a sample's name and its class on each line: also print the accuracy",
    )
    group.add_argument(
        "--quantize-skip",
        nargs="+",
        default=[],
        metavar="NAME",
        help="layers that stay in float: names of nodes, or of operators such as nn.dense",
    )
    group.add_argument("--quantize-report", metavar="FILE", help="write the quantization error of every layer")
    add_image_arguments(group)


def check_quantization_args(args: argparse.Namespace) -> None:
    """Raise an error for options that would have no effect, and for a report that is not writable."""
    weights = args.quantize in WEIGHTS
    needs = [
        ("quantize_skip", bool(args.quantize), "--quantize"),
        ("quantize_report", bool(args.quantize), "--quantize"),
        ("quantize_group", weights, "--quantize weights-int8 or weights-int4"),
        ("calibration", args.quantize == "int8", "--quantize int8"),
        ("calibration_mode", args.quantize == "int8", "--quantize int8"),
        ("calibration_labels", args.quantize == "int8", "--quantize int8"),
    ]
    for option, given, needed in needs:
        if getattr(args, option) not in (None, []) and not given:
            raise TVMCException(f"--{option.replace('_', '-')} needs {needed}")
    if args.quantize == "int8" and not args.calibration:
        raise TVMCException("--quantize int8 needs --calibration FOLDER")
    if args.quantize_group is not None and (args.quantize_group < 0 or args.quantize_group % 2):
        raise TVMCException(f"--quantize-group must be an even number of weights or 0, got {args.quantize_group}")
    if args.quantize_report:
        check_writable(args.quantize_report)


def read_samples(folder: str, shapes: Mapping[str, list[int]], dtypes: Mapping[str, str], args: Any) -> dict[str, dict]:
    """The samples of a folder by file name, in the order of the file names.

    Raises
    ------
    TVMCException
        The folder contains no samples, or a sample cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as problem:
        raise TVMCException(f"--calibration {folder}: {problem.strerror or problem}") from problem
    out: dict[str, dict] = {}
    for name in names:
        path = os.path.join(folder, name)
        if is_image(name):
            into, how = photo_of(args, shapes, dtypes)
            out[name] = {into: load_image(path, shapes[into], dtypes[into], *how)}
        elif name.lower().endswith(".npz"):
            out[name] = _fitting(path, read_npz(path), shapes, dtypes)
    if not out:
        raise TVMCException(
            f"--calibration {folder}: the folder contains no photos (.png, .jpg, .bmp) and no .npz files"
        )
    return out


def _fitting(path: str, arrays: dict[str, Any], shapes: Mapping[str, list[int]], dtypes: Mapping[str, str]) -> dict:
    if set(arrays) != set(shapes):
        raise TVMCException(
            f"{path} contains the arrays {sorted(arrays)}, but the inputs of the model are {sorted(shapes)}"
        )
    for name, array in arrays.items():
        if list(array.shape) != list(shapes[name]) or str(array.dtype) != dtypes[name]:
            raise TVMCException(f"{path}: '{name}' is {list(array.shape)} {array.dtype}, but the model expects "
                                f"{list(shapes[name])} {dtypes[name]}")  # fmt: skip
    return arrays


def inputs_of(model: TVMCModel) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Shapes and element types of a model's inputs.

    Raises
    ------
    TVMCException
        An input has a dynamic dimension.
    """
    from ...relay.transform import InferType

    shapes, dtypes = {}, {}
    for p in InferType()(model.mod)["main"].params:
        if p.name_hint in model.params:
            continue
        try:
            shapes[p.name_hint] = list(p.checked_type_.concrete_shape)
        except (TypeError, ValueError, TVMError):
            raise TVMCException(f"--quantize requires fixed shapes; input '{p.name_hint}' has dynamic dimensions: fix "
                                "them with --input-shapes") from None  # fmt: skip
        dtypes[p.name_hint] = p.checked_type_.dtype
    return shapes, dtypes


def quantize_from_cli(model: TVMCModel, args: argparse.Namespace) -> TVMCModel:
    """Return the quantized model that the arguments request; print the quantization error."""
    if args.quantize in WEIGHTS:
        return _weights_from_cli(model, args)
    from ...relay.quantize import Quantization, qconfig

    mode = args.calibration_mode or "percentile"
    model = _with_known_batch(model)
    samples = read_samples(args.calibration, *inputs_of(model), args)
    # Read the labels before the time-consuming part.
    labels = read_sample_labels(args.calibration_labels, samples) if args.calibration_labels else {}
    operators = [n for n in args.quantize_skip if n.startswith("nn.")]
    config = qconfig(
        calibrate_mode=mode, weight_scale="channel", skip_conv_layers=None,
        skip_layers=args.quantize_skip, skip_dense_layer="nn.dense" in operators,
        debug_enabled_ops=[n for n in LAYERS if n not in operators] if operators else None,
    )  # fmt: skip
    made = Quantization(model.mod, model.params, samples.values(), config)
    losses = made.losses(list(samples.values())[:REPORTED])
    print(summary(made, losses, len(samples), mode))
    if args.quantize_report:
        write_whole(args.quantize_report, lambda file: file.write(table(losses).encode()))
    mod = made.realized()
    if labels:
        print(accuracy(model, mod, samples, labels))
    return TVMCModel(mod, {})


def _weights_from_cli(model: TVMCModel, args: argparse.Namespace) -> TVMCModel:
    from ...relay.quantize import WeightQuantization

    made = WeightQuantization(model.mod, model.params, WEIGHTS[args.quantize], args.quantize_group, args.quantize_skip)
    print(weights_summary(made))
    if args.quantize_report:
        write_whole(args.quantize_report, lambda file: file.write(table(made.losses).encode()))
    return TVMCModel(made.mod, {})


def weights_summary(made: Any) -> str:
    """Describe the quantized weights in a few lines."""
    count = len(made.losses)
    groups = f"groups of {made.group_size}" if made.group_size else "one scale a unit"
    lines = [f"weights in {made.bits} bits ({groups}): {count} matrices of dense layers, {len(made.left)} layers left"]
    if made.losses:
        before, after = (sum(getattr(loss, name) for loss in made.losses) / 1e6 for name in ("before", "after"))
        worst = min(made.losses, key=lambda loss: loss.noise)
        lines.append(f"{after:.1f} MB instead of {before:.1f} MB; signal to noise of weights {worst.noise:.1f} dB at "
                     f"the worst ({worst.name})")  # fmt: skip
    return "\n".join(lines)


LAYERS = ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul")


def _with_known_batch(model: TVMCModel) -> TVMCModel:
    from .module_sizes import with_batch_of_one

    return TVMCModel(with_batch_of_one(model, "calibrating"), model.params)


def summary(made: Any, losses: Sequence[Any], samples: int, mode: str) -> str:
    """Describe the quantized model in a few lines."""
    count, all_of_them = len(made.plan.layers), sum(made.plan.is_layer(e) for e in made.plan.nodes)
    lines = [f"quantized to int8: {count} of {all_of_them} layers, {samples} samples ({mode})"]
    if losses:
        worst = min(losses, key=lambda loss: loss.noise)
        lines.append(f"signal to noise of layers: {losses[-1].noise:.1f} dB at the last, {worst.noise:.1f} dB at the "
                     f"worst ({worst.name}); --quantize-report FILE has all of them")  # fmt: skip
    return "\n".join(lines)


def table(losses: Sequence[Any]) -> str:
    """List all layers with their quantization errors, in the order of the model."""
    rows = [f"{loss.noise:8.1f}  {loss.operator:<20}  {loss.name}" for loss in losses]
    return "\n".join(["  dB  of signal over noise, by layer", *rows]) + "\n"


def read_sample_labels(path: str, samples: Mapping[str, Any]) -> dict[str, int]:
    """The class indices of samples, from lines with a sample name and a number.

    Raises
    ------
    TVMCException
        A line has another format, or names an unknown sample.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise TVMCException(f"cannot read --calibration-labels {path}: {problem}") from problem
    out: dict[str, int] = {}
    for line in lines:
        if len(line) != 2 or not line[1].isdigit():
            raise TVMCException(
                f"--calibration-labels {path}: '{' '.join(line)}' is not a sample name and a class number"
            )
        if line[0] not in samples:
            raise TVMCException(f"--calibration-labels {path}: unknown sample '{line[0]}'")
        out[line[0]] = int(line[1])
    return out


def accuracy(model: TVMCModel, mod: Any, samples: Mapping[str, dict], labels: Mapping[str, int]) -> str:
    """Return how many labelled samples the float and the integer model classify correctly, run on this machine."""
    import numpy as np

    from ... import relay
    from ...relay.build_module import bind_params_by_name

    float_mod = model.mod.clone()
    float_mod["main"] = bind_params_by_name(float_mod["main"], model.params)
    right = []
    for module in (float_mod, mod):
        run = relay.create_executor("graph", module, target="llvm").evaluate()
        names = [p.name_hint for p in module["main"].params]
        outputs = {n: run(*[samples[n][i] for i in names]) for n in labels}
        first = {n: o if hasattr(o, "numpy") else o[0] for n, o in outputs.items()}
        right.append(sum(int(np.argmax(first[n].numpy())) == label for n, label in labels.items()))
    return f"accuracy on {len(labels)} labelled samples: float {right[0]}, int8 {right[1]}"


__all__ = ["check_quantization_args", "generate_quantization_args", "quantize_from_cli", "read_samples"]
