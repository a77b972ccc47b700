"""Detectors of torchvision in two stages: boxes, masks and keypoints of regions that the model itself proposes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from tests.relay.frontend.pytorch.detection import small_detector
from tests.relay.frontend.pytorch.support import array, check, run, same
from tests.relay.frontend.pytorch.test_torchscript import Case
from tests.relay.frontend.pytorch.vision import torchvision
from tvm import relay
from tvm.error import TVMError

# Importing it fails where its operators were built for another PyTorch; torchvision() mends that.
pytestmark = pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")


@pytest.mark.slow("compiles a whole detector")
@pytest.mark.parametrize("kind", ["FasterRCNN", "MaskRCNN", "KeypointRCNN"])
def test_a_detector_in_two_stages_finds_what_pytorch_finds(kind):
    torch.manual_seed(7)
    model, inputs = small_detector(kind)
    check(model, inputs)


@pytest.mark.slow("compiles a whole detector")
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [2, -1])
def test_samples_of_a_region_outside_the_image_are_zeros(samples, aligned):
    align = torchvision().ops.roi_align
    corners = torch.rand(9, 2, 2) * 90 - 10
    regions = torch.cat([torch.zeros(9, 1), corners.amin(1), corners.amax(1)], 1)
    check(Case(lambda x, r: align(x, r, (3, 2), 0.125, samples, aligned)), [torch.randn(1, 2, 7, 9), regions])


@pytest.mark.slow("compiles a whole detector")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups, sets", [(1, 1), (2, 2), (1, 2)])
def test_deformable_convolutions_read_between_elements_and_weigh_what_they_read(groups, sets, masked):
    torchvision()
    torch.manual_seed(3)
    x, weight, bias = torch.randn(2, 4, 6, 5), torch.randn(6, 4 // groups, 3, 2), torch.randn(6)
    # Some places lie outside of the image.
    offset, mask = torch.randn(2, 2 * sets * 6, 3, 3) * 2, torch.rand(2, sets * 6, 3, 3)

    def convolved(x, offset, mask):
        window = (2, 1, 1, 0, 1, 2)
        return torch.ops.torchvision.deform_conv2d(x, weight, offset, mask, bias, *window, groups, sets, masked)

    check(Case(convolved), [x, offset, mask])


def _scripted(kind: str):
    """A script of a small detector that was run once, its image and what it finds."""
    torch.manual_seed(7)
    model, inputs = small_detector(kind)

    class Found(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.model

        def forward(self, image):
            found = self.model([image])[1][0]
            return found["boxes"], found["labels"], found["scores"]

    script = torch.jit.script(Found().double().eval())
    with torch.no_grad():
        return script, inputs, script(*inputs)


@pytest.mark.slow("compiles a whole detector")
def test_a_script_of_a_whole_detector_finds_what_pytorch_finds():
    script, inputs, wanted = _scripted("FasterRCNN")
    mod, params = relay.frontend.from_pytorch(script, [("x", (tuple(inputs[0].shape), "float64"))])
    same(run(mod, params, {"x": array(inputs[0])}, "vm"), wanted)


def test_a_script_that_pastes_masks_is_refused():
    script, inputs, _ = _scripted("MaskRCNN")
    with pytest.raises(TVMError, match="the bounds of a slice must be constant at compile time"):
        relay.frontend.from_pytorch(script, [("x", (tuple(inputs[0].shape), "float64"))])
