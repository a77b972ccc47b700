"""Sessions with programs that serve a library of functions."""

from __future__ import annotations

import shutil
import struct

import numpy as np
import pytest

import tvm
from tests.micro.conftest import Model
from tvm import micro, relay
from tvm.contrib.debugger import debug_executor
from tvm.micro import board as boards
from tvm.micro.project_api.client import RPCError
from tvm.micro.session import SessionTerminatedError, lookup_remote_linked_param
from tvm.relay.backend import Executor, Runtime
from tvm.runtime.executor import AotModule

HOST = micro.get_microtvm_template_projects("crt")
RUNTIME = Runtime("crt", {"system-lib": True})
MAIN = "tvmgen_default___tvm_main__"


def library_of(model: Model, executor: Executor | None = None, target: str = "c"):
    return relay.build(model.module, target, runtime=RUNTIME, executor=executor)


@pytest.fixture(scope="module")
def graph(model):
    return library_of(model)


def project_of(library, folder, platform: str = "crt", **options):
    made = micro.generate_project(micro.get_microtvm_template_projects(platform), library, folder, options)
    made.options = {"warning_as_error": True}
    made.build()
    made.flash()
    return made


@pytest.fixture(scope="module")
def project(graph, tmp_path_factory):
    with project_of(graph, tmp_path_factory.mktemp("project") / "p", workspace_size_bytes=4096) as made:
        yield made


@pytest.fixture(scope="module")
def session(project):
    with micro.Session(project.transport()) as opened:
        yield opened


def check(runner, model: Model) -> None:
    np.testing.assert_array_equal(runner.get_output(0).numpy(), model.outputs[0])
    np.testing.assert_allclose(runner.get_output(1).numpy(), model.outputs[1], rtol=1e-5)


def test_a_graph(graph, session, model):
    runner = micro.create_local_graph_executor(graph.get_graph_json(), session.get_system_lib(), session.device)
    runner.set_input(**graph.get_params())
    runner.run(**model.inputs)
    check(runner, model)
    assert runner.get_num_outputs() == 2 and runner.get_input_index("nothing") == -1
    assert dict(runner.get_input_info()[1])["x"] == "int8"
    times = runner.benchmark(session.device, repeat=3, number=2).results
    assert len(times) == 3 and min(times) >= 0
    copy = runner.get_output(0, tvm.nd.empty((3, 5), "int32"))
    np.testing.assert_array_equal(copy.numpy(), model.outputs[0])
    runner.load_params(relay.save_param_dict(graph.get_params()))
    with pytest.raises(ValueError, match=r"input 'x' has shape \(3, 7\), got \(7, 3\)"):
        runner.set_input("x", model.inputs["x"].T)
    with pytest.raises(tvm.TVMError, match="a board cannot use arrays of this machine without a copy"):
        runner.set_input_zero_copy("x", tvm.nd.array(model.inputs["x"]))
    with pytest.raises(tvm.TVMError, match="output index 2 is out of range; the model has 2 outputs"):
        runner.get_output(2)


def test_the_debug_executor(graph, session, model, tmp_path):
    runner = micro.create_local_debug_executor(
        graph.get_graph_json(), session.get_system_lib(), session.device, str(tmp_path))  # fmt: skip
    assert isinstance(runner, debug_executor.GraphModuleDebug)
    runner.set_input(**graph.get_params(), **model.inputs)
    runner.run(number=2)
    check(runner, model)
    assert len(runner.debug_datum.get_output_tensors()) == len(runner._names)
    assert sum(runner.run_individual(2, 2)) >= 0


AOT = {"packed": Executor("aot"), "unpacked": Executor("aot", {"unpacked-api": True}),
       "c": Executor("aot", {"interface-api": "c", "unpacked-api": True})}  # fmt: skip


@pytest.mark.parametrize(("kind", "target"), [("packed", "c"), ("unpacked", "c"), ("c", "c"), ("packed", "llvm")])
def test_a_model_compiled_ahead_of_time(kind, target, model, tmp_path):
    with project_of(library_of(model, AOT[kind], target), tmp_path / "p") as made:
        with micro.Session(made.transport()) as session:
            runner = AotModule(session.create_aot_executor())
            runner.get_input("x").copyfrom(model.inputs["x"])
            runner.set_input("in:put", tvm.nd.array(model.inputs["in:put"]))
            runner.run()
            check(runner, model)
            times = runner.module.time_evaluator("run", session.device, number=2, repeat=2)()
            assert len(times.results) == 2
            with pytest.raises(tvm.TVMError, match="executors on a board measure the function run, got 'walk'"):
                runner.module.time_evaluator("walk", session.device)
            with pytest.raises(AttributeError, match="executors on a board have no function 'walk'"):
                runner.module["walk"]


EMULATED = [("qemu_cortex_m", "mps2-an386", "arm-none-eabi-gcc", "qemu-system-arm"),
            ("qemu_riscv", "rv64", "riscv64-unknown-elf-gcc", "qemu-system-riscv64")]  # fmt: skip


@pytest.mark.parametrize(("platform", "board", "compiler", "emulator"), EMULATED)
def test_sessions_with_emulated_boards(platform, board, compiler, emulator, graph, model, tmp_path):
    missing = [tool for tool in (compiler, emulator) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    with project_of(graph, tmp_path / "p", platform, board=board) as made:
        with micro.Session(made.transport()) as session:
            runner = micro.create_local_graph_executor(graph.get_graph_json(), session.get_system_lib(), session.device)
            runner.run(**graph.get_params(), **model.inputs)
            check(runner, model)
            assert runner.benchmark(session.device, number=20, repeat=1).mean > 0


def test_single_functions(graph, session):
    library = session.get_system_lib()
    name = next(name for name in session.board.functions if "dense" in name)
    function = session.board.functions[name]
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, about.shape).astype(about.dtype) for about in function.arguments]
    expected = values[0].astype("int32") @ values[1].astype("int32").T
    outputs = [i for i, about in enumerate(function.arguments) if about.is_output]
    library[name](*values)
    assert any(np.array_equal(values[i], expected) for i in outputs)
    on_board = [session.board.empty(a.shape, a.dtype) for a in function.arguments]
    for array, value in zip(on_board, values):
        array.copyfrom(value)
    library.get_function(name)(*on_board)
    assert np.array_equal(on_board[outputs[0]].copyto(tvm.cpu()).numpy(), values[outputs[0]])
    assert library.time_evaluator(name, session.device, number=3)(*on_board).mean >= 0
    assert library.implements_function(name) and not library.implements_function("other")
    with pytest.raises(tvm.TVMError, match=f"{name}: expected {len(values)} arguments, got 1"):
        library[name](values[0])
    with pytest.raises(tvm.TVMError, match=f"{name}: argument .* has shape .*, got"):
        library[name](*[value[None] for value in values])
    with pytest.raises(AttributeError, match="the board has no function 'other'; its functions are tvmgen_default"):
        library["other"]


def test_memory(session):
    board = session.board
    first = board.empty((3, 5), "float32")
    with pytest.raises(
        tvm.TVMError,
        match="the memory of the board is too small: 4096 bytes are needed, the largest "
        "free part of its 4096 bytes has 4032; set the option workspace_size_bytes",
    ):
        board.empty((4096,), "int8")
    second = board.empty((0, 4), "int8").copyfrom(np.zeros((0, 4)))
    assert second.numpy().shape == (0, 4)
    del first
    assert board.empty((4000,), "int8").offset == 80 and second.offset == 64
    with pytest.raises(tvm.TVMError, match="the board returned an error: a request is outside the memory"):
        board.read(4000, 97)
    with pytest.raises(tvm.TVMError, match="outside the memory"):
        board.write(1 << 31, b"xy")
    function = next(iter(board.functions.values()))
    with pytest.raises(tvm.TVMError, match="outside the memory"):
        board.call(function, [4095] * len(function.arguments))
    with pytest.raises(tvm.TVMError, match="expected .* arguments, got 1"):
        board.call(function, [0])
    with pytest.raises(tvm.TVMError, match="the program does not support the request"):
        board.call(function._replace(number=99), [0] * len(function.arguments))
    with pytest.raises(tvm.TVMError, match="the program does not support the request"):
        board._request(17, 0, 0)
    assert board.read(0, 1)
    with pytest.raises(ValueError, match=r"an array of shape \(2,\) cannot be set from an array of shape \(3,\)"):
        board.empty((2,), "int8").copyfrom(np.zeros(3))


def test_the_allocator(seed):
    rng = np.random.default_rng(seed)
    memory, used = boards._Memory(1024), {}
    for _ in range(400):
        if used and rng.random() < 0.5:
            start = int(rng.choice(list(used)))
            memory.release(start, used.pop(start))
            continue
        size = int(rng.integers(0, 200))
        start = memory.allocate(size)
        if start is None:
            assert memory.largest < size
            continue
        assert start % 16 == 0 and start + max(size, 1) <= 1024
        assert all(start + max(size, 1) <= at or at + max(n, 1) <= start for at, n in used.items())
        used[start] = size
    for start, size in used.items():
        memory.release(start, size)
    assert memory._free == [(0, 1024)]


def test_sessions_that_are_not_open(project, graph):
    with pytest.raises(ValueError, match="the transport is missing"):
        micro.Session()
    session = micro.Session(project.transport())
    with pytest.raises(SessionTerminatedError, match="the session micro-rpc is not open; use it in a with statement"):
        session.get_system_lib()


def test_graphs_that_do_not_fit(graph, session, model):
    library = session.get_system_lib()
    with pytest.raises(tvm.TVMError, match="the text is not a graph"):
        micro.create_local_graph_executor("{}", library, session.device)
    other = graph.get_graph_json().replace("tvmgen_default_fused", "tvmgen_other_fused")
    with pytest.raises(AttributeError, match="the board has no function 'tvmgen_other_fused"):
        micro.create_local_graph_executor(other, library, session.device)
    other = graph.get_graph_json().replace('"int8"', '"uint8"')
    with pytest.raises(tvm.TVMError, match="the arguments of the function .* on the board do not fit the graph"):
        micro.create_local_graph_executor(other, library, session.device)
    with pytest.raises(tvm.TVMError, match="the library must be that of a session"):
        micro.create_local_graph_executor(graph.get_graph_json(), graph.get_lib(), session.device)
    with pytest.raises(tvm.TVMError, match="the board has 0 models that were compiled ahead of time"):
        session.create_aot_executor()
    assert lookup_remote_linked_param(library, 0, None, session.device) is None


def test_a_program_that_runs_one_model(factory, tmp_path):
    with project_of(factory, tmp_path / "p") as made:
        with pytest.raises(tvm.TVMError, match="the program runs one model and does not serve a library"):
            with micro.Session(made.transport()):
                pass


def test_a_program_that_ends(graph, tmp_path):
    with micro.generate_project(HOST, graph, tmp_path / "p") as made:
        entry = tmp_path / "p" / "src" / "model_entry.c"
        entry.write_text(entry.read_text().replace("TVMCrtServeLibrary(", "TVMPlatformAbort(7); TVMCrtServeLibrary("))
        made.build()
        with pytest.raises(
            SessionTerminatedError, match="the session with the board ended: the program ended with status 7"
        ):
            with micro.Session(made.transport()):
                pass


def damaged(texts: list[bytes]) -> bytes:
    return struct.pack("<I", 64) + b"".join(struct.pack("<I", len(text)) + text for text in texts)


@pytest.mark.parametrize("data", [
    b"", damaged([b"f"]), damaged([b"f", b"{"]), damaged([b"f", b"[1]"]), damaged([b"f", b"[]"]) + b"\xff\xff\xff\xff",
    damaged([b"\xff", b"[]"]), damaged([b"f", b"[" * 100000]),
])  # fmt: skip
def test_damaged_descriptions(data):
    with pytest.raises(tvm.TVMError, match="the description of the board's functions is damaged"):
        boards._described(data)


def test_a_session_from_an_archive(graph, model, tmp_path):
    archive = micro.export_model_library_format(graph, tmp_path / "model.tar").read_bytes()
    with micro.compile_and_create_micro_session(archive, HOST, {"warning_as_error": True}, tmp_path / "p") as session:
        assert session.board.functions
    for arguments in ({"project_dir": tmp_path / "p", "use_existing": True}, {}):
        with micro.compile_and_create_micro_session(archive, HOST, **arguments) as session:
            runner = micro.create_local_graph_executor(graph.get_graph_json(), session.get_system_lib(), session.device)
            runner.run(**graph.get_params(), **model.inputs)
            check(runner, model)
    with pytest.raises(ValueError, match="use_existing requires project_dir"):
        micro.compile_and_create_micro_session(archive, HOST, use_existing=True)
    with pytest.raises(RPCError, match="is not a tar archive"):
        micro.compile_and_create_micro_session(b"no", HOST)


def test_create_local_aot_executor(model, tmp_path):
    archive = micro.export_model_library_format(library_of(model, Executor("aot")), tmp_path / "m.tar").read_bytes()
    with micro.compile_and_create_micro_session(archive, HOST) as session:
        runner = micro.create_local_aot_executor(session)
        runner.run(**model.inputs)
        check(runner, model)


def test_the_code_without_a_table(model, graph):
    source = relay.build(model.module, "c", runtime=Runtime("crt")).get_lib().get_source()
    assert "tvm_crt_functions" not in source and "tvm_crt_functions" in graph.get_lib().get_source()
    with pytest.raises(tvm.TVMError, match=r"cannot run here; compile it with runtime cpp"):
        graph["default"](tvm.cpu())
    with pytest.raises(tvm.TVMError, match="executor graph with runtime crt requires target c"):
        relay.build(model.module, "llvm", runtime=RUNTIME)


def test_workspace_pools_and_tables_exclude_each_other(model):
    from tvm.ir.memory_pools import WorkspaceMemoryPools, WorkspacePoolInfo

    pools = WorkspaceMemoryPools([WorkspacePoolInfo("ram", [tvm.target.Target("c")])])
    with pytest.raises(tvm.TVMError, match="system-lib of the runtime and workspace memory pools exclude each other"):
        relay.build(model.module, "c", runtime=RUNTIME, executor=AOT["c"], workspace_memory_pools=pools)


def test_a_project_without_a_table(model, tmp_path):
    library = relay.build(model.module, "c", runtime=Runtime("crt"))
    with pytest.raises(RPCError, match="or with --runtime crt --runtime-crt-system-lib 1"):
        micro.generate_project(HOST, library, tmp_path / "p")
