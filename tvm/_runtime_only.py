"""What is said to a program that asks the runtime-only package for a part of the compiler."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

# Packages of which the runtime has a part.
_PARTLY_HERE = frozenset(["tvm", "tvm.contrib", "tvm.driver", "tvm.driver.tvmc", "tvm.exec"])


class _CompilerParts(MetaPathFinder):
    """Last of the finders: a module of these packages that no other finder found belongs to the compiler."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname.rpartition(".")[0] in _PARTLY_HERE:
            # No ModuleNotFoundError: ``from tvm.contrib import nvcc`` would drop its text.
            raise ImportError(
                f"{fullname} is part of the compiler and this is tvm-classic-runtime, the runtime alone; "
                "for the compiler: pip install tvm-classic",
                name=fullname,
            )


sys.meta_path.append(_CompilerParts())
