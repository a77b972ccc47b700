"""Text of tensors and operations, which are identified by their type keys because this layer must not import ``te``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .expr_text import Options, Writer


def _list(writer: Writer, items: Any) -> str:
    return f"[{', '.join(writer.text(i) for i in items)}]"


def _tensor(tensor: Any, options: Options) -> str:
    return f"Tensor(shape={_list(Writer(options), tensor.shape)}, op.name={tensor.op.name})"


def _compute(op: Any, options: Options) -> str:
    writer = Writer(options)
    axis, reduce_axis = _list(writer, op.axis), _list(writer, op.reduce_axis)
    body = _list(writer, op.body)
    attrs = writer.dict_text(op.attrs or {})
    return f"compute({op.name}, body={body}, axis={axis}, reduce_axis={reduce_axis}, tag={op.tag}, attrs={attrs})"


def _named(word: str) -> Callable[[Any, Options], str]:
    return lambda op, options: f"{word}({op.name})"


TEXT: dict[str, Callable[[Any, Options], str]] = {
    "Tensor": _tensor,
    "ComputeOp": _compute,
    "PlaceholderOp": _named("placeholder"),
    "ScanOp": _named("scan"),
    "ExternOp": _named("extern"),
    "HybridOp": _named("hybrid"),
    "TensorComputeOp": _named("tensor_compute_op"),
}
