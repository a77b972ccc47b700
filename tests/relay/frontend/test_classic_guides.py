"""The programs of Apache's guides for older formats (``gallery/how_to/compile_models`` and ``deploy_ssd_gluoncv``),
line by line with local files in place of what they download: a trained network in the format, and a photo of a cat.
Objects with the methods that the importer calls stand for live blocks of Gluon."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from model_files import model_file
from trained_networks import CIFAR, CLOSE, SOURCES, examples, network, photo, planes

import tvm
import tvm.relay.testing.darknet
import tvm.relay.testing.yolo_detection
from tvm import relay
from tvm.contrib import graph_executor

pytest.importorskip("PIL")
NAME = "cifar_convnet"


@pytest.fixture
def cat() -> np.ndarray:
    """A photo as the network wants it."""
    model_file(SOURCES[NAME].file)
    return planes(photo("chelsea", 32, 32), -1)


def _writer(form: str):
    folder = str(Path(__file__).resolve().parent / form)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return __import__(f"{form}_trained")


def _original() -> tuple[np.ndarray, np.ndarray]:
    """An input of the network, and its output in its own framework."""
    example = examples(NAME)[0]
    assert example.wanted
    return example.data, example.wanted[0].reshape(-1)


def _top1(lib, name: str, x: np.ndarray, close: float = 2e-4, after=lambda scores: scores) -> str:
    """The end that the guides share: an executor, an input, a run, the best label. The executor then gives the output
    of the original, up to ``close`` of its largest element; ``after`` is what the guide adds behind the network."""
    dev = tvm.cpu(0)
    m = graph_executor.GraphModule(lib["default"](dev))
    m.set_input(name, tvm.nd.array(x.astype("float32")))
    m.run()
    tvm_output = m.get_output(0)
    label = CIFAR[int(np.argmax(tvm_output.numpy()[0]))]
    data, want = _original()
    m.run(**{name: data})
    _agrees(m.get_output(0).numpy(), after(want), close)
    return label


def _agrees(got: np.ndarray, want: np.ndarray, close: float = 2e-4) -> None:
    assert np.abs(got.reshape(-1) - want).max() < close * np.abs(want).max()


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def _block(monkeypatch, symbol: str, params: dict):
    """What the importer asks of a block of Gluon: its parameters, and the symbol that it makes of variables."""

    def array(value):
        return types.SimpleNamespace(data=lambda: types.SimpleNamespace(asnumpy=lambda: value))

    made = types.ModuleType("mxnet")
    made.sym = types.SimpleNamespace(Variable=lambda name: name)
    monkeypatch.setitem(sys.modules, "mxnet", made)

    class Block:
        def collect_params(self):
            return {name.partition(":")[2]: array(value) for name, value in params.items()}

        def __call__(self, *inputs):
            return types.SimpleNamespace(tojson=lambda: symbol)

    return Block()


def test_from_mxnet(cat, monkeypatch):
    """A block of the zoo, with a softmax behind it, which the guide adds."""
    made = _writer("mxnet").MXNet(network(NAME))
    block = _block(monkeypatch, made.net.symbol(*made.outputs), made.net.params)
    shape_dict = {"data": cat.shape}
    mod, params = relay.frontend.from_mxnet(block, shape_dict)
    func = mod["main"]
    func = relay.Function(func.params, relay.nn.softmax(func.body), None, func.type_params, func.attrs)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(func, "llvm", params=params)
    assert _top1(lib, "data", cat, after=_softmax) == "cat"


def test_from_mxnet_with_a_symbol(cat):
    """The second part of the guide: a symbol, and two dictionaries of parameters."""
    made = _writer("mxnet").MXNet(network(NAME))
    arguments = {n.partition(":")[2]: a for n, a in made.net.params.items() if n.startswith("arg:")}
    auxiliary = {n.partition(":")[2]: a for n, a in made.net.params.items() if n.startswith("aux:")}
    shape_dict = {"data": cat.shape}
    mod, params = relay.frontend.from_mxnet(
        made.net.symbol(*made.outputs), shape_dict, arg_params=arguments, aux_params=auxiliary
    )
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    assert _top1(lib, "data", cat) == "cat"


def test_deploy_ssd_gluoncv(monkeypatch):
    """A detector with three results: classes, scores and boxes, as MXNet gave them."""
    _writer("mxnet")
    from mxnet_networks import build as network_of

    text, weights, feeds = network_of("ssd")
    symbol = json.loads(text)
    (found, *_) = symbol["heads"][0]
    symbol["heads"] = []
    for begin, end in ((0, 1), (1, 2), (2, 6)):
        symbol["heads"].append([len(symbol["nodes"]), 0, 0])
        symbol["nodes"].append(
            {
                "op": "slice_axis",
                "name": f"part{begin}",
                "inputs": [[found, 0, 0]],
                "attrs": {"axis": "2", "begin": str(begin), "end": str(end)},
            }
        )
    block = _block(monkeypatch, json.dumps(symbol), weights)
    x, dshape = feeds["data"], feeds["data"].shape

    def build(target):
        mod, params = relay.frontend.from_mxnet(block, {"data": dshape})
        with tvm.transform.PassContext(opt_level=3):
            lib = relay.build(mod, target, params=params)
        return lib

    def run(lib, dev):
        m = graph_executor.GraphModule(lib["default"](dev))
        tvm_input = tvm.nd.array(x, device=dev)
        m.set_input("data", tvm_input)
        m.run()
        class_IDs, scores, bounding_boxs = m.get_output(0), m.get_output(1), m.get_output(2)
        return class_IDs, scores, bounding_boxs

    target = "llvm"
    dev = tvm.device(target, 0)
    assert dev.exist
    class_IDs, scores, bounding_boxs = run(build(target), dev)
    with np.load(Path(__file__).parent / "mxnet" / "networks.npz") as arrays:
        want = arrays["ssd|0"]
    real = want[0, :, 0] >= 0
    assert real.any() and (class_IDs.numpy()[0, ~real] == -1).all()
    for got, columns in ((class_IDs, slice(0, 1)), (scores, slice(1, 2)), (bounding_boxs, slice(2, 6))):
        np.testing.assert_allclose(got.numpy()[0, real], want[0, real][:, columns], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["write", "write_package"])
def test_from_coreml(cat, tmp_path, kind):
    model = getattr(_writer("coreml"), kind)(network(NAME), tmp_path)
    shape_dict = {"data": cat.shape}
    mod, params = relay.frontend.from_coreml(str(model), shape_dict)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    # The weights of a package have 16 bits.
    assert _top1(lib, "data", cat, CLOSE["Core ML program"] if kind == "write_package" else 2e-4) == "cat"


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_from_darknet(capsys):
    """A detector of COCO with two layers [yolo], as YOLOv3-tiny has them; no library of DarkNet is needed."""
    from tvm.relay.testing.darknet import __darknetffi__

    cfg_path = str(model_file("formats/darknet/yolo-fastest-1.1.cfg"))
    weights_path, img_path = cfg_path.replace(".cfg", ".weights"), str(model_file("imagenet/chelsea.png"))
    DARKNET_LIB = __darknetffi__.dlopen("libdarknet2.0.so")
    net = DARKNET_LIB.load_network(cfg_path.encode("utf-8"), weights_path.encode("utf-8"), 0)
    dtype = "float32"
    batch_size = 1
    data = np.empty([batch_size, net.c, net.h, net.w], dtype)
    mod, params = relay.frontend.from_darknet(net, dtype=dtype, shape=data.shape)
    target = tvm.target.Target("llvm", host="llvm")
    dev = tvm.cpu(0)
    shape = {"data": data.shape}
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    [neth, netw] = shape["data"][2:]
    data = tvm.relay.testing.darknet.load_image(img_path, netw, neth)
    m = graph_executor.GraphModule(lib["default"](dev))
    m.set_input("data", tvm.nd.array(data.astype(dtype)))
    thresh = 0.5
    nms_thresh = 0.45
    m.run()
    tvm_out = []
    for i in range(2):
        layer_out = {}
        layer_out["type"] = "Yolo"
        layer_attr = m.get_output(i * 4 + 3).numpy()
        layer_out["biases"] = m.get_output(i * 4 + 2).numpy()
        layer_out["mask"] = m.get_output(i * 4 + 1).numpy()
        out_shape = (layer_attr[0], layer_attr[1] // layer_attr[0], layer_attr[2], layer_attr[3])
        layer_out["output"] = m.get_output(i * 4).numpy().reshape(out_shape)
        layer_out["classes"] = layer_attr[4]
        tvm_out.append(layer_out)
    img = tvm.relay.testing.darknet.load_image_color(img_path)
    _, im_h, im_w = img.shape
    dets = tvm.relay.testing.yolo_detection.fill_network_boxes((netw, neth), (im_w, im_h), thresh, 1, tvm_out)
    last_layer = net.layers[net.n - 1]
    tvm.relay.testing.yolo_detection.do_nms_sort(dets, last_layer.classes, nms_thresh)
    names = model_file("formats/darknet/coco.names").read_text().splitlines()
    tvm.relay.testing.yolo_detection.show_detections(img, dets, thresh, names, last_layer.classes)
    tvm.relay.testing.yolo_detection.draw_detections(None, img, dets, thresh, names, last_layer.classes)
    assert "cat" in capsys.readouterr().out


def test_from_caffe2(cat):
    """Nets as messages, the name of the input out of the first operator."""
    made = _writer("caffe2").Caffe2(network(NAME))
    input_name = made.predict.op[0].input[0]
    shape_dict, dtype_dict = {input_name: cat.shape}, {input_name: cat.dtype}
    mod, params = relay.frontend.from_caffe2(made.init, made.predict, shape_dict, dtype_dict)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    assert _top1(lib, input_name, cat) == "cat"


def test_from_paddle(cat, tmp_path):
    path = _writer("paddle").write(network(NAME), tmp_path)
    shape_dict = {"x": cat.shape}
    mod, params = relay.frontend.from_paddle(path, shape_dict)
    with tvm.transform.PassContext(opt_level=3):
        executor = relay.build_module.create_executor("graph", mod, tvm.cpu(0), "llvm", params).evaluate()
    tvm_output = executor(tvm.nd.array(cat.astype("float32"))).numpy()
    assert CIFAR[int(np.argmax(tvm_output[0]))] == "cat"
    data, want = _original()
    _agrees(executor(data).numpy(), want)


def test_from_caffe(cat, tmp_path):
    """As TVM's own tests call it: weights, text, shapes and types."""
    path = _writer("caffe").write(network(NAME), tmp_path)
    shape_dict, dtype_dict = {"data": cat.shape}, {"data": "float32"}
    mod, params = relay.frontend.from_caffe(path.with_suffix(".caffemodel"), path, shape_dict, dtype_dict)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", target_host="llvm", params=params)
    assert _top1(lib, "data", cat) == "cat"
