"""``torch.compile`` with our back end beside inductor with CUDA graphs, on an NVIDIA GPU.

    python -m benchmarks.gpu.torch_compile [MODEL ...] [--dtype float16] [--batch 1] [--rounds 100] [--json FILE]

Both sides replay a captured CUDA graph; ``--modes max-autotune,reduce-overhead`` lets inductor search first. For the
rest see ``benchmarks.torch_compile``.
"""

from __future__ import annotations

from ..torch_compile import main

if __name__ == "__main__":
    main(device="cuda", modes="reduce-overhead")
