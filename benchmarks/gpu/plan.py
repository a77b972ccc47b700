"""The jobs of ``python -m benchmarks.gpu``: checks and timings, in parts that can be selected."""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from .jobs import Job

MODELS = ("vgg16", "resnet50", "bert_base_s128", "vit_b16", "mobilenet_v2", "resnet18")
DTYPES = ("float32", "float16")
PRODUCTS = ("float32", "float16", "bfloat16", "tf32")
OPERATORS = (("depthwise",), ("winograd",), ("grouped", "transposed", "transpose", "together", "sorting"))

TESTS = ("tests/topi", "tests/relay/op", "tests/relay/transform/test_sink_reshape.py",
         "tests/relay/transform/test_fuse_rows.py")  # fmt: skip
# Operator tests for compute-sanitizer, which is 10 to 50 times slower: one test of each kernel family.
SANITIZED = (
    "tests/topi/test_nn.py::test_softmax",
    "tests/topi/test_nn.py::test_convolutions",
    "tests/topi/test_nn.py::test_depthwise_convolutions",
    "tests/topi/test_nn.py::test_transposed_convolutions",
    "tests/topi/test_nn.py::test_products",
    "tests/topi/test_nn.py::test_pools",
    "tests/topi/test_reduction.py::test_reductions_over_every_kind_of_axis",
    "tests/topi/test_reduction.py::test_places_of_extremes",
    "tests/topi/test_scan.py::test_running_sums_and_products",
    "tests/topi/test_sort.py::test_sort_and_argsort",
    "tests/topi/test_sort.py::test_topk",
    "tests/topi/test_vision.py::test_non_max_suppression",
    "tests/topi/test_indexing.py::test_scatter_elements",
    "tests/topi/test_transform.py::test_dimensions_added_removed_moved",
    "tests/topi/test_transform.py::test_layout_transform",
    "tests/relay/op/test_nn.py::test_normalizations",
    "tests/relay/transform/test_fuse_rows.py::test_one_kernel_with_the_numbers_of_numpy",
)
# Number of processes that share these tests, for each tool.
SHARES = 3
# Tests that run on the emulator and here on the GPU, for compute-sanitizer: tensor cores, templates, latency hiding.
SANITIZED_REAL = (
    "tests/topi/gpu/test_tensor_cores.py::test_a_batch_of_products",
    "tests/topi/gpu/test_tensor_cores.py::test_products",
    "tests/topi/gpu/test_tensor_cores.py::test_convolution_with_an_epilogue",
    "tests/topi/gpu/test_on_cuda.py",
    "tests/topi/gpu/test_warpgroup.py",
    "tests/topi/gpu/test_epilogues.py",
    "tests/relay/transform/gpu/test_operands.py::test_products_of_attention_on_cuda",
    "tests/codegen/test_latency_hiding.py::test_virtual_threads_and_double_buffers_change_no_result",
    "tests/codegen/test_latency_hiding.py::test_the_largest_of_each_row_and_its_place",
)
NUMBERS = ("tests/codegen/test_cuda_numbers.py", "tests/codegen/test_latency_hiding.py",
           "tests/topi/gpu/test_tensor_cores.py", "tests/topi/gpu/test_warpgroup.py", "tests/topi/gpu/test_on_cuda.py",
           "tests/topi/gpu/test_epilogues.py", "tests/relay/transform/gpu/test_operands.py",
           "tests/fuzz/test_random_threads.py")  # fmt: skip
# Tests of the runtime and the tuner that need a GPU.
DEVICE = ("tests/runtime/test_cuda.py", "tests/autotvm/test_measure_device.py", "tests/topi/gpu/test_tuned.py")


@dataclass
class Choice:
    """The options of the user."""

    folder: str
    target: str = "cuda"
    # The architecture that the device reports.
    architecture: str = ""
    cores: int = 16
    rounds: int = 100
    tune_seconds: float = 40.0
    profile: bool = False

    @property
    def kind(self) -> str:
        return self.target.split()[0]

    def path(self, name: str, suffix: str) -> str:
        return os.path.join(self.folder, f"{name}.{suffix}")


def pytest(choice: Choice, name: str, tests: tuple[str, ...], workers: int, *options: str) -> list[str]:
    """Return the command of a test run that writes its outcome to a file."""
    parallel = ["-n", str(workers)] if workers > 1 and importlib.util.find_spec("xdist") else []
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *parallel,
            f"--junitxml={choice.path(name, 'xml')}", *options, *tests]  # fmt: skip


def tests(choice: Choice) -> list[Job]:
    """Return the jobs of every operator test on the device."""
    workers = max(choice.cores // 2, 1)
    command = pytest(choice, "tests", TESTS, workers)
    return [Job("tests", "tests", command, {"TVM_TEST_ON": choice.target}, cores=workers, seconds=200)]


def numbers(choice: Choice) -> list[Job]:
    """Return the jobs that compare kernels on the GPU with the emulator, and the runtime's tests on a GPU."""
    workers = max(choice.cores // 5, 1)
    real = {"TVM_CUDA_REAL": "1"}
    return [
        Job("numbers", "numbers", pytest(choice, "numbers", NUMBERS, workers, "-k", "not opencl"), real, workers, 150),
        Job("device", "numbers", pytest(choice, "device", DEVICE, 1, "-k", "not opencl"), {}, 1, 150),
    ]


def sanitizer() -> str | None:
    """Return the path of compute-sanitizer, which is not always on PATH."""
    found = glob.glob("/usr/local/cuda*/bin/compute-sanitizer")
    return shutil.which("compute-sanitizer") or (sorted(found)[-1] if found else None)


def sanitize(choice: Choice) -> list[Job]:
    """Return the jobs of memcheck and racecheck on a sample of the tests, in several processes."""
    program = sanitizer()
    jobs = []
    for tool in ("memcheck", "racecheck"):
        shares = [(SANITIZED[first::SHARES], {"TVM_TEST_ON": choice.target}) for first in range(SHARES)]
        shares += [(SANITIZED_REAL[first::2], {"TVM_CUDA_REAL": "1"}) for first in range(2)]
        for number, (chosen, environment) in enumerate(shares):
            name = f"{tool}-{number}"
            command = [program or "compute-sanitizer", "--tool", tool, "--error-exitcode", "86", "--target-processes",
                       "all", *pytest(choice, name, chosen, 1, "-x")]  # fmt: skip
            jobs.append(Job(name, "sanitize", command, environment, 1, 170,
                            missing="" if program else "compute-sanitizer is not installed"))  # fmt: skip
    return jobs


def refusals(choice: Choice) -> list[Job]:
    """Return the job that checks the errors for requests beyond the limits of the device."""
    return [Job("refusals", "refusals", [sys.executable, "-m", "benchmarks.gpu.refusals", "--target", choice.target])]


def guide(choice: Choice) -> list[Job]:
    """Return the job of the Relay quick start, verbatim."""
    command = [sys.executable, "-m", "benchmarks.gpu.quick_start", "--target", choice.kind]
    return [Job("guide", "guide", command, cores=1)]


def commands(choice: Choice) -> list[Job]:
    """Return the job of the user's commands: packages, tuning, a folder of candidates."""
    command = [sys.executable, "-m", "benchmarks.gpu.commands", "--target", choice.target]
    return [Job("commands", "commands", command, cores=max(choice.cores // 4, 1), seconds=200, missing=_needs("onnx"))]


def _needs(*modules: str) -> str:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} is not installed" if missing else ""


def models(choice: Choice) -> list[Job]:
    """Return the jobs of whole models beside PyTorch."""
    jobs = []
    for model in MODELS:
        for dtype in DTYPES:
            name = f"model-{model}-{dtype}"
            command = [sys.executable, "-m", "benchmarks.gpu.models", model, "--dtype", dtype, "--rounds",
                       str(choice.rounds), "--json", choice.path(name, "json"), "--target", choice.target]  # fmt: skip
            command += ["--profile"] if choice.profile else []
            missing = _needs("torch", "torchvision", "onnx", *(["transformers"] if "bert" in model else []))
            jobs.append(Job(name, "models", command, {"OMP_NUM_THREADS": "4"}, 2, 200, 60, True, missing=missing))
    return jobs


def matmul(choice: Choice) -> list[Job]:
    """Return the jobs of a large matmul beside cuBLAS; on a Hopper GPU also with warpgroups."""
    jobs = []
    is_hopper = choice.architecture == "9.0"
    by_warps = "cuda -arch=sm_90" if is_hopper and choice.target == "cuda" else choice.target
    ways = [(f"matmul-{dtype}", dtype, by_warps) for dtype in PRODUCTS]
    if is_hopper:
        ways += [(f"matmul-{dtype}-warpgroups", dtype, "cuda -arch=sm_90a") for dtype in PRODUCTS if dtype != "float32"]
    for name, dtype, target in ways:
        command = [sys.executable, "-m", "benchmarks.gpu.matmul", "--dtype", dtype, "--target", target, "--json",
                   choice.path(name, "json")]  # fmt: skip
        jobs.append(Job(name, "matmul", command, {}, 1, 90, 30, True, missing=_needs("torch")))
    return jobs


def operators(choice: Choice) -> list[Job]:
    """Return the jobs of operators with and without their templates."""
    jobs = []
    for number, families in enumerate(OPERATORS):
        name = f"operators-{number}"
        command = [sys.executable, "-m", "benchmarks.gpu.operators", *families, "--target", choice.target, "--json",
                   choice.path(name, "json")]  # fmt: skip
        jobs.append(Job(name, "operators", command, {}, 1, 200, 60, True))
    return jobs


def tuning(choice: Choice) -> list[Job]:
    """Return the job of a search with a time limit; it compiles on all cores."""
    command = [sys.executable, "-m", "benchmarks.gpu.tuning", "--seconds", str(choice.tune_seconds), "--target",
               choice.target, "--records", choice.path("tuning-records", "json"), "--json",
               choice.path("tuning", "json")]  # fmt: skip
    job = Job("tuning", "tuning", command, {}, choice.cores, 60, 2 * choice.tune_seconds + 30, times=True, alone=True)
    return [job]


def search(choice: Choice) -> list[Job]:
    """Return the jobs of all configurations of a large matmul, to fit the constants of the cost estimates; only on
    request."""
    jobs = []
    for dtype in ("float32", "float16"):
        command = [sys.executable, "-m", "benchmarks.gpu.matmul", "--search", "--dtype", dtype, "--target",
                   choice.target, "--seconds", "55", "--records", choice.path(f"search-{dtype}", "json")]  # fmt: skip
        jobs.append(Job(f"search-{dtype}", "search", command, {}, choice.cores, 90, alone=True,
                        missing=_needs("torch")))  # fmt: skip
    return jobs


# The longest jobs start first.
PARTS: dict[str, Callable[[Choice], list[Job]]] = {
    "tests": tests, "models": models, "sanitize": sanitize, "numbers": numbers, "operators": operators,
    "matmul": matmul, "refusals": refusals, "guide": guide, "commands": commands, "tuning": tuning,
    "search": search,
}  # fmt: skip
# The parts that run by default.
USUAL = tuple(name for name in PARTS if name != "search")


def plan(choice: Choice, parts: list[str]) -> list[Job]:
    """Return the jobs of some parts."""
    return [job for name, make in PARTS.items() if name in parts for job in make(choice)]


__all__ = ["PARTS", "USUAL", "Choice", "plan"]
