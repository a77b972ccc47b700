"""What is said to a program that asks the runtime-only package for a part of the compiler."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _CompilerParts(MetaPathFinder):
    """Last of the finders: a module of this package that nobody else found belongs to the compiler."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname.startswith("tvm.") and fullname.count(".") == 1:
            raise ModuleNotFoundError(
                f"{fullname} is part of the compiler and this is tvm-classic-runtime, the runtime alone; "
                "for the compiler: pip uninstall tvm-classic-runtime && pip install tvm-classic",
                name=fullname,
            )


sys.meta_path.append(_CompilerParts())
