"""C sources to LLVM text, for ``pragma import_llvm``."""

from __future__ import annotations

import os
import shutil
import tempfile

from ..error import TVMError
from ..runtime import link


def find_clang(required: bool = True) -> list[str]:
    """Names of clang programs on this machine, newest first."""
    names = [f"clang-{n}" for n in range(22, 10, -1)] + ["clang"]
    found = [n for n in ([os.environ["CLANG"]] if os.environ.get("CLANG") else []) + names if shutil.which(n)]
    if not found and required:
        raise TVMError("clang was not found; install it (Debian: apt install clang) or set CLANG to its path")
    return found


def create_llvm(inputs, output=None, options=None, cc=None) -> str:
    """The LLVM text of C sources, given as text or as file names; also written to ``output`` if named."""
    sources = [inputs] if isinstance(inputs, str) else list(inputs)
    compiler = cc or find_clang()[0]
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        paths = []
        for i, text in enumerate(sources):
            if os.path.exists(text):
                paths.append(text)
                continue
            paths.append(os.path.join(folder, f"input{i}.cc"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(text)
        if len(paths) != 1:
            raise TVMError("create_llvm takes one source; link the texts of several by calling it for each")
        result = output or os.path.join(folder, "output.ll")
        command = [compiler, "-emit-llvm", "-O2", "-S", "-o", result, *(options or ()), paths[0]]
        link.run_compiler(command, "compiling C to LLVM text")
        with open(result, encoding="utf-8") as f:
            return f.read()
