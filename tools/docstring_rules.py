"""Check the docstrings of public functions for their return values and errors, read from the source.

    python3 tools/docstring_rules.py  # prints missing descriptions

A function that returns a value has a section ``Returns`` with a description: below the type, or in the first sentence,
if this sentence names the value ("The sum of ..."). A sentence in the imperative ("Load a library ...") does not name a
value. A function that raises an error itself has a section ``Raises`` with the error's name. The same rules apply to
the methods of public classes.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from public_names import Public, complaint, methods, public_names, sections

# First words of sentences that describe what a function does instead of its return value.
IMPERATIVES = frozenset(
    """
    Add Apply Ask Assume Begin Bring Build Call Check Collect Combine Commit Compile Compute Convert Copy Count Create
    Declare Decorate Define Describe Draw End Extract Fetch Fill Find Get Give Group Import Infer Inline Insert Join
    Keep Leave Let Link Load Look Make Mark Match Merge Move Open Parse Partition Pass Print Put Raise Read Rebuild
    Record Register Remove Rename Replace Return Rewrite Run Save Say Schedule Send Set Settle Show Simplify Split Start
    Stop Store Substitute Tag Take Transform Try Tune Turn Update Use Verify Visit Wait Wrap Write
    """.split()
)


def definition(value: object) -> ast.FunctionDef | None:
    """Return the definition of a function, or None if it has no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value))))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return None
    return next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes that run when a function is called, without nested functions and classes."""
    stack: list[ast.AST] = [*function.body]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            stack += ast.iter_child_nodes(node)


def raised(function: ast.FunctionDef) -> set[str]:
    """Return the names of the errors that a function raises; re-raised errors and errors created elsewhere have no
    name here."""
    calls = [node.exc for node in own_nodes(function) if isinstance(node, ast.Raise) and node.exc is not None]
    names = [call.func if isinstance(call, ast.Call) else call for call in calls]
    return {name.id for name in names if isinstance(name, ast.Name) and name.id[:1].isupper()}


def gives_a_value(function: ast.FunctionDef) -> bool:
    """Return whether a function returns something other than None."""
    nodes = list(own_nodes(function))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return False
    values = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in values)


def complaints(public: Public) -> list[str]:
    """Return the missing descriptions of the value and the errors of a function."""
    function = None if public.is_class else definition(public.value)
    if function is None:
        return []
    said = sections(inspect.cleandoc(getattr(public.value, "__doc__", None) or ""))
    found = []
    missing = sorted(name for name in raised(function) if name not in said.get("Raises", "").split())
    if missing:
        found.append(f"{public.path} raises {', '.join(missing)}, which it does not describe")
    if gives_a_value(function):
        if "Returns" not in said:
            found.append(f"{public.path} does not say what it returns")
        first = said[""].split(maxsplit=1)[0].strip(".,:;") if said[""] else ""
        in_words = any(line.startswith(" ") for line in said.get("Returns", " ").splitlines())
        if not in_words and first in IMPERATIVES:
            found.append(f"{public.path} gives the type alone of what it returns")
    return found


def undescribed_methods() -> list[str]:
    """Return the missing descriptions of the methods of public classes."""
    found: list[str] = []
    seen: set[int] = set()
    for public in public_names():
        for method in methods(public):
            if id(method.value) not in seen:
                seen.add(id(method.value))
                lacks = complaint(method)
                said = [lacks] if lacks else complaints(method)
                if said:
                    found.append("; ".join(said))
    return found


def main() -> None:
    for said in [*(said for public in public_names() for said in complaints(public)), *undescribed_methods()]:
        print(said)


if __name__ == "__main__":
    main()
