"""``tvmc run``: runs a package on this machine, or on a device of an RPC tracker or server."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...error import TVMError, did_you_mean
from ...runtime import module as runtime_module
from ...runtime.devices import device as make_device
from ...runtime.params import load_param_dict, param_names
from . import vm_package
from .arguments import add_command, add_verbose, register_parser
from .dynamic_dims import Dims, check_fits, is_open, settled
from .errors import TVMCException
from .files import check_writable
from .image import add_image_arguments, image_size, is_image, load_image, photo_of, preparation
from .machine import check_machine
from .model import TVMCPackage, TVMCResult
from .result_utils import get_top_results
from .shape_parser import parse_shape_string
from .tracker import tracker_host_port_from_cli

logger = logging.getLogger("TVMC")
FILL_MODES = ("zeros", "ones", "random")


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got '{text}'")
    return int(text)


@register_parser
def add_run_parser(subparsers, main_parser, json_params) -> None:
    """Add the subcommand ``run``."""
    parser = add_command(subparsers, "run", usage="tvmc run [options] PATH")
    parser.set_defaults(func=drive_run)
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda", "cl", "metal", "vulkan", "rocm", "micro"],
        default="cpu",
        help="the device to run on",
    )
    parser.add_argument("--fill-mode", choices=FILL_MODES, default="random", help="values of inputs that are not given")
    parser.add_argument("-i", "--inputs", help="inputs: an .npz file, or a photo (.png, .jpg) for an image model")
    parser.add_argument(
        "--input-shapes",
        type=parse_shape_string,
        default=None,
        metavar="INPUT_SHAPES",
        help='shapes of generated inputs with dynamic dimensions: "name:[dim1,dim2,...]"',
    )
    parser.add_argument("-o", "--outputs", help="the .npz file to write outputs to")
    parser.add_argument("--print-time", action="store_true", help="measure and print the time of a run")
    parser.add_argument("--print-top", metavar="N", type=positive, help="print the N largest values of output_0")
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="names of classes (a JSON list or object, or one name a line), printed with the largest values",
    )
    parser.add_argument("--profile", action="store_true", help="print the time of every operator; draw it in ./prof")
    add_verbose(parser)
    parser.add_argument("--end-to-end", action="store_true", help="include copies of inputs and outputs in the time")
    parser.add_argument("--repeat", metavar="N", type=positive, default=1, help="how often to measure (default: 1)")
    parser.add_argument("--number", metavar="N", type=positive, default=1, help="runs in one measurement (default: 1)")
    parser.add_argument("--rpc-key", help="key of the device at the RPC tracker")
    parser.add_argument("--rpc-tracker", help="host:port of an RPC tracker")
    parser.add_argument(
        "--list-options", action="store_true", help="with --device micro: list the options of the project"
    )
    parser.add_argument(
        "--project-option", nargs="+", metavar="NAME=VALUE", help="with --device micro: options of the project"
    )
    add_image_arguments(parser.add_argument_group("photos"))
    parser.add_argument("PATH", help="the package made by tvmc compile; with --device micro the folder of a project")


def drive_run(args) -> None:
    """Run a package with these arguments."""
    if args.rpc_key and not args.rpc_tracker:
        raise TVMCException("--rpc-key requires the address of a tracker (--rpc-tracker)")
    if args.device == "micro":
        run_on_board(args)
        return
    if args.list_options or args.project_option:
        raise TVMCException("--list-options and --project-option require --device micro")
    timing = {"--repeat": args.repeat > 1, "--number": args.number > 1, "--end-to-end": args.end_to_end}
    if any(timing.values()) and not args.print_time:
        given = ", ".join(name for name, is_given in timing.items() if is_given)
        print(f"{given} has no effect without --print-time", file=sys.stderr)
    if args.outputs:
        check_writable(args.outputs)
    package = TVMCPackage(package_path=args.PATH)
    names = read_labels(args.labels) if args.labels else None
    inputs = read_inputs(args, package)
    host, port = tracker_host_port_from_cli(args.rpc_tracker)
    logger.debug("package %s of type %s on %s", args.PATH, package.type, args.device)
    result = run_module(
        package,
        args.device,
        host,
        port,
        args.rpc_key,
        inputs,
        args.fill_mode,
        args.print_time,
        repeat=args.repeat,
        number=args.number,
        profile=args.profile,
        end_to_end=args.end_to_end,
        input_shapes=args.input_shapes,
    )
    show_result(args, result, names)
    # Only results are written to standard output.
    sys.stderr.write("".join(f"{note}\n" for note in input_notes(args, package, inputs)))


def run_on_board(args) -> None:
    """Run the model of a microcontroller project (``tvmc run --device micro``)."""
    from .micro import list_options, run_project_with

    if args.list_options:
        list_options(args.PATH)
        return
    names = read_labels(args.labels) if args.labels else None
    if args.outputs:
        check_writable(args.outputs)
    given = read_npz(args.inputs) if args.inputs else None
    show_result(args, run_project_with(args, given), names)


def show_result(args, result: TVMCResult, names: list[str] | None) -> None:
    """Print the times and the largest output values and write the outputs to a file, as the options request."""
    if args.print_time:
        print(result.format_times())
        if args.repeat > 1:
            print(percentiles(result.times))
    top = args.print_top or (5 if args.labels else None)
    if top:
        results = get_top_results(result, top)
        if names is not None:
            for place, value in zip(*results):
                name = names[int(place)] if int(place) < len(names) else "?"
                print(f"{value:9.4f}  {int(place):5d}  {name}")
        else:
            print(results)
    if args.outputs:
        result.save(args.outputs)


def input_notes(args, package: TVMCPackage, given: Mapping | None) -> list[str]:
    """Describe how a photo was converted and which inputs were generated, because then the outputs have no meaning."""
    rows, dtypes = package_inputs(package)
    shapes = all_shapes(rows, given, args.input_shapes)
    if args.inputs and is_image(args.inputs):
        name, how = photo_of(args, shapes, dtypes)
        prepared = preparation(image_size(args.inputs), shapes[name], dtypes[name], *how)
        notes = [f"input '{name}': {args.inputs}, {prepared}"]
    else:
        notes = []
    values = {"random": "random values", "ones": "ones", "zeros": "zeros"}[args.fill_mode]
    return notes + [
        f"input '{name}': {values}, {'x'.join(map(str, shape)) or 'scalar'} {dtypes[name]} "
        "(use --inputs FILE for real data)"
        for name, shape in shapes.items()
        if name not in (given or ())
    ]


def percentiles(times) -> str:
    """Describe the distribution of repeated measurements in one line."""
    shown = ", ".join(f"p{percent} {times.percentile(percent) * 1e3:.4f}" for percent in (5, 25, 50, 75, 90, 95, 99))
    return f"Percentiles of {len(times.results)} repeats (ms): {shown}"


def read_inputs(args, package: TVMCPackage):
    """Read the arrays of --inputs."""
    if not args.inputs:
        return None
    rows, dtypes = package_inputs(package)
    if is_image(args.inputs):
        shapes = all_shapes(rows, None, args.input_shapes)
        name, how = photo_of(args, shapes, dtypes)
        return {name: load_image(args.inputs, shapes[name], dtypes[name], *how)}
    return read_npz(args.inputs)


def read_npz(path: str) -> dict[str, Any]:
    """Read the arrays of an .npz file. Python objects are rejected, because reading them could execute code."""
    import numpy as np

    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise TVMCException(f"{path} contains an array without a name; save it with numpy.savez(path, name=array)")
        with archive:
            arrays = {name: archive[name] for name in archive.files}
    except OSError as problem:
        raise TVMCException(f"cannot read {path}: {problem.strerror or problem}") from problem
    except (ValueError, EOFError, LookupError, NotImplementedError, zipfile.BadZipFile, zlib.error) as problem:
        reason = "it contains Python objects, or is not an .npz file" if "pickle" in str(problem) else str(problem)
        raise TVMCException(f"cannot read {path} as an .npz file: {reason}") from problem
    others = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if others:
        raise TVMCException(f"cannot read {path} as an .npz file: '{others[0]}' in it is not an array")
    return arrays


def read_labels(path: str) -> list[str]:
    """Read class names from a JSON list, a JSON object by number, or lines; a synset id before the name is dropped."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except (OSError, ValueError) as problem:
        raise TVMCException(f"cannot read the labels {path}: {problem}") from problem
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return [
            line.split(" ", 1)[1] if line[:1] == "n" and line[1:9].isdigit() and " " in line else line for line in lines
        ]
    if isinstance(data, list):
        return [str(x) for x in data]
    if isinstance(data, dict) and all(k.isdecimal() for k in data):
        return [_label(path, k, data[k]) for k in sorted(data, key=int)]
    raise TVMCException(f"the labels {path} are neither a list nor an object with numbers as keys")


def _label(path: str, key: str, value) -> str:
    """Return the name of a class; in a list, a synset id precedes the name."""
    if value == []:
        raise TVMCException(f"the labels {path} do not name class {key}")
    return str(value[-1]) if isinstance(value, list) else str(value)


def get_input_info(graph_str: str, params: bytes) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Return shapes and types of the inputs that are not parameters."""
    try:
        known = load_param_dict(params)
    except TVMError as problem:
        raise TVMCException(f"the package is damaged: {problem}") from problem
    return _input_info(graph_str, known)


def package_inputs(package: TVMCPackage) -> tuple[dict[str, Dims], dict[str, str]]:
    """Return dimensions and types of the inputs of a package that are not parameters."""
    if package.is_vm:
        return vm_package.inputs_of(package)
    try:
        known = param_names(package.params_path)
    except TVMError as problem:
        raise TVMCException(f"the package is damaged: {problem}") from problem
    return _input_info(package.graph, known)


def _input_info(graph_str: str, params: Iterable[str]) -> tuple[dict[str, list[int]], dict[str, str]]:
    try:
        graph = json.loads(graph_str)
        known = set(params)
        shapes: dict[str, list[int]] = {}
        dtypes: dict[str, str] = {}
        rows = graph["node_row_ptr"]
        for node_id in graph["arg_nodes"]:
            name = graph["nodes"][node_id]["name"]
            if name in shapes:
                raise TVMCException(f"the package is damaged: two of its inputs are named '{name}'")
            if name not in known:
                shapes[name] = list(graph["attrs"]["shape"][1][rows[node_id]])
                dtypes[name] = graph["attrs"]["dltype"][1][rows[node_id]]
        return shapes, dtypes
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise TVMCException(f"the package is damaged: {problem}") from problem


def generate_tensor_data(shape, dtype: str, fill_mode: str):
    """Generate data for an input."""
    import numpy as np

    try:
        np.dtype(dtype)
    except TypeError:
        raise TVMCException(f"the package is damaged: an input of type '{dtype}'") from None
    if fill_mode not in FILL_MODES:
        raise TVMCException(f"unknown fill-mode: {fill_mode}")
    try:
        if fill_mode == "zeros":
            return np.zeros(shape=shape, dtype=dtype)
        if fill_mode == "ones":
            return np.ones(shape=shape, dtype=dtype)
        if "int8" in dtype:
            return np.random.randint(128, size=shape).astype(dtype)
        return np.random.uniform(-1, 1, size=shape).astype(dtype)
    except (ValueError, MemoryError) as problem:
        raise TVMCException(f"cannot create an input of shape {list(shape)}: {problem}") from problem


def all_shapes(rows: Mapping[str, Dims], inputs: Mapping | None, shapes: Mapping | None) -> dict[str, list[int]]:
    """Return the shapes of all inputs: from given inputs, ``shapes``, and dimensions that follow from both."""
    for name, shape in (shapes or {}).items():
        if name not in rows:
            raise TVMCException(
                f"--input-shapes: the input tensor '{name}' is not in the graph. Expected inputs: "
                f"{list(rows)}" + did_you_mean(name, rows, "; ")
            )
        if is_open(shape):
            raise TVMCException(f"--input-shapes: the dimensions of '{name}' must be positive")
    given = {name: list(array.shape) for name, array in (inputs or {}).items() if name in rows}
    return settled(rows, {**(shapes or {}), **given}, how="use --inputs FILE, or give sizes")[0]


def make_inputs_dict(
    shape_dict: Mapping, dtype_dict: Mapping, inputs=None, fill_mode: str = "random", shapes: Mapping | None = None
) -> dict[str, Any]:
    """Return the given inputs, and generated arrays for the others. Dynamic dimensions have the sizes of the given
    inputs and of ``shapes``."""
    given = {k: inputs[k] for k in inputs.keys()} if inputs is not None else {}
    for name in given:
        if name not in shape_dict:
            raise TVMCException(
                f"the input tensor '{name}' is not in the graph. Expected inputs: {list(shape_dict)}"
                + did_you_mean(name, shape_dict, "; ")
            )
    for name, array in given.items():
        check_fits(name, array.shape, shape_dict[name])
        if array.dtype.kind not in "fiub":
            raise TVMCException(
                f"input '{name}' has element type {array.dtype}, but the model expects {dtype_dict[name]}"
            )
    sizes = all_shapes(shape_dict, given, shapes)
    return {n: given[n] if n in given else generate_tensor_data(sizes[n], dtype_dict[n], fill_mode) for n in shape_dict}


def run_module(
    tvmc_package: TVMCPackage,
    device: str,
    hostname: str | None = None,
    port=9090,
    rpc_key: str | None = None,
    inputs=None,
    fill_mode: str = "random",
    benchmark: bool = False,
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    options: dict | None = None,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> TVMCResult:
    """Run a package and return its outputs.

    Parameters
    ----------
    tvmc_package : TVMCPackage
        The compiled model.
    device : str
        "cpu", "cuda", "opencl" ...
    hostname : str, optional
        The address of an RPC tracker or server, for remote devices.
    port : int, optional
        The port of the tracker or server.
    rpc_key : str, optional
        The key of the device at the tracker.
    inputs : dict of str to array, optional
        The inputs by name; missing inputs are generated.
    fill_mode : str, optional
        The values of generated inputs: "random", "zeros", "ones".
    benchmark : bool, optional
        Whether to measure run times.
    repeat : int, optional
        The number of measurements.
    number : int, optional
        The number of runs that are averaged in one measurement.
    profile : bool, optional
        Whether to print the time of each kernel.
    end_to_end : bool, optional
        Whether to include copies of inputs and outputs in the time.
    options : dict, optional
        Options of a project for microcontrollers, which are not supported.
    input_shapes : dict of str to list of int, optional
        The shapes of generated inputs with dynamic dimensions.

    Returns
    -------
    TVMCResult
        The outputs by name, and run times if requested.

    Raises
    ------
    TVMCException
        The device or an input is invalid.
    """
    if not isinstance(tvmc_package, TVMCPackage):
        raise TVMCException(
            "This model doesn't seem to have been compiled yet. Try calling tvmc.compile on the model before "
            "running it."
        )
    if tvmc_package.type == "mlf":
        raise TVMCException(
            f"{tvmc_package.package_path} is in Model Library Format, which projects for microcontrollers use (tvmc "
            "micro create, tvmc run --device micro PROJECT); compile with -f so to run the model on this machine"
        )
    if rpc_key and not hostname:
        raise TVMCException("run: rpc_key requires the address of a tracker (hostname)")
    if not hostname:
        check_machine(tvmc_package.manifest.get("machine"))

    def make_data() -> dict[str, Any]:
        return make_inputs_dict(*package_inputs(tvmc_package), inputs, fill_mode, input_shapes)

    try:
        with _session(hostname, port, rpc_key) as session:
            dev = make_device(device, 0) if session is None else session.device(device, 0)
            dev.sync()  # raises an error with the reason if the device is not available
            run = _run_machine if tvmc_package.is_vm else _run_graph
            return run(tvmc_package, session, dev, make_data, benchmark, repeat, number, profile, end_to_end)
    except TVMCException:
        raise
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem


_SESSION_SECONDS = 1000


def _session(hostname: str | None, port: int, rpc_key: str | None):
    """Open a session with a device of a tracker, or without a key with the server at the address; None without
    address."""
    if not hostname:
        return contextlib.nullcontext()
    from ... import rpc

    if rpc_key:
        return rpc.connect_tracker(hostname, port).request(rpc_key, session_timeout=_SESSION_SECONDS)
    return rpc.connect(hostname, port)


def _files(package: TVMCPackage, session) -> tuple[Any, str]:
    """Return the library of a package, loaded where it runs, and the path of the parameters there."""
    if session is None:
        return runtime_module.load_module(package.lib_path), package.params_path
    session.upload(package.params_path)
    return _uploaded(session, package.lib_path), os.path.basename(package.params_path)


def _uploaded(session, path: str) -> Any:
    """Upload a library and load it on the remote machine."""
    session.upload(path)
    return session.load_module(os.path.basename(path))


def _run_machine(package, session, dev, make_data, benchmark, repeat, number, profile, end_to_end) -> TVMCResult:
    lib = package.executable.mod if session is None else _uploaded(session, package.lib_path)
    runner = vm_package.Runner(lib, dev, profiled=profile)
    runner.set_inputs(make_data(), vm_package.inputs_of(package)[1])
    if profile:
        print(runner.machine.profile())
    outputs = runner.outputs()
    times = runner.benchmark(repeat, number, end_to_end) if benchmark else []
    return TVMCResult(outputs, times)


def _run_graph(package, session, dev, make_data, benchmark, repeat, number, profile, end_to_end) -> TVMCResult:
    from ...contrib import graph_executor

    lib, params = _files(package, session)
    executor = graph_executor.create(package.graph, lib, dev)
    data = make_data()
    executor.load_params_from_file(params)
    executor.set_input(**data)
    times: Any = []
    if profile:
        from ...contrib.debugger import debug_executor

        try:
            shown = debug_executor.GraphModuleDebug(executor.module, dev, package.graph, "./prof", keep=executor)
            print(shown.profile())
            shown.run(number=None)
        except OSError as problem:
            raise TVMCException(f"cannot write the profile into ./prof: {problem.strerror or problem}") from problem
    if benchmark:
        executor.run()
        times = executor.benchmark(
            dev, number=number, repeat=repeat, end_to_end=end_to_end, **(data if end_to_end else {})
        )
    else:
        executor.run()
    outputs = {f"output_{i}": executor.get_output(i).numpy() for i in range(executor.get_num_outputs())}
    return TVMCResult(outputs, times)
