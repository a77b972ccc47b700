"""What tests of quantization share."""

import pytest


@pytest.fixture(autouse=True)
def quickly_compiled(quick_code) -> None:
    """Tests of quantized models compare numbers, which are the same without the optimizations of LLVM."""
