"""Dimensions of inputs: a number, the name of a dynamic dimension, or None for a dynamic dimension without a name.

Dynamic dimensions of the same name have the same size. Compiling or running with fixed shapes uses the given sizes, the
sizes that follow from them, and a batch of 1; an error names the remaining dynamic dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .errors import TVMCException

Dims = list[int | str | None]


def is_open(dims: Sequence) -> bool:
    """Whether a dimension is dynamic."""
    return not all(isinstance(d, int) for d in dims)


def shown(dims: Sequence) -> str:
    """Format a shape in the syntax of --input-shapes, with a question mark for a dynamic dimension without a name."""
    return ",".join("?" if d is None else str(d) for d in dims)


def check_fits(name: str, shape: Sequence[int], dims: Sequence) -> None:
    """Raise an error for a shape that does not match the dimensions of an input."""
    if len(shape) != len(dims) or any(isinstance(d, int) and d != s for s, d in zip(shape, dims)):
        raise TVMCException(
            f"input '{name}' has shape {list(shape)}, but the model expects "
            f"[{', '.join('?' if d is None else str(d) for d in dims)}]"
        )


def _by_name(rows: Mapping[str, Dims], given: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the values of named dynamic dimensions that the given shapes determine."""
    found: dict[str, tuple[int, str]] = {}
    for name, shape in given.items():
        for size, answer in zip(rows.get(name, []), shape):
            if isinstance(size, str):
                first, where = found.setdefault(size, (answer, name))
                if first != answer:
                    raise TVMCException(
                        f"the dynamic dimension '{size}' is {first} in the shape of input '{where}' "
                        f"and {answer} in that of '{name}'; both must be equal"
                    )
    return {name: size for name, (size, _) in found.items()}


def completed(
    rows: Mapping[str, Dims], given: Mapping[str, Sequence[int]], batch: int = 1
) -> tuple[dict[str, list[int]], list[str], dict[str, Dims]]:
    """Complete the shapes of all inputs with the given shapes, the dimensions that follow from them, and a batch.

    Also return the inputs whose batch was chosen, and the inputs that still have dynamic dimensions. A batch is a first
    dimension that is the only dynamic one and whose name no other dimension has.
    """
    for name, shape in given.items():
        if name in rows:
            check_fits(name, shape, rows[name])
    known = _by_name(rows, given)
    left = {name: [known.get(d, d) if isinstance(d, str) else d for d in dims] for name, dims in rows.items()}
    inner = {d for dims in left.values() for d in dims[1:] if isinstance(d, str)}
    shapes: dict[str, list[int]] = {}
    batches, unanswered = [], {}
    for name, dims in left.items():
        if name in given:
            dims = list(given[name])
        elif is_open(dims) and not isinstance(dims[0], int) and dims[0] not in inner and not is_open(dims[1:]):
            dims = [batch, *dims[1:]]
            batches.append(name)
        if is_open(dims):
            unanswered[name] = dims
        else:
            shapes[name] = dims
    return shapes, batches, unanswered


def settled(
    rows: Mapping[str, Dims], given: Mapping[str, Sequence[int]], batch: int = 1, how: str = "fix them", why: str = ""
) -> tuple[dict[str, list[int]], list[str]]:
    """Return shapes of all inputs, and the inputs whose batch was chosen. If dimensions remain dynamic, raise an error
    that asks for their sizes, with the reason ``why``."""
    shapes, batches, unanswered = completed(rows, given, batch)
    if unanswered:
        text = " ".join(f"{n}:[{shown(dims)}]" for n, dims in unanswered.items())
        names = [d for dims in unanswered.values() for d in dims if isinstance(d, str)]
        once = " with equal numbers for equal names" if len(names) > len(set(names)) else ""
        raise TVMCException(f'the model has inputs with dynamic dimensions; {how}{once}: --input-shapes "{text}"{why}')
    return shapes, batches


__all__ = ["Dims", "check_fits", "completed", "is_open", "settled", "shown"]
