"""``tvmc targets``: lists the targets with a code generator, and the options of each."""

from __future__ import annotations

import sys

from ...error import TVMError, did_you_mean
from ...runtime.devices import Device
from ...target import Target, list_tags
from ...target.backend import compiled_cpu
from ...target.kinds import KINDS
from .arguments import add_command, add_verbose, register_parser
from .composite_target import REGISTERED_CODEGEN, get_codegen_names
from .devices import describe
from .errors import TVMCException
from .target import kinds_with_code
from .terminal import print_table


@register_parser
def add_targets_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``targets``."""
    parser = add_command(subparsers, "targets", usage="tvmc targets [options] [NAME]")
    parser.set_defaults(func=drive_targets)
    parser.add_argument(
        "--tags", action="store_true", help="list the tags of machines; with NAME, the tags that contain it"
    )
    add_verbose(parser)
    parser.add_argument("NAME", nargs="?", default="", help="a target (shows its options) or a tag (shows its target)")


def drive_targets(args) -> int:
    """Print target kinds, the options of one kind, or tags."""
    tags = list_tags() or {}
    if args.tags:
        found = {name: target for name, target in tags.items() if args.NAME in name}
        if not found:
            raise TVMCException(f"no tag contains '{args.NAME}'" + did_you_mean(args.NAME, tags, "; "))
        print_table([(name, str(found[name]).strip()) for name in sorted(found)], ("tag", "target"), sys.stdout)
    elif not args.NAME:
        print_table([_row(kind) for kind in kinds_with_code()], ("target", "code for", "on this machine"), sys.stdout)
        names = [name for name in get_codegen_names() if name not in REGISTERED_CODEGEN]
        if names:
            print(
                f"\ncode generators for parts of a model, before a target (--target 'NAME, llvm'): {', '.join(names)}"
            )
        print(
            "\ntvmc targets NAME shows the options of a target; "
            f"tvmc targets --tags lists {len(tags)} tags (names of machines)"
        )
    elif args.NAME in tags:
        print(f"{args.NAME}: {str(tags[args.NAME]).strip()}")
    else:
        _options(args.NAME, tags)
    return 0


def _row(kind: str) -> tuple[str, str, str]:
    """Return a table row: the target, the kind of its code, and the device or compiler of this machine."""
    try:
        target = Target(kind)
        cpu = compiled_cpu(target)
        if cpu is not None:
            return kind, "CPUs", f"{cpu.cpu}, {cpu.vector_bits}-bit vectors, {cpu.cores} cores ({cpu.triple})"
        if target.features.is_cpu:
            return kind, "CPUs, as C source", "compiled by the C compiler of this machine"
        device = Device(target.get_target_device_type(), 0)
        return kind, "GPUs", describe(device) if device.exist else "no device: compiled code runs elsewhere"
    except TVMError as problem:
        return kind, "", str(problem).splitlines()[0]


def _options(kind: str, tags) -> None:
    if kind not in [*kinds_with_code(), *get_codegen_names()] or kind not in KINDS:
        raise TVMCException(
            f"'{kind}' is not a target with a code generator or a tag"
            + did_you_mean(kind, [*kinds_with_code(), *tags], "; ")
        )
    rows = [
        (f"-{name}={row.type.__name__.upper()}", "" if row.default is None else row.default)
        for name, row in KINDS[kind].schema.items()
        if isinstance(row.type, type)
    ]
    print_table(rows, (f"option of {kind}", "default"), sys.stdout)
    print(
        f'\nfor example: --target "{kind} {rows[0][0].partition("=")[0]}=..."; all of them one by one: '
        "tvmc compile --help-all"
    )


__all__ = ["drive_targets"]
