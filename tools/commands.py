"""The commands of ``python -m tools``: what each is for, its options, and the programs that it runs.

``COMMANDS`` is the only table of them: the command line, docs/maintaining.md and the tests read it. A program whose
first word is ``python`` runs with the interpreter of the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

Given = Mapping[str, str]


class Option(NamedTuple):
    """An option (``--cases``), or a positional argument when its name has no dashes. A switch has no ``value``; a
    positional argument whose ``value`` ends with dots is repeated."""

    name: str
    help: str
    value: str = ""
    default: str = ""

    @property
    def key(self) -> str:
        return self.name.lstrip("-").replace("-", "_")


class Step(NamedTuple):
    """One program, and the environment variables that are set for it."""

    program: tuple[str, ...]
    environment: Mapping[str, str] = {}


class Command(NamedTuple):
    """``interpreter`` selects the packages of ``.venv``: ``test``, ``run`` (the dependencies alone), or ``""`` for a
    command that needs none. ``other`` is an interpreter that the user names with ``--python``. ``passes_on`` names the
    module that takes all arguments."""

    help: str
    steps: Callable[[Given], list[Step]]
    options: tuple[Option, ...] = ()
    interpreter: str = "test"
    passes_on: str = ""


class Group(NamedTuple):
    """Subcommands of one purpose."""

    help: str
    commands: dict[str, Command]


JOBS = Option("--jobs", "worker processes", "N", "2")
SEED = Option("--seed", "seed of the random cases (default: the clock)", "N")
AGAIN = Option("--again", "also run the rows that are complete")
ONLY = Option("--only", "models whose name begins with this text", "TEXT")
SECONDS = Option("--seconds", "time limit of one model", "N", "900")


def arguments(options: tuple[Option, ...], given: Given) -> list[str]:
    """Return the given options as command-line arguments of a script."""
    words: list[str] = []
    for option in options:
        if value := given.get(option.key, ""):
            switch = option.name.startswith("-") and not option.value
            words += (
                [option.name] if switch else [option.name, value] if option.name.startswith("-") else value.splitlines()
            )
    return words


def script(path: str, help: str, *options: Option, fixed: tuple[str, ...] = (), interpreter: str = "test") -> Command:
    """Return a step for a script of this folder that parses the options itself."""
    return Command(
        help, lambda given: [Step(("python", path, *fixed, *arguments(options, given)))], options, interpreter
    )


def module(name: str, help: str, fixed: tuple[str, ...] = (), interpreter: str = "test") -> Command:
    """Return a step for a module that receives all remaining arguments."""
    return Command(
        help, lambda given: [Step(("python", "-m", name, *fixed, *given["rest"].splitlines()))], (), interpreter, name
    )


def pytest(paths: str, jobs: str = "", *words: str, **environment: str) -> Step:
    """Return a step that runs tests, in ``jobs`` processes or in this one."""
    workers = ("-n", jobs) if jobs else ("-p", "no:xdist")
    return Step(("python", "-m", "pytest", *paths.split(), *words, "-q", *workers), environment)


def seed(given: Given) -> str:
    return given["seed"] or str(int(time.time()))


def random_tests(help: str, default: str, *parts: tuple[str, str], variable: str = "TVM_FUZZ_CASES") -> Command:
    """Return steps for tests with ``--cases`` random cases, distributed over the parts."""

    def steps(given: Given) -> list[Step]:
        drawn = seed(given)
        return [
            pytest(paths, given["jobs"], **{variable: given["cases"] or cases, "TVM_TEST_SEED": drawn})
            for paths, cases in parts
        ]

    return Command(help, steps, (Option("--cases", f"random cases (default: {default})", "N"), SEED, JOBS))


def damaged_files(title: str, path: str) -> Command:
    """Return a step that passes mutated files of a format to its importer."""

    def steps(given: Given) -> list[Step]:
        return [
            pytest(path, "", "-k", "mutated", TVM_FUZZ_CASES=given["cases"], TVM_TEST_SEED=seed(given)),
        ]

    return Command(f"damaged {title} files into the importer", steps, (Option("--cases", "files", "N", "20000"), SEED))


def in_c(target: str, help: str, *after: str) -> Command:
    """Return a fuzzer of csrc/Makefile, followed by tests in Python with the same number of cases."""

    def steps(given: Given) -> list[Step]:
        drawn, cases = seed(given), given["cases"]
        first = Step(("make", "--no-print-directory", "-C", "csrc", target, f"CASES={cases}", f"SEED={drawn}"))
        return [first, *(pytest(path, "", TVM_FUZZ_CASES=cases, TVM_TEST_SEED=drawn) for path in after)]

    options = (Option("--cases", "damaged messages or executables", "N", "200000"), SEED)
    return Command(help, steps, options, "test" if after else "")


def fuzz_bindings(given: Given) -> list[Step]:
    environment = {"TVM_FUZZ_CASES": given["cases"], "TVM_TEST_SEED": seed(given),
                   "TVM_FUZZ_LIBRARY": str(ROOT / "csrc" / "build" / "asan" / "libtvm_runtime.so")}  # fmt: skip
    library = Step(("make", "--no-print-directory", "-C", "csrc", "asan"))
    files = "tests/runtime/test_cpp.py tests/runtime/test_rust.py tests/relay/backend/bundle/test_languages.py"
    return [library, pytest(files, "", "-k", "damaged", **environment)]


def tests_bindings(given: Given) -> list[Step]:
    files = "tests/runtime/test_cpp.py tests/runtime/test_rust.py"
    make = ("make", "--no-print-directory", "-C", "csrc")
    checks = "--quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite"
    # Valgrind has no AVX-512, so that the models are compiled for another CPU.
    valgrind = {"TVM_TEST_RUNNER": f"valgrind {checks}", "TVM_HOST_CPU": "haswell,cores=2"}
    sanitized = {"TVM_FUZZ_LIBRARY": str(ROOT / "csrc" / "build" / "asan" / "libtvm_runtime.so")}
    return [
        Step((*make, "asan")),
        pytest("tests/runtime/test_cpp.py", "", "-k", "calls or outputs", **sanitized),
        Step((*make, "valgrind")),
        pytest(files, "", "-k", "(calls or results or outputs or photo) and not damaged", **valgrind),
    ]


def fuzz_tune(given: Given) -> list[Step]:
    words = ("python", "tools/fuzz_tune.py", "--kills", given["kills"], "--seed", seed(given))
    return [Step(words), Step((*words, "--search", "auto_scheduler"))]


def conformance_tflite(given: Given) -> list[Step]:
    models = pytest("tests/relay/frontend/tflite/test_tflite_models.py", given["jobs"], TVM_CONFORMANCE_CASES="all")
    return [Step(("python", "tools/tflite_conformance.py")), models]


def conformance_tensorflow(given: Given) -> list[Step]:
    models = pytest("tests/relay/frontend/tensorflow/test_tensorflow_models.py")
    cases = Step(("python", "tools/tensorflow_conformance.py", *arguments((MATCH,), given)))
    return [cases] if given["match"] else [cases, models]


PLATFORMS = Option("--only", "platforms whose wheel tag or zig target contains this text", "TEXT")
OPERATOR_TESTS = "tests/topi tests/relay/op"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


def tests_opencl(given: Given) -> list[Step]:
    sample = {"TVM_TEST_SAMPLE": given["sample"]} if given["sample"] else {"TVM_TEST_TABLE": "docs/opencl_tests.md"}
    return [pytest(OPERATOR_TESTS, given["jobs"], TVM_TEST_ON="opencl", **sample)]


def tests_cuda(given: Given) -> list[Step]:
    table = {"TVM_TEST_TABLE": "docs/cuda_tests.md"}
    chosen = ARCHITECTURES if given["arch"] == "all" else (given["arch"],)
    return [pytest(OPERATOR_TESTS, given["jobs"], TVM_TEST_ON=f"cuda -arch={arch}", **table) for arch in chosen]


def tests_emulated(given: Given) -> list[Step]:
    words = ("pytest", *OPERATOR_TESTS.split(), "-q", "-n", given["jobs"])
    environment = {"TVM_TEST_ON": f"cuda -arch={given['arch']}", "TVM_TEST_TABLE": "docs/cuda_tests.md"}
    return [Step(("python", "-m", "tests.cuda_emulator", *words), environment)]


def tests_torch(given: Given) -> list[Step]:
    paths = "tests/relay/frontend/pytorch tests/contrib/test_torch_dynamo.py tests/driver/tvmc/test_pytorch.py"
    return [Step(("python", "-m", "pytest", *paths.split(), "-q"),
                 {"TVM_TEST_TORCH": "models" if given["models"] else "operators"})]  # fmt: skip


def tests_keras(given: Given) -> list[Step]:
    return [Step(("python", "-m", "pytest", "tests/relay/frontend/keras", "-q"), {"TVM_TEST_KERAS": "1"})]


def tests_ray(given: Given) -> list[Step]:
    return [
        Step(("make", "--silent", "--no-print-directory", "lib")),
        Step(("python3", "tools/environment.py", "build/ray", "test", "ray")),
        Step(("build/ray/bin/python", "-m", "pytest", "tests/farm", "-q", "-n", "0"), {"RAY_USAGE_STATS_ENABLED": "0"}),
    ]


def tests_dnnl(given: Given) -> list[Step]:
    return [
        Step(("make", "--silent", "--no-print-directory", "lib")),
        Step(("python3", "tools/environment.py", "build/dnnl", "test", "dnnl")),
        Step(("build/dnnl/bin/python", "-m", "pytest", "tests/relay/op/contrib/test_dnnl.py", "-q", "-n", "0")),
    ]


def tests_rtl(given: Given) -> list[Step]:
    environment = {"TVM_FUZZ_CASES": given["cases"], "TVM_TEST_SEED": seed(given)}
    return [
        Step(("make", "--silent", "--no-print-directory", "lib")),
        Step(("python3", "tools/environment.py", "build/rtl", "test", "vta-rtl")),
        Step(
            ("build/rtl/bin/python", "-m", "pytest", "tests/contrib/vta/test_rtl.py", "-q", "-s", "-n", "0"),
            environment,
        ),
    ]


def tests_symbolic(given: Given) -> list[Step]:
    paths = ("tests/relay/op/test_symbolic.py tests/relay/qnn/test_symbolic_qnn.py"
             " tests/relay/frontend/test_onnx_run_time.py")  # fmt: skip
    return [pytest(paths, given["jobs"], TVM_TEST_ALL_SYMBOLIC="1")]


def tests_compile_cost(given: Given) -> list[Step]:
    return [pytest("tests/relay/test_compile_cost.py", given["jobs"], TVM_COMPILE_COST_STEPS="1000")]


def tests_wheels(given: Given) -> list[Step]:
    """Return steps that build the wheels, and for each interpreter run examples and documents with the full wheel."""
    steps = [Step(("make", "--no-print-directory", "wheel"))]
    paths = "tests/packaging/test_portable.py tests/examples tests/docs/test_document_programs.py"
    for python in given["pythons"].split(","):
        folder = f"build/wheel-{python.rpartition('/')[2]}"
        inside = str(ROOT / folder / "bin" / "python")
        environment = {"TVM_TEST_WHEELS": "dist", "TVM_TEST_PYTHONS": python, "TVM_TEST_PYTHON": inside,
                       "PYTHONPATH": ""}  # fmt: skip
        install = '"$0" -m pip install --quiet --disable-pip-version-check dist/tvm_classic-*.whl'
        steps += [
            Step((python, "-m", "venv", "--clear", folder)),
            Step(("sh", "-c", install, inside)),
            pytest(paths, given["jobs"], **environment),
        ]
    return steps


def tests_platforms(given: Given) -> list[Step]:
    return [
        Step(("python3", "tools/environment.py", "build/wheel-tools", "wheel")),
        Step(("build/wheel-tools/bin/python", "tools/platforms.py", *arguments((PLATFORMS,), given))),
    ]


def tests_c(given: Given) -> list[Step]:
    return [Step(("make", "--no-print-directory", "-C", "csrc", "sanitize" if given["sanitize"] else "test"))]


def peers(given: Given) -> list[Step]:
    install = ("build/peers/bin/pip", "install", "--quiet", "torch==2.13.*", "numpy")
    return [Step(("python3", "-m", "venv", "build/peers")), Step(install)]


FORMATS = {"caffe": "Caffe", "caffe2": "Caffe2", "cntk": "CNTK", "coreml": "Core ML", "darknet": "DarkNet",
           "mxnet": "MXNet", "paddle": "PaddlePaddle"}  # fmt: skip
MATCH = Option("match", "part of the names of the cases; the table is not written", "TEXT")
PARTS = Option("match", "parts of the names of the cases; the table is not written", "TEXT...")
CONFORMANCE = {
    "onnx": script(
        "tools/onnx_conformance.py", "every node test of the onnx package", JOBS,
        Option("--match", "only tests with this text in their names; the table is not written", "TEXT"),
        Option("--again", "only the tests that the table lists"),
        Option("--journal", "file of results; an interrupted run continues from it", "FILE"),
        Option("--failures", "print every test that does not pass"),
        Option("--aot", "compile to plain C ahead of time; the table is not written"),
    ),
    "tflite": Command("every TFLite operator and model beside LiteRT's outputs", conformance_tflite, (JOBS,)),
    "keras": script("tools/keras_conformance.py", "every Keras layer beside Keras' outputs", PARTS),
    "tensorflow": Command("every TensorFlow operator and file beside TensorFlow's outputs", conformance_tensorflow,
                          (MATCH,)),
    "pytorch": script("tools/pytorch_conformance.py", "every PyTorch operator beside PyTorch", interpreter="other"),
    **{name: script("tools/legacy_conformance.py", f"every {title} operator beside its reference", MATCH, JOBS,
                    fixed=(name,)) for name, title in FORMATS.items()},
}  # fmt: skip
FUZZ = {
    "programs": random_tests(
        "random schedules, graphs and Relay programs beside reference implementations", "20000, 1000 of whole graphs",
        ("tests/fuzz tests/contrib/test_graph_executor_memory.py", "20000"),
        ("tests/relay/test_random_graphs.py tests/relay/test_random_programs.py", "1000"),
    ),
    "states": random_tests("random schedules of AutoScheduler beside plain loops", "500",
                           ("tests/auto_scheduler/test_states.py", "500"), variable="TVM_TEST_STATES"),
    "tune": Command("kill tuners and their workers at random moments; no record may be lost", fuzz_tune,
                    (Option("--kills", "kills for each kind of search", "N", "50"), SEED)),
    "rpc": in_c("fuzz-rpc", "damaged messages into RPC servers, clients, trackers and proxies, under ASan",
                "tests/rpc/test_fuzz.py"),
    "bindings": Command("damaged packages, libraries and bundles from C and C++, under ASan, and from Rust",
                        fuzz_bindings, (Option("--cases", "damaged copies of each file", "N", "20000"), SEED)),
    "vm": in_c("fuzz-vm", "damaged executables of the virtual machine, under ASan"),
    "vta": in_c("fuzz-vta", "hostile instruction streams into the simulated accelerator, under ASan"),
    "keras": damaged_files("Keras", "tests/relay/frontend/keras/test_keras_reader.py"),
    "pytorch": damaged_files("PyTorch", "tests/relay/frontend/pytorch/test_load.py"),
    "tensorflow": damaged_files("TensorFlow", "tests/relay/frontend/tensorflow/test_tensorflow_reader.py"),
    "tflite": damaged_files("TFLite", "tests/relay/frontend/tflite/test_tflite_reader.py"),
    **{name: damaged_files(title, f"tests/relay/frontend/{name}") for name, title in FORMATS.items()},
}  # fmt: skip
MODELS = {
    "pytorch": script(
        "tools/pytorch_models.py", "PyTorch models beside PyTorch; writes docs/pytorch_models.md", ONLY, SECONDS, AGAIN,
        Option("--budget", "seconds after which the run ends", "N"),
        Option("--jobs", "models at a time", "N", "1"),
        Option("--memory", "bytes that models at a time may need together", "N"),
        Option("--rows", "file that rows are appended to and read from", "FILE"),
        interpreter="other",
    ),
    "keras": script("tools/keras_models.py", "keras.applications beside Keras; writes docs/keras_models.md", ONLY,
                    SECONDS, AGAIN, Option("--version", "version of Keras, 2 or 3", "N", "3"), interpreter="other"),
    "tensorflow": script("tools/tensorflow_models.py", "graphs beside TensorFlow; writes docs/tensorflow_models.md",
                         Option("--only", "models with this text in their names", "TEXT"), interpreter="other"),
    "torch-compile": script("tools/torch_compile.py", "models through torch.compile; writes docs/torch_compile.md",
                            ONLY, SECONDS, AGAIN, interpreter="other"),
    "legacy": script("tools/legacy_models.py", "trained networks in older formats; writes docs/legacy_models.md",
                     Option("match", 'parts of "FORMAT network"; the other rows stay', "TEXT...")),
}  # fmt: skip
ARCH = Option("--arch", "compute capability: sm_75, sm_80, sm_90", "ARCH", "sm_80")
TESTS = {
    "opencl": Command("the operator tests on OpenCL; writes docs/opencl_tests.md", tests_opencl,
                      (Option("--sample", "run N tests; the page is not written", "N"), JOBS)),
    "cuda": Command("the operator tests compiled for CUDA, and run on a GPU; writes docs/cuda_tests.md", tests_cuda,
                    (Option("--arch", "compute capability, or all", "ARCH", "sm_90"), JOBS)),
    "emulated": Command("the operator tests on the CUDA emulator; writes docs/cuda_tests.md", tests_emulated,
                        (ARCH, JOBS)),
    "cross": script(
        "tools/cross_check.py", "models for Arm, RISC-V and x86 under qemu-user; writes docs/cross_tests.md",
        Option("--sysroots", "folder of C libraries by triple", "FOLDER", "/usr"),
        Option("--models", "names of models, separated by commas", "NAMES"),
        Option("--only", "machines whose name contains this text", "TEXT"),
        Option("--ops", "run N operators instead of models", "N"),
        Option("--seed", "selects the operators (default: the day)", "N"),
    ),
    "torch": Command("the PyTorch importer in full", tests_torch, (Option("--models", "whole models too"),), "other"),
    "keras": Command("the Keras importer on live models of Keras 3 and 2", tests_keras, (), "other"),
    "ray": Command("tuning and compiling on a local Ray cluster (installs into build/ray)", tests_ray, (), ""),
    "dnnl": Command("partitions for oneDNN beside our kernels (installs into build/dnnl)", tests_dnnl, (), ""),
    "rtl": Command("random programs on the RTL of the accelerator, beside its simulators (needs Verilator)",
                   tests_rtl, (Option("--cases", "programs for each configuration", "N", "500"), SEED), ""),
    "symbolic": Command("every operator with dynamic dimensions beside its static form", tests_symbolic, (JOBS,)),
    "compile-cost": Command("an LSTM of 1000 steps compiles in time proportional to its steps",
                            tests_compile_cost, (JOBS,)),
    "aot-models": script(
        "tools/aot_models.py", "whole models compiled ahead of time beside the graph executor",
        Option("--match", "models whose path contains this text", "TEXT"), Option("--seed", "selects the inputs", "N"),
    ),
    "wheels": Command("the wheels on several Python versions", tests_wheels,
                      (Option("--pythons", "interpreters, separated by commas", "NAMES", "python3"), JOBS)),
    "bindings": Command("programs in C, C++ and Rust under ASan, UBSan and valgrind", tests_bindings),
    "platforms": Command("the C runtime for Linux, Windows and macOS: build, check, run where an emulator is here",
                         tests_platforms, (PLATFORMS,), ""),
    "c": Command("the C tests of the runtime", tests_c, (Option("--sanitize", "under ASan, UBSan and TSan"),), ""),
}  # fmt: skip
BENCH = {
    "programs": module("benchmarks.tensor_programs", "scheduled tensor programs beside the peak of the machine"),
    "compile": module("benchmarks.compile_time", "time and memory of compiling"),
    "models": module("benchmarks.models", "models beside onnxruntime, OpenVINO, PyTorch and XLA"),
    "quantization": module("benchmarks.quantization", "quantized models beside onnxruntime and float32",
                           ("--write",)),
    "vm": module("benchmarks.vm", "models with dynamic shapes on the virtual machine beside onnxruntime"),
    "bindings": module("benchmarks.bindings.run", "calls from C++ and Rust beside the same calls in C"),
    "search": module("benchmarks.auto_scheduler_ops", "operators found by search beside PyTorch (needs: peers)"),
}  # fmt: skip
SOAK = {
    "rpc": script(
        "tools/soak_rpc.py", "a pool of RPC servers and clients that are killed at random moments",
        Option("--seconds", "duration", "N", "60"), Option("--servers", "servers", "N", "32"),
        Option("--clients", "clients", "N", "8"), SEED,
    ),
}  # fmt: skip
NAMES = Option("names", "names of cases to run again; the others keep their outputs", "NAME...")
REFERENCE = {
    "tflite": script("tools/tflite_reference.py", "with ai-edge-litert: expected.npz", NAMES, interpreter="other"),
    "keras": script("tools/keras_reference.py", "with keras, tf_keras, tensorflow: cases.tar.xz", interpreter="other"),
    "tensorflow": script("tools/tensorflow_reference.py", "with TensorFlow: cases.npz", NAMES, interpreter="other"),
    "mxnet": script("tools/mxnet_reference.py", "with MXNet 1.9: cases.npz, networks.npz, fused.npz",
                    Option("part", "fused: only fused.npz", "PART"), interpreter="other"),
    "paddle": script(
        "tools/paddle_reference.py", "with PaddlePaddle 3, or 2.6 for networks",
        Option("part", "cases, pir, pir_networks or networks", "PART", "cases"),
        Option("match", "part of the names of the cases", "TEXT"), interpreter="other",
    ),
    "caffe2": script("tools/caffe2_reference.py", "with PyTorch 1.8, which has Caffe2: cases.npz", NAMES,
                     interpreter="other"),
    "cntk": script("tools/cntk_reference.py", "with CNTK 2.7: cases.npz, which xz packs", NAMES, interpreter="other"),
    "opencv": script("tools/opencv_networks.py", "with opencv-python below 5: opencv.npz of Caffe and DarkNet",
                     Option("--full", "original sizes; writes rows of docs/legacy_models.md"), interpreter="other"),
}  # fmt: skip
COMMANDS: dict[str, Command | Group] = {
    "conformance": Group("run the operators of an importer beside a reference and write docs/coverage.md", CONFORMANCE),
    "reference": Group("write the expected outputs of importer tests with the framework", REFERENCE),
    "models": Group("run whole models beside their framework", MODELS),
    "test": Group("run tests that need another device, interpreter or machine", TESTS),
    "fuzz": Group("run random programs, damaged files and random kills", FUZZ),
    "soak": Group("run a system for a long time under random failures", SOAK),
    "bench": Group("measure times", BENCH),
    "performance": script("tools/performance.py", "write docs/performance.md and its charts from benchmarks/results",
                          Option("--check", "write nothing; fail if a file would change"), interpreter="run"),
    "everywhere": script(
        "tools/everywhere.py", "run a sample of the tests as on other machines; writes docs/everywhere.md",
        Option("--only", "rows whose name contains these words", "TEXT"), SEED,
        Option("--sample", "tests of a row", "N", "300"), Option("--list", "print the rows and run nothing"),
    ),
    "replay": script(
        "tools/replay.py", "compare the generated code of a fixed corpus with that of a commit",
        Option("commit", "commit to compare with", "COMMIT", "HEAD"), Option("--only", "cases with this text", "TEXT"),
        JOBS, interpreter="run",
    ),
    "bisect": script("tools/bisect_pass.py", "name the graph pass that changes the result of a random graph",
                     Option("seed", "the number that the failing test printed", "SEED")),
    "first-hour": script("tools/first_hour.py", "run the commands of docs/first_ten_minutes.md in a new environment",
                         Option("--here", "in this environment, without the installation"),
                         Option("--write", "write the output into the page"), interpreter=""),
    "compile": script("tools/compile_models.py", "compile every model of a folder with tvmc compile",
                      Option("folder", "the folder", "FOLDER"), Option("patterns", "parts of the names", "TEXT..."),
                      Option("--seconds", "time limit of one model", "N", "300"), interpreter="run"),
    "names": script("tools/public_names.py", "list the public names of the package",
                    Option("--missing", "list what their docstrings lack"), interpreter="run"),
    "hooks": script("tools/hooks.py", "write the table of hooks of docs/map.md",
                    Option("--check", "write nothing; fail if the table differs"), interpreter=""),
    "micro": script("tools/micro_boards.py", "run models on emulated boards; writes docs/micro.md",
                    Option("--only", "models whose name contains this text", "TEXT"),
                    Option("--models", "folder of the models", "FOLDER"),
                    Option("--peer", "interpreter with the package tflite-micro", "PYTHON")),
    "pictures": script("tools/pictures.py", "draw the import graph and the charts of docs/", interpreter="run"),
    "size": script("tools/size.py", "count the lines of each part", interpreter=""),
    "words": script("tools/words.py", "check that documents, docstrings, comments and errors are in plain words",
                    Option("paths", "check only these files and folders", "PATH..."), interpreter=""),
    "peers": Command("make build/peers, a Python with PyTorch for benchmarks", peers, (), ""),
}  # fmt: skip
