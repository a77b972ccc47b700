"""A layout transform as a task, so that scripts can measure its time."""

from __future__ import annotations

from typing import Any

from ... import te, topi
from ...te.tensor import Tensor
from ..task.task import get_config, template


@template("layout_transform")
def layout_transform(data: Tensor, src_layout: str, dst_layout: str) -> tuple[Any, list[Tensor]]:
    """Return a copy of the tensor in another layout; the configuration space has one entry."""
    moved = topi.layout_transform(data, src_layout, dst_layout)
    # Copies have no arithmetic, but a task needs a positive number of operations.
    get_config().add_flop(float(topi.utils.get_const_int(topi.utils.prod(data.shape))))
    schedule = te.create_schedule(moved.op)
    schedule[moved].parallel(schedule[moved].fuse(*moved.op.axis[:-1]))
    return schedule, [data, moved]


__all__ = ["layout_transform"]
