"""Examples and programs of documents, run as a user runs them, without importing the package for each of them.

A server process imports ``tvm`` once and forks for each program, so that every program has its own process, folder,
environment and arguments. Importing ``tvm`` takes a second of processor time, which is more than most programs take.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import costs

# Reads requests, one in a line. Only a fork leaves the loop; it becomes the program at the end of the module, so that
# it ends as a Python program does. The answer has the exit status and the processor time of fork and server.
SERVER = """
import json, os, sys, types
import numpy, tvm
from tvm import auto_scheduler, autotvm, relay, te
from tvm.driver import tvmc

before = 0.0
for line in sys.stdin:
    request = json.loads(line)
    if not os.fork():
        break
    _, status = os.wait()
    now = sum(os.times()[:4])
    print(json.dumps([os.waitstatus_to_exitcode(status), now - before]), flush=True)
    before = now
else:
    sys.exit()

os.chdir(request["cwd"])
os.environ.clear()
os.environ.update(request["env"])
for number, path in enumerate((os.devnull, request["stdout"], request["stderr"])):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(file, number)
    os.close(file)
script, *sys.argv[1:] = request["arguments"]
main = types.ModuleType("__main__")
if script == "-c":
    code = compile(sys.argv.pop(1), "<string>", "exec")
else:
    main.__file__ = script
    sys.path[0] = os.path.dirname(script)
    with open(script, encoding="utf-8") as file:
        code = compile(file.read(), script, "exec")
sys.argv[0] = script
sys.modules["__main__"] = main
exec(code, main.__dict__)
"""


class Programs:
    """Runs programs in forks of one server.

    Parameters
    ----------
    python : str
        The interpreter.
    folder : Path
        A folder for what the programs print.
    """

    def __init__(self, python: str, folder: Path):
        self.python, self.folder = python, folder
        self.server: subprocess.Popen | None = None

    def run(self, arguments: list[str], cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        """Run a script, or ``-c`` and a program, with its arguments."""
        env = dict(os.environ) if env is None else env
        if not hasattr(os, "fork"):
            return subprocess.run([self.python, *arguments], cwd=cwd, env=env, capture_output=True, text=True)
        if self.server is None:
            # In this folder no source of the package is, where an installed one is tested.
            self.server = subprocess.Popen(
                [self.python, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder
            )
        printed = [self.folder / name for name in ("stdout", "stderr")]
        for path in printed:
            path.write_bytes(b"")
        request = {"arguments": arguments, "cwd": str(cwd), "env": env, "stdout": str(printed[0]),
                   "stderr": str(printed[1])}  # fmt: skip
        assert self.server.stdin is not None and self.server.stdout is not None
        print(json.dumps(request), file=self.server.stdin, flush=True)
        answer = self.server.stdout.readline()
        assert answer, "the server of programs ended"
        status, seconds = json.loads(answer)
        costs.add(seconds)
        return subprocess.CompletedProcess(arguments, status, *(path.read_text(encoding="utf-8") for path in printed))

    def close(self) -> None:
        """End the server."""
        if self.server is not None:
            assert self.server.stdin is not None
            self.server.stdin.close()
            self.server.wait()


@pytest.fixture(scope="session")
def programs(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Runs examples and programs of documents."""
    made = Programs(python, tmp_path_factory.mktemp("programs"))
    # What starting the server costs is not counted as a cost of the first test.
    made.run(["-c", ""], made.folder)
    yield made
    made.close()
