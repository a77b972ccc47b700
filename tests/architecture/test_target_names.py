"""A target is asked what it can do (``target.features``) or for its back end, not for its name or its keys, and no kind
of target is compared with by its name."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import answers, question, texts
from tvm.target.kinds import KINDS

# Folders whose subject targets are: the kinds themselves, and a face with classic names for tests of users.
OWN = ("tvm/target/", "tvm/testing/")

KNOWN = frozenset(KINDS)
# What a file has that may ask or compare.
HINT_OF_QUESTIONS = r"\.keys\b(?!\()|\.kind\s*\.\s*name\b"
HINT_OF_COMPARISONS = r"['\"](?:" + "|".join(sorted(KNOWN - {"c"})) + r")\b"
# Files that ask for a name or for keys: why it is right. Each line is used, or the test fails.
ALLOWED = {
    "tvm/tir/transform/lower_intrin.py": "rules of intrinsics are registered by the name of a kind, also by users",
    "tvm/tir/transform/lower_custom_datatypes.py": "users register lowering functions by the name of a kind",
    "tvm/autotvm/task/dispatcher.py": "records are found by the keys of a target, as their format has it",
    "tvm/autotvm/tophub.py": "files of records are named after kinds",
    "tvm/driver/tvmc/workspace_pools.py": "options of memory pools name targets by their kinds",
    "tvm/topi/testing/common.py": "tables of users' schedules by key",
    "tvm/relay/collage/collage.py": "the mock of tests has costs by the name of a kind",
    "tvm/codegen/llvm/module.py": "hexagon is an architecture here, the first word of a triple",
    "tvm/topi/utils.py": "a public question of classic TVM, which names kinds",
}

# Files that ask for the target of the ``with`` around them: why it is right. Computes and passes are given theirs.
AMBIENT = {
    "tvm/auto_scheduler/relay_integration.py": "auto_schedule_topi is called without a target, as a schedule is",
    "tvm/autotvm/task/dispatcher.py": "a template asks for its configuration without a target",
    "tvm/autotvm/task/task.py": "get_config is called without a target",
    "tvm/contrib/nvcc.py": "what a script asks of the toolchain without a target",
    "tvm/driver/build_module.py": "a build that is told no target takes the current one",
    "tvm/relay/backend/te_compiler.py": "a script lowers a function without a target",
    "tvm/relay/build_module.py": "a build that is told no target takes the current one",
    "tvm/relay/op/nn/layer_hooks.py": "a user's script calls a hook of topi under the current target",
    "tvm/relay/qnn/op/legalizations.py": "a user's script calls a legalization under the current target",
    "tvm/relay/transform/function_pass.py": "a pass that a script makes without a target; pipelines give it",
    "tvm/te/hybrid/parser.py": "max_num_threads of a script is that of the current target",
    "tvm/topi/cpu/fallback.py": "a classic template sets its own defaults under the current target",
    "tvm/topi/cpu/tasks.py": "autotvm runs the function of a task under its target",
    "tvm/topi/generic/__init__.py": "schedules by their classic names are for the current target",
    "tvm/topi/gpu/named.py": "operators by the names of devices are for the current target",
    "tvm/topi/gpu/tasks.py": "autotvm runs the function of a task under its target",
    "tvm/topi/utils.py": "is_target is a question about the current target",
}


def strings(node: ast.AST) -> set[str]:
    """The words that literals begin with: those of a string, or of the strings of a tuple."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value.split(" ")[0]}
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else ()
    return set().union(*map(strings, items))


@question(HINT_OF_COMPARISONS)
def comparisons(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, what is compared) wherever something is compared with the name of a kind. The letter c is one only beside
    another, and beside names of one kind there may be others that are none."""
    found = []
    for node in ast.walk(tree):
        compared: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            compared = node.args if node.func.attr in ("startswith", "endswith", "removeprefix") else []
        elif isinstance(node, ast.MatchValue):
            compared = [node.value]
        if set().union(*map(strings, compared)) & KNOWN - {"c"}:
            found.append((node.lineno, ast.unparse(node)))
    return found


@question(HINT_OF_QUESTIONS)
def questions(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, what is asked) wherever ``x.kind.name`` or ``x.keys`` is read; ``x.keys()`` is a dictionary's."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        of_kind = isinstance(node.value, ast.Attribute) and node.value.attr == "kind" and node.attr == "name"
        if of_kind or node.attr == "keys" and id(node) not in called:
            found.append((node.lineno, ast.unparse(node)))
    return found


def test_nobody_asks_for_the_name_or_the_keys_of_a_target_or_compares_with_one():
    wrong, used = [], set()
    asked_of, compared = answers(questions), answers(comparisons)
    for path in asked_of:
        if path.startswith(OWN):
            continue
        asked = asked_of[path] + compared[path]
        if asked and path in ALLOWED:
            used.add(path)
        else:
            wrong += [f"{path}:{line}: {what}" for line, what in asked]
    unused = [f"ALLOWED names a file that does not ask: {path}" for path in sorted(ALLOWED.keys() - used)]
    head = "ask target.features, or the record of its back end (docs/howto_backend.md):"
    assert not wrong + unused, "\n".join([head, *wrong, *unused])


def test_only_doors_ask_for_the_current_target_and_each_once():
    asked = {path: text.count("Target.current(") for path, text in texts().items() if not path.startswith(OWN)}
    assert {path: count for path, count in asked.items() if count} == dict.fromkeys(AMBIENT, 1)


@pytest.mark.parametrize(
    ("text", "count"),
    [("if target.kind.name == 'cuda': pass", 1), ("'gpu' in self.target.keys", 1), ("for k in table.keys(): pass", 0),
     ("x.kind.family", 0), ("kind.name", 0)],
)  # fmt: skip
def test_questions_are_recognized(text, count):
    assert len(questions(ast.parse(text))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [("name == 'cuda'", 1), ("if 'opencl -device=mali' != text: pass", 1), ("kind in ('c', 'llvm')", 1),
     ("x in ['rocm']", 1), ("str(target).startswith('cuda')", 1), ("text.startswith(('vulkan', 'metal'))", 1),
     ("'llvm' in words", 1),
     ("match kind:\n  case 'metal': pass", 1), ("fmt in ('c', 'cc')", 0), ("Target('cuda')", 0), ("table['llvm']", 0)],
)  # fmt: skip
def test_comparisons_are_recognized(text, count):
    assert len(comparisons(ast.parse(text))) == count
