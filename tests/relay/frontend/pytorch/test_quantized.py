"""Quantized modules of TorchScript against PyTorch."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional

from tests.relay.frontend.pytorch.support import array, run
from tvm import relay

ENGINE = "qnnpack" if "qnnpack" in torch.backends.quantized.supported_engines else torch.backends.quantized.engine


@pytest.fixture(autouse=True)
def _engine():
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE
    yield
    torch.backends.quantized.engine = before


class Network(torch.nn.Module):
    """Layers, sums, products, lists of parts, and operators that PyTorch has for both kinds of tensors."""

    def __init__(self):
        super().__init__()
        self.into, self.out = quantization.QuantStub(), quantization.DeQuantStub()
        self.first = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.relu = torch.nn.ReLU()
        self.deep = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.last = torch.nn.Linear(16, 5)
        self.sum, self.product, self.join = FloatFunctional(), FloatFunctional(), FloatFunctional()

    def forward(self, x):
        x = self.relu(self.first(self.into(x)))
        y = self.sum.add_relu(self.deep(x), x)
        z = self.product.mul(y, torch.sigmoid(x))
        x = torch.nn.functional.max_pool2d(self.join.cat([y, z], 1), 2)
        x = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.out(self.last(x))


def converted(model, shape, per_channel: bool = True):
    """A model quantized after a calibration with random data."""
    model.eval()
    weights = quantization.default_per_channel_weight_observer if per_channel else quantization.default_weight_observer
    model.qconfig = quantization.QConfig(quantization.HistogramObserver.with_args(reduce_range=False), weights)
    quantization.prepare(model, inplace=True)
    for _ in range(3):
        model(torch.randn(*shape))
    return quantization.convert(model, inplace=True)


def steps_apart(got: np.ndarray, want, scale: float) -> float:
    return float(np.abs(got - array(want)).max() / scale)


def agrees(got: np.ndarray, want, scale: float) -> None:
    """Every layer requantizes its sums, and where a sum is next to the middle of two steps the kernels of PyTorch for
    one CPU round it to another side than ours. The last layer sums 16 such inputs with weights of up to 1/4, whose
    steps can be larger than its own: two inputs that are a step off move an output by up to two steps. That is rare,
    so the outputs are within a step on average."""
    steps = np.abs(got - array(want)) / scale
    assert steps.max() < 2.01 and steps.mean() < 1, steps


@pytest.mark.slow("PyTorch quantizes and traces a network")
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("way", ["trace", "script"])
def test_a_quantized_module_agrees_within_a_step(way, per_channel):
    torch.manual_seed(3)
    # The mean is of nine points: PyTorch's engines differ in where they send a mean between two integers.
    shape = (2, 3, 12, 13)
    model, x = Network().eval(), torch.randn(shape)
    model = quantization.fuse_modules(model, [["first", "relu"]])
    model = converted(model, shape, per_channel)
    script = torch.jit.trace(model, x) if way == "trace" else torch.jit.script(model)
    mod, params = relay.frontend.from_pytorch(script, [("x", shape)])
    assert "qnn.conv2d" in str(mod)
    assert steps_apart(run(mod, params, {"x": array(x)})[0], model(x), model.last.scale) < 1.01


@pytest.mark.slow("compiles and runs whole PyTorch models")
def test_weights_are_real_numbers_or_integers_as_asked(tmp_path):
    torch.manual_seed(3)
    shape = (4, 3, 12, 13)
    model = converted(Network(), shape)
    x, path = torch.randn(shape), str(tmp_path / "model.pt")
    torch.jit.trace(model, x).save(path)
    found = {}
    for keep in (False, True):
        mod, params = relay.frontend.from_pytorch(torch.jit.load(path), [("x", shape)], keep_quantized_weight=keep)
        found[keep] = {k: str(v.dtype) for k, v in params.items()}
        agrees(run(mod, params, {"x": array(x)})[0], model(x), model.last.scale)
    assert found[False]["first._packed_params_weight"] == found[False]["first._packed_params_bias"] == "float32"
    assert found[True]["first._packed_params_weight"] == "int8"
    assert found[True]["first._packed_params_bias"] == "int32"
    assert set(found[True]) == set(found[False])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1),
        lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 2),
        lambda x: torch.nn.functional.avg_pool2d(x, (2, 3)),
        lambda x: x.mean((2, 3)),
    ],
)
def test_means_between_two_integers_go_to_the_even_one(function):
    """Means of an even number of integers are often half way. The rounding of a scale would send them to either side,
    as it does in some of PyTorch's engines, so the exact means are what is compared with."""

    class Mean(torch.nn.Module):
        def forward(self, x):
            return function(torch.quantize_per_tensor(x, 0.0317, 120, torch.quint8)).int_repr()

    x = torch.randn(4, 8, 4, 6, generator=torch.Generator().manual_seed(3))
    mod, params = relay.frontend.from_pytorch(torch.jit.trace(Mean(), x), [("x", tuple(x.shape))])
    got = run(mod, params, {"x": array(x)})[0].astype(int)
    exact = function(torch.quantize_per_tensor(x, 0.0317, 120, torch.quint8).int_repr().double())
    np.testing.assert_array_equal(got, np.rint(array(exact)))
    assert np.abs(got - array(Mean()(x)).astype(int)).max() <= 1


def test_an_operator_without_a_meaning_for_quantized_tensors_is_refused_by_name():
    class Sorted(torch.nn.Module):
        def forward(self, x):
            return torch.sort(torch.quantize_per_tensor(x, 0.1, 3, torch.quint8))[0].dequantize()

    script = torch.jit.trace(Sorted(), torch.randn(5))
    with pytest.raises(Exception, match="the operator sort does not support quantized tensors"):
        relay.frontend.from_pytorch(script, [("x", (5,))])


@pytest.mark.skipif(
    os.environ.get("TVM_TEST_TORCH") != "models", reason="python -m tools test torch --models runs whole models"
)
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x0_5"])
def test_a_quantized_model_of_torchvision_agrees_within_a_step(name):
    from tests.relay.frontend.pytorch.vision import torchvision

    torch.manual_seed(7)
    made = getattr(torchvision().models.quantization, name)
    model, shape = made(weights=None, quantize=False).eval(), (1, 3, 64, 64)
    with torch.no_grad():
        model.train()
        for _ in range(3):
            model(torch.randn(8, 3, 64, 64))
        model.eval()
    model.fuse_model(is_qat=False)
    model, x = converted(model, shape), torch.randn(shape)
    mod, params = relay.frontend.from_pytorch(torch.jit.trace(model, x), [("x", shape)])
    got, want = run(mod, params, {"x": array(x)})[0], array(model(x))
    step = np.diff(np.unique(want)).min()
    assert np.abs(got - want).max() <= 1.01 * step, f"{np.abs(got - want).max() / step} steps"
