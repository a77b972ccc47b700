"""External code generators: compilers and libraries that compile partitions of a graph.

A package registers one record:

    register_codegen(Codegen("acme", compile_partition, operators={"nn.relu": True}, patterns=table))

The record is written to the registries that Apache TVM uses, which a package may also fill one by one: the global
functions ``relay.ext.<name>``, ``relay.ext.<name>.constant_updater`` and ``relay.ext.<name>.optimize``, the attributes
``target.<name>`` of operators, the pattern table, and the attributes ``RelayToTIR`` and ``TIRToRuntime`` of the target
kind ``<name>``.

An installed package is found by its entry point in the group ``tvm.codegen``, whose name is the name of the code
generator and whose value is the module to import.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.transform import Pass
from ....registry import Registry
from ....runtime.registry import get_global_func, register_func
from ....target.kinds import CPU, KINDS, Option, TargetKind, register_kind
from .register import get_pattern_table, register_pattern_table

GROUP = "tvm.codegen"

# The code generators of this package, by the module that registers each.
OWN = {"dnnl": "tvm.relay.op.contrib.dnnl"}


@dataclass(frozen=True)
class Codegen:
    """An external code generator.

    Parameters
    ----------
    name : str
        The name: the value of the attribute ``Compiler`` of its partitions, and its name in a target of ``tvmc``.
    compile : callable, optional
        ``(function) -> Module`` compiles a partition. The module contains a packed function with the name
        ``function.attrs["global_symbol"]``, whose arguments are the inputs and then the outputs. Not needed for a code
        generator with ``relay_to_tir``.
    operators : dict of str to (bool or callable), optional
        The supported operators: True, or a rule ``(call) -> bool``.
    patterns : callable, optional
        ``() -> list`` returns the pattern table: tuples ``(name, pattern[, check])``, where ``name`` starts with the
        name of the code generator and a dot.
    passes : sequence of Pass, optional
        The passes that ``partition_for`` runs before it matches patterns.
    constants : callable, optional
        ``(function, symbol) -> dict`` returns the constants of a partition by name, in place of all constants in its
        body (``relay.ext.<name>.constant_updater``).
    optimize : callable, optional
        ``(mod) -> mod`` optimizes each partition, the function ``main`` (``relay.ext.<name>.optimize``).
    relay_to_tir : callable, optional
        ``(mod) -> mod`` replaces partitions in a module by PrimFuncs with the same names.
    tir_to_runtime : callable, optional
        ``(mod, target) -> Module`` compiles these PrimFuncs; without it, the target of the model compiles them.
    options : dict of str to (type or Option), optional
        The options of the target ``<name>``: int, bool, str or list, or ``Option(type, default)``. Code reads them with
        ``tvm.relay.backend.external.options_of``.
    partition : callable, optional
        ``(mod, params, mod_name, **options) -> mod`` partitions a module, in place of ``partition_for``.
    device_type : int, optional
        The device type of the target kind.
    """

    name: str
    compile: Callable[[Any], Any] | None = None
    operators: Mapping[str, Any] = field(default_factory=dict)
    patterns: Callable[[], list] | None = None
    passes: Sequence[Pass] = ()
    constants: Callable[[Any, str], Mapping[str, Any]] | None = None
    optimize: Callable[[IRModule], IRModule] | None = None
    relay_to_tir: Callable[[IRModule], IRModule] | None = None
    tir_to_runtime: Callable[[IRModule, Any], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    partition: Callable[..., IRModule] | None = None
    device_type: int = CPU

    @property
    def config_key(self) -> str:
        """The pass option that contains the options of the target."""
        return f"relay.ext.{self.name}.options"


CODEGENS: Registry[Codegen] = Registry("code generator")


def register_codegen(codegen: Codegen, override: bool = False) -> Codegen:
    """Register a code generator, and write its functions to the registries of operators, patterns and target kinds.

    Parameters
    ----------
    codegen : Codegen
        The code generator.
    override : bool, optional
        Whether to replace a code generator of the same name.

    Returns
    -------
    Codegen

    Raises
    ------
    ValueError
        The name is already registered, or the name of a pattern does not start with the name of the code generator.
    """
    name = codegen.name
    if codegen.compile is None and codegen.relay_to_tir is None:
        raise ValueError(f"code generator '{name}' needs the function compile or relay_to_tir")
    if name in KINDS and not override:
        raise ValueError(f"code generator '{name}': a target kind has the same name")
    CODEGENS.register(name, codegen, override)
    for suffix, function in (
        ("", codegen.compile),
        (".constant_updater", codegen.constants),
        (".optimize", codegen.optimize),
    ):
        if function is not None:
            register_func(f"relay.ext.{name}{suffix}", function, override=True)
    for operator, rule in codegen.operators.items():
        Op.get(operator).set_attr(f"target.{name}", rule)
    if codegen.patterns is not None:
        register_pattern_table(name, codegen.patterns)
        wrong = [row[0] for row in get_pattern_table(name) or () if row[0].split(".")[0] != name.split(".")[0]]
        if wrong:
            raise ValueError(f"pattern '{wrong[0]}' of code generator '{name}' must have a name that starts with it")
    schema = {key: given if isinstance(given, Option) else Option(given) for key, given in codegen.options.items()}
    kind = register_kind(TargetKind(name, schema, (name,), codegen.device_type, "other"), override)
    for key, function in (("RelayToTIR", codegen.relay_to_tir), ("TIRToRuntime", codegen.tir_to_runtime)):
        if function is not None:
            kind.attrs[key] = function
    return codegen


def import_codegens() -> None:
    """Import the installed packages that provide code generators, except those whose import fails: ``load_codegens``
    reports the error when such a code generator is used."""
    for name in dict.fromkeys([*OWN, *(entry.name for entry in entry_points(group=GROUP))]):
        if name not in _BROKEN:
            try:
                load_codegens(name)
            except TVMError:
                _BROKEN.add(name)


_BROKEN: set[str] = set()


def load_codegens(name: str) -> None:
    """Import the module of this package or of an installed one that provides a code generator, if there is one.

    Parameters
    ----------
    name : str
        The name of the code generator.

    Raises
    ------
    TVMError
        The module of the package cannot be imported, or does not register the code generator.
    """
    if name in OWN:
        importlib.import_module(OWN[name])
    for entry in entry_points(group=GROUP, name=name):
        if entry.name in CODEGENS:
            continue
        try:
            entry.load()
        except Exception as error:
            raise TVMError(
                f"code generator '{entry.name}' is provided by an installed package, whose module '{entry.value}' "
                f"cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if name not in CODEGENS:
            raise TVMError(f"module '{entry.value}' does not register the code generator '{name}' of its entry point")


def compile_function(name: str) -> Callable[[Any], Any] | None:
    """Return the function ``relay.ext.<name>``, or None if no code generator has this name."""
    found = get_global_func(f"relay.ext.{name}", allow_missing=True)
    if found is None:
        load_codegens(name)
        found = get_global_func(f"relay.ext.{name}", allow_missing=True)
    return found


def hook(name: str, attribute: str) -> Callable[..., Any] | None:
    """Return the hook ``RelayToTIR`` or ``TIRToRuntime`` of the target kind of a code generator, if it has one."""
    return KINDS[name].attrs.get(attribute) if name in KINDS else None  # type: ignore[return-value]


__all__ = ["CODEGENS", "Codegen", "compile_function", "hook", "import_codegens", "load_codegens", "register_codegen"]
