"""The benchmark models: standard topologies with random weights and sane statistics, as ONNX files.

    python -m benchmarks.zoo FOLDER [NAME ...] [--batch N] [--height H --width W] [--layout NHWC]

Runs in a Python that has torch, torchvision, transformers and onnx; it does not need tvm. Each model has a reference
file: the output in double precision for the input of `sample`, with which every timed program is compared.
"""

from __future__ import annotations

import argparse
import functools
import os
import warnings
from dataclasses import dataclass

import numpy as np

VISION = (
    "resnet18", "squeezenet1_1", "mobilenet_v2", "resnet50", "shufflenet_v2_x1_0", "mobilenet_v3_large",
    "efficientnet_b0", "densenet121", "inception_v3", "resnext50_32x4d", "vgg16", "convnext_tiny", "mnasnet1_0",
    "swin_t",
)  # fmt: skip
SEGMENTATION = ("deeplabv3_resnet50",)
DETECTION = ("yolo", "face")
TEXT = ("bert_base_s128",)
TRANSFORMERS = ("vit_b16", *TEXT)
NAMES = (*VISION, *SEGMENTATION, *DETECTION, *TRANSFORMERS)
# Height and width of the image where it is not 224.
SIDES = {"inception_v3": 299, "deeplabv3_resnet50": 256, "yolo": 800, "face": 256}
# Models that are also measured in other shapes and layouts and with one thread.
WITH_VARIANTS = ("resnet50", "mobilenet_v2")
# Models whose position tables are for one input size.
FIXED_SIZE = frozenset(TRANSFORMERS)


@dataclass(frozen=True)
class Case:
    """A model with the shape and the layout of its input."""

    name: str
    batch: int = 1
    height: int = 0
    width: int = 0
    layout: str = "NCHW"

    @property
    def stem(self) -> str:
        """The base name of its files."""
        size = f".{self.width}x{self.height}" if self.height else ""
        return self.name + (f".b{self.batch}" if self.batch > 1 else "") + size + (".nhwc" if self.is_nhwc else "")

    @property
    def is_nhwc(self) -> bool:
        return self.layout == "NHWC" and self.name not in TEXT

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        if self.name in TEXT:
            return {"input_ids": (self.batch, 128), "attention_mask": (self.batch, 128)}
        side = SIDES.get(self.name, 224)
        height, width = self.height or side, self.width or side
        image = (height, width, 3) if self.is_nhwc else (3, height, width)
        return {"data": (self.batch, *image)}


def variants(name: str) -> list[Case]:
    """Return other batches, an image that is not square, and channels last."""
    return [Case(name, 4), Case(name, 8), Case(name, 1, 240, 320), Case(name, layout="NHWC")]


def sample(case: Case) -> dict[str, np.ndarray]:
    """Return the input of all programs."""
    rng = np.random.default_rng(0)
    if case.name in TEXT:
        shape = case.shapes["input_ids"]
        return {"input_ids": rng.integers(0, 30000, shape), "attention_mask": np.ones(shape, "int64")}
    return {name: rng.standard_normal(shape, dtype="float32") for name, shape in case.shapes.items()}


@functools.cache
def _declare_operators():
    """Declare the names of torchvision's operators, which a CPU build of torch may lack: torchvision's model
    definitions, which transformers also imports, need the names as long as the library object lives."""
    import torch

    if torch.version.cuda is not None:
        return None
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _transformer(name: str):
    import torch
    from transformers import BertConfig, BertModel, ViTConfig, ViTModel

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = BertModel(BertConfig(attn_implementation="eager"))

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    class Vit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = ViTModel(ViTConfig(attn_implementation="eager"))

        def forward(self, data):
            return self.model(pixel_values=data).last_hidden_state

    return Bert() if name in TEXT else Vit()


def _segmentation(name: str):
    import torch
    import torchvision.models.segmentation as models

    class Classes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = getattr(models, name)(weights=None, weights_backbone=None)

        def forward(self, data):
            return self.model(data)["out"]

    return Classes()


def build(case: Case):
    """Return the model in torch, in evaluation mode; the weights depend on the seed only."""
    import torch

    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    _declare_operators()
    if case.name in TRANSFORMERS:
        model = _transformer(case.name)
    elif case.name in SEGMENTATION:
        model = _segmentation(case.name)
    elif case.name in DETECTION:
        from .detectors import DETECTORS

        model = DETECTORS[case.name]()
    else:
        import torchvision.models

        options: dict = {"weights": None}
        if case.name == "inception_v3":
            options.update(aux_logits=False, transform_input=False, init_weights=False)
        model = getattr(torchvision.models, case.name)(**options)
    model.eval()
    _sane_statistics(model)
    return model


def _sane_statistics(model) -> None:
    """Set batch-norm statistics that keep the magnitude of values."""
    import torch

    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
            module.weight.data.uniform_(0.5, 1.5, generator=generator)
            module.bias.data.normal_(0, 0.1, generator=generator)


def tensors(case: Case) -> tuple:
    """Return the sample as arguments of the model in torch; channels-last data become a view with channels second."""
    import torch

    made = [torch.from_numpy(array) for array in sample(case).values()]
    return tuple(t.permute(0, 3, 1, 2) for t in made) if case.is_nhwc else tuple(made)


def _exported(model, case: Case):
    import torch

    class ChannelsLast(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, data):
            return self.inner(data.permute(0, 3, 1, 2))

    if not case.is_nhwc:
        return model, tensors(case)
    # The export restores the mode in which it found the model, whatever the mode of its parts.
    return ChannelsLast(model).eval(), tuple(torch.from_numpy(array) for array in sample(case).values())


def model_path(folder: str, case: Case) -> str:
    return os.path.join(folder, case.stem + ".onnx")


def reference_path(folder: str, case: Case) -> str:
    return os.path.join(folder, case.stem + ".reference.npy")


def make(case: Case, folder: str) -> None:
    """Write the model and its reference; each file appears complete or not at all."""
    import torch

    os.makedirs(folder, exist_ok=True)
    model = build(case)
    # Several programs may create the same model at once.
    path, part = model_path(folder, case), f"{model_path(folder, case)}.{os.getpid()}.part"
    whole, arguments = _exported(model, case)
    torch.onnx.export(whole, arguments, part, input_names=list(case.shapes), opset_version=17, dynamo=False)
    wide = [a.double() if a.is_floating_point() else a for a in tensors(case)]
    with torch.no_grad():
        result = model.double()(*wide).numpy()
    with open(f"{part}.npy", "wb") as file:
        np.save(file, result)
    os.replace(f"{part}.npy", reference_path(folder, case))
    os.replace(part, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--height", type=int, default=0)
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--layout", default="NCHW", choices=("NCHW", "NHWC"))
    options = parser.parse_args()
    for name in options.names or NAMES:
        case = Case(name, options.batch, options.height, options.width, options.layout)
        if not os.path.exists(model_path(options.folder, case)):
            make(case, options.folder)
        print(case.stem, flush=True)


if __name__ == "__main__":
    main()
