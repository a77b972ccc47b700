"""``tvmc compile``: compiles a model file to a package."""

from __future__ import annotations

import argparse
import logging
import os
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...error import TVMError
from ...ir.instrument import PassPrintingInstrument, PassTimingInstrument
from ...ir.transform import PassContext
from ...relay.backend import writers
from ...target.backend import compiled_cpu
from ...utils.progress import Progress
from . import bundle, composite_target, frontends, vm_package
from .arguments import add_command, add_verbose, apply_defaults, register_parser
from .dynamic_dims import is_open, shown
from .errors import TVMCException
from .farm import add_farm, compile_many, farm_of
from .files import check_records, check_writable, write_whole
from .info import compiled_for, kernels_of
from .machine import check_linker, machine
from .model import TVMCModel, TVMCPackage, check_mlf
from .model_files import ModelFiles, models_of
from .parser import detail_group
from .partition_report import print_partitions, write_page_of_partitions
from .pass_config import parse_configs
from .pass_list import parse_pass_list_str, parse_printed_passes
from .quantizer import check_quantization_args, generate_quantization_args, quantize_from_cli
from .registry import VM, generate_registry_args, reconstruct_registry_entity
from .shape_parser import parse_model_shapes
from .target import check_code, default_architecture, generate_target_args, reconstruct_target_args, target_from_cli
from .terminal import note, size
from .transform import (
    apply_graph_transforms,
    check_transform_args,
    generate_transform_args,
    parse_graph_transform_args,
)
from .workspace_pools import generate_workspace_pools_args, workspace_pools_recombobulate

if TYPE_CHECKING:
    from ...target import Target
    from ...tuning.apply_records import Applied

logger = logging.getLogger("TVMC")


@register_parser
def add_compile_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``compile``."""
    parser = add_command(subparsers, "compile", usage="tvmc compile [options] FILE...")
    parser.set_defaults(func=drive_compile)
    parser.add_argument("--cross-compiler", default="", help="C compiler that links the library when cross-compiling")
    parser.add_argument("--cross-compiler-options", default="", help="options of that compiler, in one string")
    generate_transform_args(parser)
    generate_quantization_args(parser)
    _add_dump_options(parser)
    frontends.add_model_format(parser)
    _add_output_options(parser)
    parser.add_argument(
        "--pass-config", action="append", metavar="name=value", help="an option of a pass; can be given several times"
    )
    generate_target_args(parser)
    generate_registry_args(parser, "executor")
    generate_registry_args(parser, "runtime", "cpp")
    generate_workspace_pools_args(parser)
    parser.add_argument("--tuning-records", metavar="PATH", default="", help="tuning records to compile with")
    add_verbose(parser)
    add_farm(parser)
    parser.add_argument(
        "FILE", nargs="+", help="the model, or its network and its weights; with --farm several, and -o is a folder"
    )
    parser.add_argument(
        "-O",
        "--opt-level",
        default=3,
        type=int,
        choices=range(4),
        metavar="[0-3]",
        help="optimization level (default: 3)",
    )
    parser.add_argument(
        "--input-shapes",
        type=parse_model_shapes,
        default=None,
        metavar="INPUT_SHAPES",
        help='shapes of inputs (default: those of the model, with dynamic dimensions): "input_name:'
        '[dim1,dim2,...] other:[...]"',
    )
    parser.add_argument(
        "--states",
        choices=frontends.STATES,
        default="first",
        help="state that a model keeps between runs: reset by each run (default), or inputs and outputs",
    )
    parser.add_argument("--disabled-pass", type=parse_pass_list_str, default="", help="passes to disable, with commas")
    parser.add_argument("--module-name", default="default", help="name of the module, a prefix of its functions")
    _add_measure_option(parser)
    _add_print_options(parser)
    apply_defaults(parser, json_params)


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the file to write."""
    parser.add_argument("-o", "--output", default="module.tar", help="the package to write (default: module.tar)")
    parser.add_argument(
        "-f",
        "--output-format",
        choices=["so", "mlf", "bundle"],
        default="so",
        help="so: a library in a package; mlf: Model Library Format; bundle: model and runtime in a .so, .a or .c",
    )
    detail_group(parser, "bundles").add_argument(
        "--bundle-threads",
        choices=["on", "off"],
        default="on",
        help="whether kernels of a bundle use all CPUs (default: on)",
    )


def _add_dump_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that write intermediate code and reports."""
    parser.add_argument(
        "--dump-code",
        metavar="FORMAT",
        default="",
        help="also write intermediate code next to the package: asm, ll, tir, relay (several with commas)",
    )
    parser.add_argument(
        "--dump-offloads",
        default="",
        help="write a report of the code generator of each operator: a text, or a page with a picture (.html)",
    )


def _add_measure_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects partitions by measurement."""
    detail_group(parser, "partitions").add_argument(
        "--measure-partitions",
        metavar="FILE",
        default="",
        help="measure each partition with its code generator and with the target, and keep the faster; FILE keeps the "
        "measurements",
    )


def _add_print_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that print the time of each pass and the program before or after it."""
    group = detail_group(parser, "passes")
    group.add_argument("--print-pass-times", action="store_true", help="print how long each pass took")
    for when in ("before", "after"):
        group.add_argument(
            f"--print-ir-{when}",
            type=parse_printed_passes,
            default=None,
            metavar="PASSES",
            help=f"print the program {when} these passes, with commas: FuseOps,tir.Simplify",
        )


def drive_compile(args) -> int:
    """Run ``tvmc compile``."""
    for path in args.FILE:
        frontends.check_model(path)
    farm = farm_of(args)
    if farm:
        return compile_many(farm, args)
    models = models_of(args.FILE)
    if len(models) > 1:
        raise TVMCException("several models need a cluster (--farm ray); without one, compile them one by one")
    print(compile_file(args, models[0]))
    return 0


def compile_file(args: argparse.Namespace, files: ModelFiles) -> str:
    """Compile one model; return a one-line description of the package."""
    begin = time.monotonic()
    check_writable(args.output)
    target = args.target if args.target is not None else "llvm"
    # Errors in a target or an executor are reported before the model is read.
    found, others = target_from_cli(target, reconstruct_target_args(args))
    check_code(found)
    composite_target.refuse_not_built(others)
    pools = workspace_pools_recombobulate(args, [t for t in (found, found.host) if t is not None], others)
    executor, runtime = (reconstruct_registry_entity(args, name) for name in ("executor", "runtime"))
    check_quantization_args(args)
    check_transform_args(args)
    options = {"states": args.states, **files.options}
    tvmc_model = frontends.load_model(files.path, args.model_format, args.input_shapes, **options)
    if args.quantize:
        tvmc_model = quantize_from_cli(tvmc_model, args)
    dump_code = [x.strip() for x in args.dump_code.split(",")] if args.dump_code else None
    package = compile_model(
        tvmc_model,
        target,
        opt_level=args.opt_level,
        executor=executor,
        runtime=runtime,
        tuning_records=args.tuning_records,
        package_path=args.output,
        cross=args.cross_compiler,
        cross_options=args.cross_compiler_options,
        output_format=args.output_format,
        dump_code=dump_code,
        dump_offloads=args.dump_offloads,
        measure_partitions=args.measure_partitions,
        disabled_pass=args.disabled_pass,
        pass_context_configs=args.pass_config,
        mod_name=args.module_name,
        workspace_pools=pools,
        additional_target_options=reconstruct_target_args(args),
        print_pass_times=args.print_pass_times,
        print_ir_before=args.print_ir_before,
        print_ir_after=args.print_ir_after,
        bundle_threads=args.bundle_threads == "on",
        **parse_graph_transform_args(args),
    )
    if package.is_vm and executor is None:
        print(
            f"{os.path.basename(files.path)} runs on the virtual machine: {package.manifest['reason']}"
            f"{_how_to_fix(package)}"
        )
    print_partitions(package.manifest)
    return outcome(package, time.monotonic() - begin)


def _how_to_fix(package: Any) -> str:
    """The part of the message that shows how to fix dynamic dimensions, empty if there are none."""
    rows = {v.name: v.sizes for v in vm_package.facts_of(package).inputs if v.sizes is not None and is_open(v.sizes)}
    if not rows:
        return ""
    shapes = " ".join(f"{name}:[{shown(dims)}]" for name, dims in rows.items())
    return f'; its dynamic dimensions stay dynamic (--input-shapes "{shapes}" with numbers fixes them)'


def outcome(package: TVMCPackage | bundle.TVMCBundle, seconds: float) -> str:
    """Return a one-line description of the package that was written."""
    if isinstance(package, bundle.TVMCBundle):
        return package.outcome(seconds)
    path = package.package_path
    # A package that was written to a pipe or a device cannot be inspected.
    made = f", {size(os.path.getsize(path))}" if os.path.isfile(path) else ""
    kernels = len(kernels_of(package))
    return f"{path}{made}, {kernels} kernels, {seconds:.1f} s, for {compiled_for(package.manifest)}"


def compile_model(
    tvmc_model: TVMCModel,
    target,
    opt_level: int = 3,
    executor=None,
    runtime=None,
    tuning_records: str | None = None,
    package_path: str | None = None,
    cross=None,
    cross_options=None,
    output_format: str = "so",
    dump_code=None,
    dump_offloads: str = "",
    target_host=None,
    disabled_pass=None,
    pass_context_configs=None,
    additional_target_options=None,
    use_vm: bool = False,
    mod_name: str = "default",
    workspace_pools=None,
    print_pass_times: bool = False,
    instruments=None,
    desired_layout=None,
    desired_layout_ops=None,
    mixed_precision: bool = False,
    mixed_precision_ops=None,
    mixed_precision_calculation_type=None,
    mixed_precision_acc_type=None,
    *,
    print_ir_before=None,
    print_ir_after=None,
    bundle_threads: bool = True,
    measure_partitions: str = "",
) -> TVMCPackage | bundle.TVMCBundle:
    """Compile a model into a package.

    Parameters
    ----------
    tvmc_model : TVMCModel
        The model.
    target : str
        The compilation target, such as "llvm" or "cuda".
    opt_level : int, optional
        The level of optimization.
    executor : Executor or str, optional
        The executor that runs the model: "graph", "aot" for one function with a fixed memory plan, or "vm" for the
        virtual machine. The default is the graph executor for models that it supports, and the virtual machine for the
        others.
    runtime : Runtime, optional
        The runtime of the package.
    tuning_records : str, optional
        The file of tuning records that ``tune`` wrote.
    package_path : str, optional
        The path of the package.
    cross : str or callable, optional
        The compiler that links code for another machine.
    cross_options : str, optional
        The options of that compiler.
    output_format : str, optional
        "so", "tar", "mlf" or "bundle".
    dump_code : str or list of str, optional
        Intermediate code to write next to the package: "relay", "tir", "ll", "asm".
    dump_offloads : str, optional
        The file for a report of the code generator of each operator.
    target_host : str, optional
        The target of the host code for a GPU.
    disabled_pass : str or list of str, optional
        Passes to disable.
    pass_context_configs : list of str, optional
        Options of passes, as NAME=VALUE.
    additional_target_options : dict, optional
        Options of targets by kind.
    use_vm : bool, optional
        Whether to compile for the virtual machine, like ``executor="vm"``.
    mod_name : str, optional
        The name of the module.
    workspace_pools : WorkspaceMemoryPools, optional
        Memory pools for intermediate values.
    print_pass_times : bool, optional
        Whether to print the time of each pass.
    instruments : list, optional
        Pass instruments.
    desired_layout : str, optional
        The layout to which operators are converted, such as "NHWC".
    desired_layout_ops : list of str, optional
        The operators whose layout is converted.
    mixed_precision : bool, optional
        Whether to compute operators in a smaller float type.
    mixed_precision_ops : list of str, optional
        The operators to compute in the smaller type.
    mixed_precision_calculation_type : str, optional
        The type of the computation.
    mixed_precision_acc_type : str, optional
        The type of accumulation.
    print_ir_before : list of str, optional
        Passes before which to print the program.
    print_ir_after : list of str, optional
        Passes after which to print the program.
    bundle_threads : bool, optional
        Whether the kernels of a bundle use all CPUs.
    measure_partitions : str, optional
        The file of measurements of partitions. If given, each partition is measured with its code generator and with
        the target, and the faster alternative is kept.

    Returns
    -------
    TVMCPackage or TVMCBundle
        The package, at ``package_path`` if it is given; for output format "bundle" the bundle.

    Raises
    ------
    TVMCException
        The target or an option is invalid, or the model cannot be compiled.

    Examples
    --------
    >>> x = relay.var("x", shape=(2,))
    >>> model = tvmc.model.TVMCModel(tvm.IRModule.from_expr(relay.nn.relu(x)), {})
    >>> package = tvmc.compile(model, target="llvm")
    >>> tvmc.run(package, "cpu", inputs={"x": np.array([-1, 1], "float32")}).get_output("output_0").tolist()
    [0.0, 1.0]
    """
    executor = VM if use_vm else executor
    _refuse_what_is_missing(executor, runtime, workspace_pools, output_format, cross, mod_name)
    dump_code = [dump_code] if isinstance(dump_code, str) else dump_code
    for path in [package_path, *(f"{package_path}.{kind}" for kind in dump_code or ())] if package_path else ():
        check_writable(path)
    check_records(tuning_records)
    config = parse_configs(pass_context_configs)
    tvm_target, extra_targets = target_from_cli(str(target), additional_target_options)
    if target_host:
        tvm_target = tvm_target.with_host(target_host)
    if output_format == bundle.FORMAT:
        bundle.check(package_path, executor, runtime, tvm_target)
    timing = PassTimingInstrument() if print_pass_times else None
    used = _instruments(instruments, timing, print_ir_before, print_ir_after)
    transforms = {
        "desired_layout": desired_layout,
        "desired_layout_ops": desired_layout_ops,
        "mixed_precision": mixed_precision,
        "mixed_precision_ops": mixed_precision_ops,
        "mixed_precision_calculation_type": mixed_precision_calculation_type,
        "mixed_precision_acc_type": mixed_precision_acc_type,
    }
    try:
        _say_target(tvm_target, default_architecture(str(target), additional_target_options))
        _say_precision(tvm_target, transforms)
        check_linker(tvm_target, cross, output_format)
        records = _records(tuning_records)
        config = {**records.config, **config, **composite_target.settings(extra_targets)}
        logger.debug("level %d, options of passes %s", opt_level, config)
        with (
            PassContext(opt_level=opt_level, config=config, disabled_pass=disabled_pass or None, instruments=used),
            Progress(said=note) as progress,
        ):
            default = bundle.default_executor(output_format)
            mod, build, reason = _sized_and_placed(
                tvmc_model, executor, runtime, tuning_records, workspace_pools, default
            )
            mod = apply_graph_transforms(mod, transforms)
            mod = composite_target.partition(mod, tvmc_model.params, extra_targets, mod_name)
            if measure_partitions:
                mod = composite_target.keep_faster(mod, tvm_target, measure_partitions)
            with records.context:
                built = build(mod, tvm_target, tvmc_model.params, mod_name, progress, reason)
            times = timing.render() if timing else ""
            texts = dumps(built, mod, dump_code or [])
            progress("linking", 0, 0)
            if built.plan is not None:
                note(built.plan)
            manifest = {**make_manifest(tvm_target, mod_name), **built.facts, **_partitions_of(mod)}
            if output_format == bundle.FORMAT:
                compiler = " ".join(filter(None, (cross, cross_options))) or None
                made = bundle.write_bundle(built, mod, package_path, mod_name, bundle_threads, compiler, manifest)
            else:
                made = TVMCPackage(
                    tvmc_model.export_package(built.model, package_path, cross, cross_options, output_format, manifest)
                )
    except TVMCException:
        raise
    except (TVMError, TypeError, NotImplementedError) as problem:
        raise TVMCException(str(problem)) from problem
    if timing:
        print(f"Compilation time breakdown by pass:\n{times}")
    save_dumps(made.package_path, texts)
    if dump_offloads:
        write_offloads(mod, dump_offloads, str(tvm_target))
    return made


def _instruments(given: Any, timing: PassTimingInstrument | None, before: Any, after: Any) -> list[Any]:
    """Return the pass instruments; empty without such options, because instruments disable the cache of compiled
    code."""
    printing = [PassPrintingInstrument(before or (), after or ())] if before or after else []
    return [*(given or ()), *printing, *([timing] if timing else ())]


def _say_precision(target: Target, transforms: dict[str, Any]) -> None:
    """Print a note if bfloat16 is requested but the target computes bfloat16 matmuls in float32."""
    from ...relay.transform.backend_passes import passes_of

    is_asked = transforms["mixed_precision"] and transforms["mixed_precision_calculation_type"] == "bfloat16"
    if is_asked and not passes_of(target).fast_bfloat16:
        note(f"{target.attrs.get('mcpu') or 'this CPU'} has no fast bfloat16 matmuls: they are computed in float32")


def _records(path: str | None) -> Applied:
    """Return the tuning records to compile with. Their reader is imported on demand."""
    from ...tuning.apply_records import records_of_file

    return records_of_file(path)


def _refuse_what_is_missing(executor, runtime, workspace_pools, output_format, cross, mod_name) -> None:
    """Raise an error for options of features that are not implemented."""
    try:
        writers.choose(None if executor == VM else executor, runtime, workspace_pools)
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem
    if output_format == "mlf":
        check_mlf(cross)
    elif str(runtime) == "crt":
        raise TVMCException("runtime crt requires Model Library Format; use --output-format mlf")
    if not re.fullmatch(r"\w+", mod_name, re.ASCII):
        raise TVMCException(f"--module-name '{mod_name}': only letters, digits and underscores are allowed")


def _sized_and_placed(
    model: TVMCModel, executor: Any, runtime: Any, tuning_records: str | None, workspace_pools: Any, default: Any
) -> tuple[Any, Any, str | None]:
    """Return the module of a model, the function that builds it, and the reason if it uses the virtual machine."""
    from ...relay.transform.flat_params import with_flat_params
    from ...relay.vm import needs_vm
    from .built import build_for_machine, build_graph
    from .module_sizes import with_batch_of_one

    # Tuning records are for kernels with fixed shapes.
    mod = with_flat_params(with_batch_of_one(model, "compiling") if tuning_records else model.mod)
    if executor == VM:
        return mod, build_for_machine, None
    reason = needs_vm(mod, model.params)
    if executor is not None and reason is not None:
        name = "ahead-of-time" if str(executor) == "aot" else "graph"
        raise TVMCException(
            f"the {name} executor cannot run the model: {reason}; use --executor vm or leave "
            "--executor out. --input-shapes fixes dynamic dimensions"
        )
    of_graph = partial(build_graph, executor=executor or default, runtime=runtime, workspace_pools=workspace_pools)
    return mod, of_graph if reason is None else build_for_machine, reason


def _say_target(target, default_arch: str) -> None:
    """Print the defaults that were added to the target: the CPU, or the architecture of a GPU."""
    cpu = compiled_cpu(target)
    if cpu is not None:
        note(
            f"target {str(target).strip()}: compiling for {cpu.triple}, cpu {cpu.cpu}, {cpu.vector_bits}-bit vectors, "
            f"{cpu.cores} cores"
        )
    elif default_arch:
        print(
            f"no -arch is given and there is no GPU; compiling for {default_arch}, whose code runs on newer GPUs too",
            flush=True,
        )
    else:
        note(f"target {str(target).strip()}")


def _partitions_of(mod) -> dict[str, Any]:
    """Return the manifest entries about partitions; empty for a module without partitions."""
    from ...relay.backend.external.summary import summarize

    summary = summarize(mod)
    return summary.as_json() if summary.partitions else {}


def make_manifest(target, mod_name: str) -> dict[str, Any]:
    """Return the metadata of a package: version, name, target."""
    return {
        "format": 1,
        "tvm_version": __version__,
        "module_name": mod_name,
        "target": str(target).strip(),
        "machine": machine(target),
    }


def dumps(built, mod, formats: list[str]) -> dict[str, str]:
    """Return the intermediate code for --dump-code."""
    out = {}
    for kind in formats:
        if kind == "relay":
            out[kind] = str(mod)
        elif kind == "tir":
            out[kind] = "\n".join(str(k.module) for k in built.kernels)
        else:
            try:
                out[kind] = built.library.get_source(kind)
            except (TVMError, ValueError) as problem:
                raise TVMCException(f"--dump-code {kind}: {problem}; relay and tir are also available") from problem
    return out


def save_dumps(module_name: str, dumps: dict[str, str], dump_root: str = ".") -> None:
    """Write the intermediate code next to the package."""
    for kind, text in dumps.items():
        path = os.path.join(dump_root, f"{module_name}.{kind}")
        write_whole(path, lambda out, text=text: out.write(text.encode()))


def write_offloads(mod, where: str, target: str) -> None:
    """Report the code generator of each line of the graph: printed for ``-``, otherwise written to a file. A file with
    the suffix ``.html`` gets a page with a picture of the partitions."""
    if where.endswith(".html"):
        write_page_of_partitions(mod, target.split(" ")[0], where)
        return
    text = offloads(mod)
    if where == "-":
        print(text)
    else:
        write_whole(where, lambda out: out.write(text.encode() + b"\n"))


def offloads(mod) -> str:
    """Return counts of operators by code generator, then every line of the graph prefixed with its code generator."""
    from ...ir.op import Op
    from ...ir.visit import post_order
    from ...relay.expr import Call

    counts: dict[str, int] = {"generic": 0}
    for function in mod.functions.values():
        name = (function.attrs or {}).get("Compiler", "generic")
        calls = sum(isinstance(node, Call) and isinstance(node.op, Op) for node in post_order(function.body))
        counts[name] = counts.get(name, 0) + calls
    width = max(len(name) for name in counts)
    lines = ["Total number of operators and distribution by targets", f"Total: {sum(counts.values())}"]
    lines += [f"{name}: {count}" for name, count in counts.items()]
    lines.append("")
    owner = "generic"
    for line in str(mod).splitlines():
        if line.startswith("def "):
            found = re.search(r'Compiler="([^"]+)"', line)
            owner = found.group(1) if found else "generic"
        lines.append(f"{owner:<{width}}  <-  {line}")
    return "\n".join(lines)
