"""``tvmc micro``: create, build and flash a project for a microcontroller; ``tvmc run --device micro`` runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from ...error import TVMError, did_you_mean
from ...micro.build import MicroTVMTemplateProject, get_microtvm_template_projects
from ...micro.project import GeneratedProject, TemplateProject
from ...micro.project_api.server import ProjectOption
from ...micro.run import model_of, run_project
from ...runtime.benchmark import BenchmarkResult
from .arguments import add_command, add_verbose, register_parser
from .errors import TVMCException
from .model import TVMCResult

_TEMPLATE = "template"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@register_parser
def add_micro_parser(subparsers, main_parser, json_params) -> None:
    """Add the subcommand ``micro``."""
    parser = add_command(subparsers, "micro", usage="tvmc micro {create,build,flash} ...")
    parser.set_defaults(func=drive_micro)
    add_verbose(parser)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    create = actions.add_parser("create", help="create a project for a package in Model Library Format")
    create.set_defaults(handler=create_project_handler)
    create.add_argument("-f", "--force", action="store_true", help="replace an existing project folder")
    create.add_argument("PROJECT_DIR", help="the folder of the new project")
    create.add_argument("MLF", help="the package made by tvmc compile -f mlf")
    _add_platform(create)
    build = actions.add_parser("build", help="build a project")
    build.set_defaults(handler=build_handler)
    build.add_argument("-f", "--force", action="store_true", help="build again from the beginning")
    flash = actions.add_parser("flash", help="write the program of a project to its board")
    flash.set_defaults(handler=flash_handler)
    for action in (build, flash):
        action.add_argument("PROJECT_DIR", help="the folder of the project")
        _add_platform(action)


def _add_platform(parser) -> None:
    platforms = [*MicroTVMTemplateProject.list(), _TEMPLATE]
    parser.add_argument(
        "PLATFORM",
        choices=platforms,
        metavar="PLATFORM",
        help=f"the platform: {', '.join(platforms[:-1])}, or {_TEMPLATE} with --template-dir",
    )
    parser.add_argument("--template-dir", default="", help="folder of a template project, for the platform template")
    parser.add_argument("--project-option", nargs="+", metavar="NAME=VALUE", default=[], help="options of the project")
    parser.add_argument("--list-options", action="store_true", help="list the options of the project")


def drive_micro(args) -> int:
    """Execute ``tvmc micro`` with an action: create, build or flash."""
    if args.PLATFORM == _TEMPLATE and not args.template_dir:
        raise TVMCException("the platform 'template' requires --template-dir")
    if args.PLATFORM != _TEMPLATE and args.template_dir:
        raise TVMCException(f"--template-dir requires the platform 'template', got '{args.PLATFORM}'")
    try:
        args.handler(args)
    except (TVMError, ValueError) as problem:
        raise TVMCException(str(problem)) from problem
    return 0


def create_project_handler(args) -> None:
    """Create a project."""
    folder = args.template_dir if args.PLATFORM == _TEMPLATE else get_microtvm_template_projects(args.PLATFORM)
    with TemplateProject.from_directory(folder) as template:
        known = template.info().project_options
        if args.list_options:
            print_options(known)
            return
        options = project_options(args.project_option, known)
        if not os.path.isfile(args.MLF):
            raise TVMCException(f"{args.MLF} does not exist or is a folder")
        if os.path.exists(args.PROJECT_DIR):
            _remove(args.PROJECT_DIR, args.force)
        template.generate_project_from_mlf(args.MLF, args.PROJECT_DIR, options).close()
    print(f"{args.PROJECT_DIR}: a project for {args.PLATFORM}")


def _remove(folder: str, is_forced: bool) -> None:
    """Remove the folder of an existing project."""
    if not is_forced:
        raise TVMCException(f"the folder {folder} exists; use --force to replace the project in it")
    if os.listdir(folder) and not os.path.isfile(os.path.join(folder, "microtvm_api_server.py")):
        raise TVMCException(f"--force does not replace the folder {folder}: it does not contain a project")
    shutil.rmtree(folder)


def _project(args) -> GeneratedProject:
    """Open the project of a ``tvmc micro`` command with its options."""
    project = GeneratedProject.from_directory(args.PROJECT_DIR, {})
    try:
        info = project.info()
        if args.PLATFORM not in (_TEMPLATE, info.platform_name):
            raise TVMCException(f"{args.PROJECT_DIR} is a project for {info.platform_name}, not for {args.PLATFORM}")
        project.options = project_options(args.project_option, info.project_options)
    except BaseException:
        project.close()
        raise
    return project


def build_handler(args) -> None:
    """Build a project."""
    if args.list_options:
        list_options(args.PROJECT_DIR)
        return
    if args.force:
        shutil.rmtree(os.path.join(args.PROJECT_DIR, "build"), ignore_errors=True)
    with _project(args) as project:
        project.build()
    print(f"{args.PROJECT_DIR}: built")


def flash_handler(args) -> None:
    """Write the program of a project to its board."""
    if args.list_options:
        list_options(args.PROJECT_DIR)
        return
    with _project(args) as project:
        project.flash()
    print(f"{args.PROJECT_DIR}: flashed")


def project_options(words: Iterable[str], known: Iterable[ProjectOption]) -> dict[str, Any]:
    """Parse project options of the form NAME=VALUE and convert the values to the types of the options."""
    types, found = {option.name: option.type for option in known}, {}
    for word in words or ():
        name, equals, text = word.partition("=")
        if not equals:
            raise TVMCException(f"--project-option must have the form NAME=VALUE, got '{word}'")
        if name not in types:
            raise TVMCException(
                f"--project-option: the project has no option '{name}'"
                f"{did_you_mean(name, types, '; ')}; its options are {', '.join(sorted(types))}"
            )
        found[name] = _converted(name, text, types[name])
    return found


def _converted(name: str, text: str, kind: str) -> Any:
    if kind == "bool" and text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    if kind == "int" and text.lstrip("-").isdecimal():
        return int(text)
    if kind != "str":
        raise TVMCException(f"--project-option {name}: expected a value of type {kind}, got '{text}'")
    return text


def print_options(known: Iterable[ProjectOption]) -> None:
    """Print options, one per line."""
    for option in sorted(known, key=lambda option: option.name):
        methods = [*(f"{m} (required)" for m in option.required or ()), *(option.optional or ())]
        choices = f" {{{','.join(option.choices)}}}" if option.choices else ""
        print(f"{option.name}={option.type}{choices}  {option.help}; used by {', '.join(methods)}")


def list_options(project_dir: str) -> None:
    """Print the options of a project."""
    with GeneratedProject.from_directory(project_dir, {}) as project:
        print_options(project.info().project_options)


_UNSUPPORTED = ("rpc_key", "rpc_tracker", "profile", "end_to_end", "input_shapes")


def run_project_with(args, given: Mapping[str, Any] | None) -> TVMCResult:
    """Run the model of a project for ``tvmc run --device micro`` and return its outputs and times."""
    from .runner import make_inputs_dict

    for name in _UNSUPPORTED:
        if getattr(args, name):
            raise TVMCException(f"--{name.replace('_', '-')} is not supported with --device micro")
    if args.number > 1:
        raise TVMCException("--number is not supported with --device micro; use --repeat")
    if not os.path.isdir(args.PATH):
        raise TVMCException(f"{args.PATH} is not a project folder; create one with tvmc micro create")
    try:
        with GeneratedProject.from_directory(args.PATH, {}) as project:
            project.options = project_options(args.project_option, project.info().project_options)
            facts = model_of(project).inputs
            shapes = {name: list(tensor.shape) for name, tensor in facts.items()}
            dtypes = {name: tensor.dtype for name, tensor in facts.items()}
            inputs = make_inputs_dict(shapes, dtypes, given, args.fill_mode)
            runs = [run_project(project, inputs) for _ in range(args.repeat if args.print_time else 1)]
    except (TVMError, ValueError) as problem:
        raise TVMCException(str(problem)) from problem
    outputs = {f"output_{number}": array for number, array in enumerate(runs[-1].outputs.values())}
    return TVMCResult(outputs, BenchmarkResult([run.seconds for run in runs]) if args.print_time else [])
