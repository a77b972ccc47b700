"""Target: forms it is built from, its text, canonical forms, the current target, refusals."""

from __future__ import annotations

import copy
import json
import threading

import pytest

import tvm.target
from tvm.error import TargetError, TVMError
from tvm.relay.op.contrib.codegen import CODEGENS
from tvm.target import Target

OPENCL = (
    "-max_function_args=128 -max_num_threads=256 -max_shared_memory_per_block=16384 -max_threads_per_block=256 "
    "-texture_spatial_limit=16384"
)

TEXTS = [
    ("llvm", "llvm -keys=cpu "),
    ("llvm -mcpu=skylake", "llvm -keys=cpu -mcpu=skylake"),
    (
        "llvm -num-cores=2 -mattr=+avx512f,+fma -mcpu=skylake-avx512 -opt-level 3",
        "llvm -keys=cpu -mattr=+avx512f,+fma -mcpu=skylake-avx512 -num-cores=2 -opt-level=3",
    ),
    ("llvm -device=arm_cpu -model=rk3399", "llvm -keys=arm_cpu,cpu -device=arm_cpu -model=rk3399"),
    ("llvm -mtriple=aarch64-linux-gnu", "llvm -keys=arm_cpu,cpu -mtriple=aarch64-linux-gnu"),
    ("llvm -target=aarch64-linux-gnu", "llvm -keys=arm_cpu,cpu -mtriple=aarch64-linux-gnu"),
    ("llvm -keys=x86,cpu -libs=cblas,mkl", "llvm -keys=x86,cpu -libs=cblas,mkl"),
    ("llvm -fast-math=true -system-lib", "llvm -keys=cpu -fast-math=1 -system-lib=1"),
    ("cuda", "cuda -keys=cuda,gpu -arch=sm_50 -max_num_threads=1024 -thread_warp_size=32"),
    ("cuda -arch=sm_90", "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"),
    ("opencl -device=mali", "opencl -keys=mali,opencl,gpu -device=mali " + OPENCL + " -thread_warp_size=1"),
    ("opencl -thread_warp_size=8", "opencl -keys=opencl,gpu " + OPENCL + " -thread_warp_size=8"),
    ("c -mcpu=cortex-m55", "c -keys=arm_cpu,cpu -mcpu=cortex-m55"),
    ("stackvm", "stackvm -keys=cpu "),
    ("ext_dev", "ext_dev "),
    ("test", "test "),
]


@pytest.fixture
def no_gpu(monkeypatch):
    """A machine without a GPU, which would give targets for CUDA their architecture."""
    monkeypatch.setattr("tvm.target.detect.local_arch", lambda: None)


@pytest.mark.parametrize("given, printed", TEXTS)
def test_text_is_canonical_and_parses_back(given, printed, no_gpu):
    target = Target(given)
    assert str(target) == printed
    assert Target(printed) == target
    assert hash(Target(printed)) == hash(target)


@pytest.mark.parametrize("kind", Target.list_kinds())
def test_every_kind_round_trips_through_text_dict_and_json(kind):
    target = Target(kind, host="llvm -mcpu=haswell")
    assert target.kind.name == kind
    assert Target(target.export()) == target
    assert Target(json.dumps(target.export())) == target
    assert Target(str(target)) != target  # the host is not part of the text
    assert Target(str(target), target.host) == target


def test_every_tag_builds_and_names_its_target():
    tags = tvm.target.list_tags()
    assert len(tags) > 200
    assert all(target.tag == name and Target(target.export()) == target for name, target in tags.items())


def test_device_types_are_those_of_dlpack():
    expected = {
        "llvm": 1, "c": 1, "stackvm": 1, "hybrid": 1, "composite": 1, "test": 1, "cuda": 2, "nvptx": 2, "opencl": 4,
        "sdaccel": 4, "aocl": 32, "aocl_sw_emu": 32, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12, "hexagon": 16,
        "webgpu": 15,
    }  # fmt: skip
    assert {
        kind: Target(kind).get_target_device_type() for kind in Target.list_kinds() if kind not in CODEGENS
    } == expected
    assert Target("llvm -target_device_type=12").get_target_device_type() == 12
    known = [kind for kind in expected if kind in tvm.runtime.Device.STR2MASK]
    assert len(known) > 12 and all(tvm.runtime.Device.STR2MASK[kind] == expected[kind] for kind in known)


def test_dict_and_json_give_the_same_target():
    config = {
        "kind": "llvm",
        "keys": ["arm_cpu", "cpu"],
        "device": "arm_cpu",
        "libs": ["cblas"],
        "mfloat-abi": "hard",
        "mattr": ["+neon", "-avx512f"],
    }
    target = Target(config)
    assert target == Target(json.dumps(config))
    assert target.keys == ["arm_cpu", "cpu"]
    assert target.device_name == "arm_cpu"
    assert target.libs == ["cblas"]
    assert target.attrs["mfloat-abi"] == "hard"
    assert target.mattr == ["+neon", "-avx512f"]
    assert target.model == "unknown"


def test_quoted_values_keep_spaces_commas_and_quotes():
    target = Target("vulkan -device_name='Name of GPU with spaces' -device_type=discrete")
    assert target.attrs["device_name"] == "Name of GPU with spaces"
    assert Target(str(target)) == target
    options = Target("llvm -cl-opt='-unroll-threshold:uint=100,-unroll-count:uint=3'")
    assert list(options.attrs["cl-opt"]) == ["-unroll-threshold:uint=100", "-unroll-count:uint=3"]
    awkward = Target({"kind": "vulkan", "device_name": 'it\'s \\ "odd"', "libs": ["a,b", "c d"]})
    assert Target(str(awkward)).attrs == awkward.attrs


@pytest.mark.parametrize("text", ["True", "true", "1"])
def test_booleans_are_read_in_every_spelling(text):
    assert Target(f"vulkan --supports_float16={text}").attrs["supports_float16"] == 1
    assert Target("vulkan --supports_float16").attrs["supports_float16"] == 1
    assert Target("vulkan --supports_float16=false").attrs["supports_float16"] == 0


def test_composite_holds_targets():
    target = Target("composite --host=llvm --devices=cuda,opencl")
    assert [device.kind.name for device in target.attrs["devices"]] == ["cuda", "opencl"]
    assert target.host.kind.name == "llvm"
    assert Target(str(target), target.host) == target
    assert Target(target.export()) == target


def test_tags_fill_in_the_machine_and_its_host():
    target = Target("nvidia/geforce-rtx-2080-ti")
    assert (target.arch, target.max_shared_memory_per_block, target.thread_warp_size) == ("sm_75", 49152, 32)
    assert target.attrs["registers_per_block"] == 65536
    assert target.attrs["max_threads_per_block"] == 1024
    nano = Target("nvidia/jetson-nano")
    assert (nano.arch, nano.attrs["registers_per_block"], nano.host.mcpu) == ("sm_53", 32768, "cortex-a57")
    pi = Target("raspberry-pi/4b-aarch64")
    assert (pi.mcpu, pi.attrs["num-cores"], pi.mattr, pi.host.mcpu) == ("cortex-a72", 4, ["+neon"], "cortex-a72")
    assert Target("nvidia/nvidia-a100").l2_cache_size_bytes == 41943040
    assert Target("aws/cpu/c5.9xlarge").keys == ["x86", "cpu"]


def test_tag_registration_refuses_duplicates_and_bad_configs():
    config = {"kind": "llvm", "mcpu": "haswell", "num-cores": 3}
    assert tvm.target.register_tag("test/registered-tag", config, override=True) == Target("test/registered-tag")
    with pytest.raises(ValueError, match="target tag 'test/registered-tag' is already registered"):
        tvm.target.register_tag("test/registered-tag", config)
    with pytest.raises(TargetError, match="no option 'nope'"):
        tvm.target.register_tag("test/bad-tag", {"kind": "llvm", "nope": 1})
    assert "test/bad-tag" not in tvm.target.list_tags()


def test_host_comes_from_argument_text_dict_or_tag():
    for target in (
        Target("cuda", host="llvm"),
        Target("cuda", {"kind": "llvm"}),
        Target("cuda --host llvm"),
        Target("cuda -host=llvm"),
        Target({"kind": "cuda", "host": "llvm"}),
        Target(Target("cuda"), Target("llvm")),
        Target("cuda").with_host("llvm"),
        Target(Target("cuda -host=c"), "llvm"),
    ):
        assert (target.kind.name, target.host.kind.name) == ("cuda", "llvm")
    assert Target("cuda --host nvidia/jetson-nano").host.arch == "sm_53"
    assert Target("cuda -host='llvm -mcpu=haswell'").host.mcpu == "haswell"
    assert Target("llvm").host is None
    with pytest.raises(ValueError, match=r"target host has to be a string or dictionary"):
        Target("cuda", 12.5)


REFUSALS = [
    ("lvm", r"unknown target kind or tag 'lvm' \(did you mean 'llvm'"),
    ("nvidia/geforce-rtx-3099", "did you mean 'nvidia/geforce-rtx-3090'"),
    ("", "the target text is empty"),
    ("llvm -mcp=x", r"target kind 'llvm' has no option 'mcp' \(did you mean 'mcpu'\?\); its options are .*num-cores"),
    ("llvm -mcpu=a -mcpu=b", "option 'mcpu' is given more than once"),
    ("llvm -num-cores=many", "option 'num-cores' of target kind 'llvm' wants an integer, not 'many'"),
    ("vulkan -supports_int8=maybe", "must be true or false"),
    ("llvm mcpu=skylake", "'mcpu=skylake' is not an option"),
    ("cuda -arch", "option 'arch' of target kind 'cuda' needs a value"),
    ("vulkan -device_name='open", "opening quote ' that is never closed"),
    ('{"kind": "llvm"', "starts like JSON but is not"),
    ({"mcpu": "x"}, "needs a 'kind'"),
    ({}, "needs a 'kind', but contains nothing"),
    ({"kind": "llvm", "libs": {"a": "b"}}, "option 'libs' of target kind 'llvm' must be a list of strings"),
    ({"kind": "llvm", "mcpu": ["a"]}, "option 'mcpu' of target kind 'llvm' must be a string"),
    ({"kind": "llvm", "num-cores": 2.5}, "wants an integer, not 2.5"),
    ({"kind": "llvm", "features": {}}, "derived from its options"),
    (12, "has to be a string or dictionary"),
]


@pytest.mark.parametrize("given, message", REFUSALS)
def test_bad_targets_are_refused(given, message):
    with pytest.raises(TargetError, match=message):
        Target(given)


def test_target_errors_are_value_errors_and_tvm_errors():
    with pytest.raises(ValueError, match="unknown target kind or tag 'nothing'"):
        Target("nothing")
    with pytest.raises(TVMError, match="unknown target kind or tag 'nothing'"):
        Target("nothing")


def test_a_target_cannot_be_changed():
    target = Target("llvm")
    with pytest.raises(AttributeError, match="is immutable"):
        target.kind = None
    with pytest.raises(TypeError, match="does not support item assignment"):
        target.attrs["mcpu"] = "x"
    target.keys.append("more")
    assert target.keys == ["cpu"]
    assert copy.deepcopy(target) is target


def test_equality_is_by_content():
    assert Target("llvm -mcpu=haswell -num-cores=2") == Target({"num-cores": 2, "mcpu": "haswell", "kind": "llvm"})
    assert Target("llvm") != Target("llvm", host="llvm")
    assert Target("llvm") != "llvm"
    sm_80 = "cuda -arch=sm_80"
    assert len({Target(sm_80), Target({"kind": "cuda", "arch": "sm_80"}), Target(sm_80, host="llvm")}) == 2


def test_numbers_of_a_gpu():
    target = Target("cuda")
    assert (target.max_num_threads, target.thread_warp_size) == (1024, 32)
    assert target.max_shared_memory_per_block == 49152
    assert target.max_block_size_x == target.max_block_size_y == 1024
    assert Target("vulkan -max_block_size_x=128").max_block_size_x == 128
    assert Target("opencl").max_function_args == 128
    assert Target("hexagon -vtcm-capacity=4096").vtcm_capacity == 4096
    with pytest.raises(TargetError, match="does not specify max_num_threads"):
        _ = Target("llvm").max_num_threads


def test_integer_dot_product_follows_the_architecture():
    assert not Target("cuda -arch=sm_50").supports_integer_dot_product
    assert Target("cuda -arch=sm_61").supports_integer_dot_product
    assert Target("cuda -arch=sm_90a").supports_integer_dot_product
    assert Target("vulkan -supports_integer_dot_product=1").supports_integer_dot_product
    assert not Target("vulkan").supports_cooperative_matrix


def test_context_is_a_stack_of_the_thread():
    assert Target.current() is None
    with pytest.raises(TargetError, match="there is no current target"):
        Target.current(allow_none=False)
    with Target("cuda") as outer:
        with Target("llvm"):
            assert Target.current().kind.name == "llvm"
        assert Target.current(allow_none=False) is outer
        seen = []
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
        assert seen == [None]
        assert Target.target_or_current(None) is outer
        assert Target.target_or_current("c").kind.name == "c"
    assert Target.current() is None
    with pytest.raises(TargetError, match="Target is not set"):
        Target.target_or_current(None)


def test_context_is_left_when_the_body_raises():
    with pytest.raises(KeyError), Target("llvm"):
        raise KeyError
    assert Target.current() is None


def test_canon_target_and_host():
    assert Target.canon_target_and_host(None, None) == (None, None)
    with pytest.raises(AssertionError, match=r"Target host is not empty when target is empty."):
        Target.canon_target_and_host(None, "llvm")
    target, host = Target.canon_target_and_host("cuda", "llvm")
    assert target.host is host and host.kind.name == "llvm"
    target, host = Target.canon_target_and_host(Target("cuda", host="llvm"))
    assert target.host == host == Target("llvm")
    assert Target.canon_target(None) is None


@pytest.mark.parametrize(
    "given, kinds",
    [
        ({"kind": "llvm"}, ["llvm"]),
        ({1: "llvm", 2: "cuda"}, ["llvm", "cuda"]),
        (["llvm", "cuda"], ["llvm", "cuda"]),
        ("llvm", ["llvm"]),
        (Target("cuda"), ["cuda"]),
    ],
)
def test_canon_multi_target(given, kinds):
    assert [target.kind.name for target in Target.canon_multi_target(given)] == kinds
    hosted = Target.canon_multi_target_and_host(given, "c")
    assert [(target.kind.name, target.host.kind.name) for target in hosted] == [(kind, "c") for kind in kinds]


def test_canon_multi_target_needs_a_target():
    with pytest.raises(AssertionError, match="a target is needed"):
        Target.canon_multi_target_and_host(None)


def test_canon_target_map_gives_every_key_the_host():
    targets, host = Target.canon_target_map_and_host({"cuda": "cuda_module", "llvm": "cpu_module"}, "llvm")
    assert host == Target("llvm")
    assert {target.kind.name: value for target, value in targets.items()} == {
        "cuda": "cuda_module",
        "llvm": "cpu_module",
    }
    assert all(target.host == host for target in targets)


def test_kind_options_have_the_classic_type_names():
    options = Target("llvm").kind.options
    assert options["mcpu"] == "runtime.String"
    assert options["num-cores"] == "IntImm"
    assert options["mattr"] == "Array"
    assert tvm.target.TargetKind.options_from_name("cuda")["arch"] == "runtime.String"
    assert Target("llvm").get_kind_attr("RelayToTIR") is None


def test_constructors_by_name():
    assert tvm.target.cuda(options="-libs=cublas,cudnn") == Target("cuda -model=unknown -libs=cublas,cudnn")
    assert tvm.target.cuda(arch="sm_80").arch == "sm_80"
    assert tvm.target.mali().device_name == "mali"
    assert tvm.target.bifrost().device_name == "bifrost"
    assert tvm.target.intel_graphics().thread_warp_size == 16
    assert tvm.target.rocm("vega").model == "vega"
    assert tvm.target.arm_cpu("rasp4b64") == Target(
        "llvm -device=arm_cpu -model=bcm2711 -mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a72"
    )
    assert tvm.target.arm_cpu("rasp3b") == tvm.target.rasp()
    assert tvm.target.vta().keys == ["vta", "cpu"]
    assert tvm.target.micro("host").kind.name == "c"
    assert tvm.target.micro("stm32f746xx").mcpu == "cortex-m7"
    assert tvm.target.stm32("stm32H7xx").keys == ["arm_cpu", "cpu"]
    assert tvm.target.riscv_cpu("sifive-u74").attrs["mabi"] == "lp64d"
    assert tvm.target.hexagon("v69", hvx=128).mattr == ["+hvxv69", "+hvx-length128b", "+hvx-qfloat"]
    assert tvm.target.create("llvm") == Target("llvm")
    with pytest.raises(TargetError, match=r"micro: unknown model 'stm32f746x' \(did you mean 'stm32f746xx'"):
        tvm.target.micro("stm32f746x")
    own_board = tvm.target.arm_cpu("own", "-mtriple=aarch64-linux-gnu -mcpu=cortex-a55")
    assert (own_board.model, own_board.mcpu) == ("own", "cortex-a55")
    assert tvm.target.arm_cpu().model == "unknown"
    with pytest.raises(TargetError, match=r"arm_cpu: unknown board 'rasp4c' \(did you mean 'rasp4b'"):
        tvm.target.arm_cpu("rasp4c")
    with pytest.raises(TargetError, match="riscv_cpu: unknown board 'sifive'"):
        tvm.target.riscv_cpu("sifive")
    with pytest.raises(TargetError, match="hvx must be 0, 64 or 128 bytes, got 32"):
        tvm.target.hexagon(hvx=32)


class FakeDevice:
    """The attributes of a runtime device that a target is read from."""

    device_type = 2
    device_id = 0
    exist = True
    compute_version = "9.0"
    max_threads_per_block = 1024
    max_shared_memory_per_block = 49152
    warp_size = 32


def test_from_device_reads_the_device():
    target = Target.from_device(FakeDevice())
    assert (target.kind.name, target.arch, target.thread_warp_size) == ("cuda", "sm_90a", 32)
    assert target.max_shared_memory_per_block == 49152
    absent = FakeDevice()
    absent.exist = False
    with pytest.raises(TargetError, match="does not exist on this machine"):
        Target.from_device(absent)
    host = Target.from_device("llvm")
    assert host.mcpu and host.attrs["mtriple"] and host.attrs["num-cores"] >= 1
    with pytest.raises(TargetError, match="is not a device"):
        Target.from_device("gpu9")


def test_the_architecture_of_the_gpu_that_is_here(monkeypatch):
    from tvm.target import detect

    class Gpu:
        exist, compute_version = True, "9.0"

    monkeypatch.setattr(detect, "open_device", lambda device_type, index=0: Gpu)
    detect.local_arch.cache_clear()
    try:
        # With its own instructions, unless an architecture is asked for.
        assert Target("cuda").arch == "sm_90a"
        assert Target("cuda -arch=sm_80").arch == "sm_80" and Target("cuda -arch=sm_90").arch == "sm_90"
        Gpu.compute_version = "8.6"
        detect.local_arch.cache_clear()
        assert Target("cuda").arch == "sm_86"
    finally:
        detect.local_arch.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "llvm -mcpu=cortex-a72 -mattr=+neon,+fp16",
        "nvidia/jetson-nano",
        "cuda --host llvm",
        "composite --host=llvm --devices=cuda,opencl",
    ],
)
def test_a_target_is_saved_and_loaded_alone_and_in_a_function(text):
    target = Target(text)
    assert tvm.ir.load_json(tvm.ir.save_json(target)) == target
    func = tvm.tir.PrimFunc([], tvm.tir.Evaluate(0)).with_attr("target", target)
    assert tvm.ir.load_json(tvm.ir.save_json(func)).attrs["target"] == target


def test_a_kind_of_an_installed_package_that_cannot_be_imported_says_which_module(tmp_path, monkeypatch):
    info = tmp_path / "broken_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tvm.backends]\nbroken_kind = broken_backend_module\n")
    (tmp_path / "broken_backend_module.py").write_text("raise OSError('no driver')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TargetError, match="'broken_kind' .* module 'broken_backend_module' .* OSError: no driver"):
        Target("broken_kind")
