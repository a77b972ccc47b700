"""The public names that published programs use exist and take the arguments those programs pass.

``names.tsv`` lists them with the parameters of classic TVM 0.14: they are the contract, whatever lies behind them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

from tests.speed import LOOP

TABLE = Path(__file__).with_name("names.tsv")
# Operators and nodes whose operands are given by position: only their number is compared.
BY_POSITION = {
    "tvm.relay.Let",  # takes variable too
    "tvm.relay.expr.Let",
    "tvm.relay.op.op.register_infer_correct_layout",
    "tvm.relay.op.op.register_stateful",
    "tvm.tir.For",  # takes min_val too
    "tvm.tir.Reduce",
    "tvm.tir.assume",
    "tvm.tir.bitwise_and",
    "tvm.tir.bitwise_not",
    "tvm.tir.bitwise_or",
    "tvm.tir.bitwise_xor",
    "tvm.tir.isnullptr",
    "tvm.tir.shift_left",
    "tvm.tir.shift_right",
    "tvm.tir.stmt.For",
}


def rows() -> list[tuple[str, str]]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return [(path, signature) for path, _, signature in (line.partition("\t") for line in lines)]


def resolve(path: str) -> object:
    """The object a dotted path names, importing modules on the way as ``import a.b.c`` would."""
    value: object = importlib.import_module("tvm")
    done = "tvm"
    for part in path.split(".")[1:]:
        done += "." + part
        if not hasattr(value, part):
            importlib.import_module(done)
        value = getattr(value, part)
    return value


def parameters(signature: str) -> list[tuple[str, bool]]:
    """(name, has a default) of a signature as the table writes it."""
    text = re.sub(r"\s+\[.*", "", signature)
    text = re.sub(r"^(static|class)\s*", "", text)
    if not text.startswith("(") or "..." in text or "native function" in text:
        return []
    arguments = ast.parse(f"def f{text}: pass").body[0].args
    names = [argument.arg for argument in arguments.args]
    needed = len(names) - len(arguments.defaults)
    # A span is only ever given by keyword.
    return [(name, index >= needed) for index, name in enumerate(names) if name != "span"]


def refusal(path: str, value: object, signature: str) -> str | None:
    """What a caller who follows ``signature`` cannot do, or None."""
    wanted = parameters(signature)
    if not wanted or not callable(value):
        return None
    try:
        ours = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in ours):
        return None
    takes_any_keyword = any(parameter.kind is parameter.VAR_KEYWORD for parameter in ours)
    names = [parameter.name for parameter in ours if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    names = [name for name in names if name != "span"]
    expected = [name for name, _ in wanted]
    if path in BY_POSITION:
        return None if len(names) >= len(expected) else f"{path}: takes {len(names)} of {len(expected)} arguments"
    if names[: len(expected)] != expected and not takes_any_keyword:
        return f"{path}: parameters are ({', '.join(names)}), expected ({', '.join(expected)})"
    optional = {name for name, has_default in wanted if has_default}
    needed = {parameter.name for parameter in ours if parameter.default is parameter.empty and parameter.name in names}
    if needed & optional:
        return f"{path}: {', '.join(sorted(needed & optional))} must be optional"
    return None


def test_public_names_exist():
    missing = []
    for path, _ in rows():
        try:
            resolve(path)
        except (ImportError, AttributeError) as error:
            missing.append(f"{path}: {error}")
    assert not missing, "\n".join([f"{len(missing)} public names are missing:", *missing])


def test_public_functions_take_the_classic_arguments():
    wrong = []
    for path, signature in rows():
        try:
            value = resolve(path)
        except (ImportError, AttributeError):
            continue  # named by the test above
        found = refusal(path, value, signature)
        if found:
            wrong.append(found)
    assert not wrong, "\n".join(wrong)


def test_import_is_quick_and_loads_no_heavy_package():
    code = LOOP + (
        "import sys; before = {*sys.modules}; start = time.process_time()\n"
        "import tvm\n"
        "used, made = time.process_time() - start, {*sys.modules} - before\n"
        "print(used / loop, *made & {'numpy', 'llvmlite', 'ml_dtypes', 'tvm.te'})"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    words = [run.stdout.split() for run in runs]
    assert words[0][1:] == [], f"import tvm loads {words[0][1:]}"
    # About as long as a million turns of a loop of Python.
    assert min(float(word[0]) for word in words) <= 6
