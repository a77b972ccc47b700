"""The command that runs a module of this package in a separate process."""

from __future__ import annotations

import sys
from pathlib import Path

# The folder that contains the package.
ROOT = Path(__file__).resolve().parents[2]

# Packages are imported only from the given folder, never from the current folder, which may contain a checkout or a
# file with the name of a library. Other packages of that folder cannot be imported, so another Python interpreter uses
# its own libraries.
_PROGRAM = """
import runpy, sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
root, module = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:] = [path for path in sys.path if path]
for name in dict.fromkeys(["tvm", module.partition(".")[0]]):
    spec = PathFinder.find_spec(name, [root])
    sys.modules[name] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def module_command(module: str, *arguments: str, python: str = sys.executable, root: str | Path = ROOT) -> list[str]:
    """The command that runs a module from the folder of this package, with arguments, in this or another Python
    interpreter.

    Parameters
    ----------
    module : str
        The module name, as for ``python -m``.
    *arguments : str
        The command-line arguments.
    python : str
        The interpreter.
    root : str or Path
        The folder that contains the package, if it is not that of this package.

    Returns
    -------
    list of str
        The program and its arguments, for ``subprocess``.
    """
    return [python, "-c", _PROGRAM, str(root), module, *arguments]


__all__ = ["ROOT", "module_command"]
