"""The models of ``benchmarks.vm_models`` as PyTorch modules with the same weights, run eagerly in half precision,
and the models that PyTorch's libraries have under these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..vm_models import Sizes


def weights_of(model: Any) -> list[np.ndarray]:
    """Return the weights of an ONNX model in the order in which they were written, without scalars and shapes."""
    from onnx import numpy_helper

    arrays = [numpy_helper.to_array(w) for w in model.graph.initializer]
    return [a for a in arrays if a.dtype == "float32" and a.ndim]


def modules() -> dict[str, Any]:
    """Return the classes of the models; the call imports torch."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Bert(nn.Module):
        def __init__(self, weights: list[np.ndarray], heads: int = 12):
            super().__init__()
            given = iter(map(torch.from_numpy, map(np.copy, weights)))
            self.heads = heads
            self.words, self.order = (nn.Embedding.from_pretrained(next(given)) for _ in range(2))
            self.first = self.norm(given)
            kinds = "QKVONABN"
            rest = []
            while len(rest) < (len(weights) - 4) // 16 * len(kinds):
                rest += [self.norm(given) if kind == "N" else self.linear(given) for kind in kinds]
            self.rest = nn.ModuleList(rest)

        def norm(self, given: Any) -> nn.Module:
            scale, shift = next(given), next(given)
            made = nn.LayerNorm(scale.shape[0], eps=1e-12)
            made.weight.data, made.bias.data = scale, shift
            return made

        def linear(self, given: Any) -> nn.Module:
            weight, bias = next(given), next(given)
            made = nn.Linear(*weight.shape)
            made.weight.data, made.bias.data = weight.t().contiguous(), bias
            return made

        def split(self, x: Any) -> Any:
            return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            places = torch.arange(input_ids.shape[1], device=input_ids.device)
            x = self.first(self.words(input_ids) + self.order(places))
            for at in range(0, len(self.rest), 8):
                q, k, v, out, norm1, up, down, norm2 = self.rest[at : at + 8]
                # A mask of ones changes nothing.
                y = functional.scaled_dot_product_attention(*(self.split(f(x)) for f in (q, k, v)))
                x = norm1(out(y.transpose(1, 2).reshape(x.shape)) + x)
                x = norm2(down(functional.gelu(up(x))) + x)
            return x

    class ResNet(nn.Module):
        def __init__(self, weights: list[np.ndarray], blocks: Sizes = (3, 4, 6, 3)):
            super().__init__()
            given = iter(map(torch.from_numpy, map(np.copy, weights)))
            self.first = self.conv(given, 2)
            self.blocks = nn.ModuleList()
            for stage, count in enumerate(blocks):
                for i in range(count):
                    stride = 2 if i == 0 and stage > 0 else 1
                    names = [self.conv(given, 1), self.conv(given, stride), self.conv(given, 1)]
                    names += [self.conv(given, stride)] if i == 0 else []
                    self.blocks.append(nn.ModuleList(names))
            self.last = nn.Linear(1, 1)
            self.last.weight.data, self.last.bias.data = next(given), next(given)

        def conv(self, given: Any, stride: int) -> nn.Module:
            weight, bias = next(given), next(given)
            out, channels, kernel, _ = weight.shape
            made = nn.Conv2d(channels, out, kernel, stride, kernel // 2)
            made.weight.data, made.bias.data = weight, bias
            return made

        def forward(self, data: Any) -> Any:
            x = functional.max_pool2d(functional.relu(self.first(data)), 3, 2, 1)
            for one, two, three, *short in self.blocks:
                y = three(functional.relu(two(functional.relu(one(x)))))
                x = functional.relu((y + (short[0](x) if short else x)) * 0.6875)
            return self.last(x.mean((2, 3)))

    return {"bert_base": Bert, "resnet50": ResNet, "resnet50_image": ResNet}


def library_model(name: str) -> Any:
    """Return the model of transformers or torchvision, with its own weights."""
    if name == "bert_base":
        import transformers

        config = transformers.BertConfig(attn_implementation="sdpa")
        return transformers.BertModel(config, add_pooling_layer=False)
    import torchvision

    return torchvision.models.resnet50(weights=None)


class Eager:
    """A PyTorch model on the GPU."""

    def __init__(self, model: Any, dtype: str = "float16"):
        import torch

        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.dtype = torch, getattr(torch, dtype)
        self.model = model.eval().cuda().to(self.dtype).to(memory_format=torch.channels_last)
        self.inputs: list[Any] = []

    def set_input(self, feeds: dict[str, np.ndarray]) -> None:
        torch = self.torch
        self.inputs = [torch.from_numpy(v).cuda() for v in feeds.values()]
        self.inputs = [v.to(self.dtype) if v.is_floating_point() else v for v in self.inputs]
        self.inputs = [v.to(memory_format=torch.channels_last) if v.dim() == 4 else v for v in self.inputs]

    def run(self) -> Any:
        with self.torch.inference_mode():
            return self.model(*self.inputs)

    def output(self) -> np.ndarray:
        return self.run().float().cpu().numpy()

    def sync(self) -> None:
        self.torch.cuda.synchronize()


__all__ = ["Eager", "library_model", "modules", "weights_of"]
