"""The error for programs that use a part of the compiler with the runtime-only package."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

# Packages of which the runtime contains a part.
_PARTLY_HERE = frozenset(["tvm", "tvm.contrib", "tvm.driver", "tvm.driver.tvmc", "tvm.exec"])


class _CompilerParts(MetaPathFinder):
    """The last finder: a module of these packages that no other finder found belongs to the compiler."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname.rpartition(".")[0] in _PARTLY_HERE:
            # Not a ModuleNotFoundError, because ``from tvm.contrib import nvcc`` would replace its message.
            raise ImportError(
                f"{fullname} is part of the compiler, but tvm-classic-runtime contains only the runtime; "
                "install the compiler with pip install tvm-classic",
                name=fullname,
            )


sys.meta_path.append(_CompilerParts())
