"""Models by name: small ones of our own, those of torchvision, and tiny configurations of transformers.

Weights are seeded. Running statistics of batch normalization are set from a batch, so that results have a size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_VISION = (
    "alexnet vgg11 vgg11_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_0 squeezenet1_1 "
    "mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet0_5 mnasnet1_0 shufflenet_v2_x0_5 shufflenet_v2_x1_0 "
    "efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf googlenet inception_v3 convnext_tiny swin_t "
    "swin_v2_t vit_b_16 maxvit_t"
).split()
_SEGMENTATION = "fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large".split()
_VIDEO = "r3d_18 mc3_18 r2plus1d_18 s3d mvit_v1_b swin3d_t".split()
_TEXT = {
    "bert": ("BertConfig", "BertModel", {}),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}),
    "roberta": ("RobertaConfig", "RobertaModel", {}),
    "electra": ("ElectraConfig", "ElectraModel", {"embedding_size": 32}),
    "albert": ("AlbertConfig", "AlbertModel", {"embedding_size": 32}),
    "mpnet": ("MPNetConfig", "MPNetModel", {}),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", {}),
    "gpt2": ("GPT2Config", "GPT2Model", {"n_embd": 32, "n_layer": 2, "n_head": 2}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXModel", {}),
    "opt": ("OPTConfig", "OPTModel", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": ("BloomConfig", "BloomModel", {"n_layer": 2, "n_head": 2}),
    "llama": ("LlamaConfig", "LlamaModel", {"num_key_value_heads": 1}),
    "mistral": ("MistralConfig", "MistralModel", {"num_key_value_heads": 1}),
    "qwen2": ("Qwen2Config", "Qwen2Model", {"num_key_value_heads": 1}),
    "phi": ("PhiConfig", "PhiModel", {}),
    "gemma": ("GemmaConfig", "GemmaModel", {"num_key_value_heads": 1, "head_dim": 16}),
}
_COMMON = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
           "intermediate_size": 64, "max_position_embeddings": 64}  # fmt: skip


def build(name: str) -> tuple[Any, list]:
    """A model in eval mode and its inputs."""
    import torch

    torch.manual_seed(7)
    model, inputs = MODELS[name]()
    _settle(model, inputs)
    return model.eval(), inputs


def _settle(model, inputs) -> None:
    """Running statistics as one batch has them."""
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    model.eval()
    for m in norms:
        m.train()
        m.momentum = None
        m.reset_running_stats()
    if norms:
        # A batch of two: a channel of one point has statistics too.
        with torch.no_grad():
            model(*[torch.cat([v, v * 0.9 + 0.1]) for v in inputs])
    model.eval()


def _small_convolutions():
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(3, 8, 3, 2, 1, bias=False)
            self.norm = torch.nn.BatchNorm2d(8)
            self.deep = torch.nn.Conv2d(8, 8, 3, 1, 1, groups=8)
            self.last = torch.nn.Linear(8, 5)

        def forward(self, x):
            x = torch.nn.functional.relu(self.norm(self.first(x)), inplace=True)
            x = x + torch.nn.functional.hardswish(self.deep(x))
            x = torch.nn.functional.max_pool2d(x, 2, ceil_mode=True)
            return self.last(x.mean((2, 3)))

    return Block(), [torch.randn(2, 3, 11, 9)]


def _small_transformer():
    import torch

    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, norm_first=True)

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(20, 16)
            self.layers = torch.nn.ModuleList([layer])

        def forward(self, tokens):
            x = self.words(tokens) + torch.arange(tokens.shape[1])[:, None] / 10
            mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            for one in self.layers:
                x = one(x, src_mask=mask)
            return x

    # The fast path of nn.TransformerEncoderLayer has an operator of its own.
    torch.backends.mha.set_fastpath_enabled(False)
    return Encoder(), [torch.randint(0, 20, (2, 7))]


def _vision(name: str, size: int = 64):
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    options: dict = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    size = {"inception_v3": 96, "vit_b_16": 224, "swin_v2_t": 64, "maxvit_t": 224, "alexnet": 80}.get(name, size)
    return torchvision().models.get_model(name, weights=None, **options), [torch.randn(1, 3, size, size)]


def _segmentation(name: str):
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    model = torchvision().models.get_model(name, weights=None, weights_backbone=None)
    return _FirstOut(model), [torch.randn(1, 3, 65, 49)]


def _FirstOut(model):
    import torch

    class FirstOut(torch.nn.Module):
        """The result named ``out``."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)["out"]

    return FirstOut()


def _video(name: str):
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    shape = {"s3d": (1, 3, 14, 64, 64), "mvit_v1_b": (1, 3, 16, 224, 224)}.get(name, (1, 3, 4, 32, 32))
    return torchvision().models.get_model(name, weights=None), [torch.randn(*shape)]


def _transformers():
    """The package; it imports torchvision."""
    from tests.relay.frontend.pytorch.vision import torchvision

    torchvision()
    import transformers

    return transformers


def _text(kind: str):
    import torch
    transformers = _transformers()
    config, model, more = _TEXT[kind]
    made = getattr(transformers, config)(**{**_COMMON, **more})
    made.use_cache = False
    made._attn_implementation = "eager"
    return _FirstHidden(getattr(transformers, model)(made)), [torch.randint(3, 99, (2, 9))]


def _FirstHidden(model):
    import torch

    class FirstHidden(torch.nn.Module):
        """The states of the last layer."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            return self.model(input_ids=tokens, return_dict=False)[0]

    return FirstHidden()


def _t5():
    import torch
    transformers = _transformers()
    config = transformers.T5Config(vocab_size=99, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2,
                                   use_cache=False)

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.T5Model(config)

        def forward(self, source, target):
            return self.model(input_ids=source, decoder_input_ids=target, return_dict=False)[0]

    return Both(), [torch.randint(3, 99, (1, 7)), torch.randint(3, 99, (1, 5))]


def _vit():
    import torch
    transformers = _transformers()
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                                    image_size=32, patch_size=8)

    class Image(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.ViTModel(config)

        def forward(self, pixels):
            return self.model(pixel_values=pixels, return_dict=False)[0]

    return Image(), [torch.randn(1, 3, 32, 32)]


def _whisper():
    import torch
    transformers = _transformers()
    config = transformers.WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=10,
        max_target_positions=20, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1)  # fmt: skip

    class Speech(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.WhisperModel(config)

        def forward(self, features, tokens):
            return self.model(input_features=features, decoder_input_ids=tokens, return_dict=False)[0]

    return Speech(), [torch.randn(1, 8, 20), torch.randint(3, 99, (1, 5))]


def _recurrent(kind: str):
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = getattr(torch.nn, kind)(5, 7, 2, batch_first=True, bidirectional=True)

        def forward(self, x):
            return self.network(x)

    return Network(), [torch.randn(2, 6, 5)]


MODELS: dict[str, Callable[[], tuple[Any, list]]] = {
    "small_convolutions": _small_convolutions,
    "small_transformer": _small_transformer,
    **{f"rnn/{kind}": (lambda kind=kind: _recurrent(kind)) for kind in ("RNN", "GRU", "LSTM")},
    **{f"vision/{name}": (lambda name=name: _vision(name)) for name in _VISION},
    **{f"segmentation/{name}": (lambda name=name: _segmentation(name)) for name in _SEGMENTATION},
    **{f"video/{name}": (lambda name=name: _video(name)) for name in _VIDEO},
    **{f"transformers/{kind}": (lambda kind=kind: _text(kind)) for kind in _TEXT},
    "transformers/t5": _t5,
    "transformers/vit": _vit,
    "transformers/whisper": _whisper,
}
