"""``torch.compile`` with our back end beside inductor with CUDA graphs, on an NVIDIA GPU.

    python -m benchmarks.gpu.torch_compile [MODEL ...] [--dtype float16] [--batch 1] [--rounds 100] [--json FILE]

Both sides replay a captured CUDA graph; ``--modes max-autotune,reduce-overhead`` lets inductor search first. Otherwise
as ``benchmarks.torch_compile``.
"""

from __future__ import annotations

from ..torch_compile import main

MODELS = ("resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16", "swin_t", "convnext_tiny", "bert_base", "gpt2")

if __name__ == "__main__":
    main(device="cuda", modes="reduce-overhead", names=MODELS)
