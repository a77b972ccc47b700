"""Elementwise operators, and the strategies of operators for the accelerator."""

from __future__ import annotations

from typing import Any

from .... import autotvm, te, topi
from ....relay.op import strategy as relay_strategy
from ....relay.op.implementation import OpStrategy
from ....topi import tag
from ..environment import get_env
from .stages import place, stages_of
from .utils import is_packed_layout
from .vta_conv2d import conv2d_packed, schedule_conv2d_packed
from .vta_dense import dense_packed, schedule_dense_packed

ENV = get_env()


def compute_clip_vta(attrs: Any, inputs: Any, output_type: Any) -> list[Any]:
    """Compute ``clip`` as two ALU operations.

    Parameters
    ----------
    attrs : Attrs
        The bounds.
    inputs : list of Tensor
        The operand.
    output_type : Type
        The type of the output.

    Returns
    -------
    list of Tensor
        The output.
    """
    return [clip(inputs[0], int(attrs.a_min), int(attrs.a_max))]


def clip(x: Any, low: int, high: int) -> Any:
    """Compute a minimum and a maximum, which are one ALU operation each.

    Parameters
    ----------
    x : Tensor
        The operand.
    low, high : int
        The bounds.

    Returns
    -------
    Tensor
        The output.
    """
    with te.tag_scope(tag=tag.ELEMWISE):
        x = te.compute(x.shape, lambda *i, x=x: te.min(x(*i), te.const(high, x.dtype)), name="clipA")
        x = te.compute(x.shape, lambda *i, x=x: te.max(x(*i), te.const(low, x.dtype)), name="clipB")
    return x


@autotvm.register_topi_compute("add.vta")
def add_packed(cfg: Any, lhs: Any, rhs: Any) -> Any:
    """Add two packed tensors.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration of the template.
    lhs, rhs : Tensor
        The operands.

    Returns
    -------
    Tensor
        The output.
    """
    return topi.add(lhs, rhs)


@autotvm.register_topi_compute("multiply.vta")
def multiply_packed(cfg: Any, lhs: Any, rhs: Any) -> Any:
    """Multiply two packed tensors elementwise.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration of the template.
    lhs, rhs : Tensor
        The operands.

    Returns
    -------
    Tensor
        The output.
    """
    return topi.multiply(lhs, rhs)


def schedule_alu_packed(cfg: Any, outs: Any) -> Any:
    """Schedule elementwise operations on the ALU, in tiles that fit the accumulators.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration: the numbers of rows of a tile.
    outs : list of Tensor
        The output.

    Returns
    -------
    Schedule
        The schedule.
    """
    output, env = outs[0], get_env()
    found = stages_of(output)
    placed = place(env, found)
    s, axes = placed.schedule, list(s_axes(placed))
    cfg.define_split("tile_co", axes[1], num_outputs=2)
    cfg.define_split("tile_h", axes[2], num_outputs=2)
    if cfg.is_fallback:
        rest = 1
        for extent in output.shape[3:-2]:
            rest *= int(extent)
        # Each loaded operand has its own memory, and the output overwrites one of them.
        room = env.config.depth["acc"] // (rest * max(len(placed.loads), 1))
        cfg.fallback_split("tile_h", [-1, max(room, 1)])
        cfg.fallback_split("tile_co", [-1, max(room // int(output.shape[2]), 1)])
    co_out, co_in = cfg["tile_co"].apply(s, output, axes[1])
    h_out, h_in = cfg["tile_h"].apply(s, output, axes[2])
    s[output].reorder(axes[0], co_out, h_out, co_in, h_in, *axes[3:])
    for stage in (*placed.middle, *placed.loads):
        s[stage].compute_at(s[output], h_out)
    s[output].pragma(co_in, env.dma_copy)
    return s


def s_axes(placed: Any) -> Any:
    return placed.schedule[placed.output].op.axis


@autotvm.register_topi_schedule("add.vta")
def schedule_add_packed(cfg: Any, outs: Any) -> Any:
    """Schedule an addition and the elementwise operations after it.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration.
    outs : list of Tensor
        The output.

    Returns
    -------
    Schedule
        The schedule.
    """
    return schedule_alu_packed(cfg, outs)


@autotvm.register_topi_schedule("multiply.vta")
def schedule_multiply_packed(cfg: Any, outs: Any) -> Any:
    """Schedule a multiplication and the elementwise operations after it.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration.
    outs : list of Tensor
        The output.

    Returns
    -------
    Schedule
        The schedule.
    """
    return schedule_alu_packed(cfg, outs)


def _on_host(strategy: Any, attrs: Any, inputs: Any, out_type: Any) -> OpStrategy:
    """Return the implementations for the host, which accesses the memory of the accelerator too."""
    target = get_env().target_vta_cpu
    with target:
        return strategy(attrs, inputs, out_type, target)


def _one(name: str, compute: Any, schedule: Any) -> OpStrategy:
    strategy = OpStrategy()
    strategy.add_implementation(compute, relay_strategy.wrap_topi_schedule(schedule), name=name, plevel=15)
    return strategy


def clip_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Return the implementation of ``clip`` for the accelerator.

    Parameters
    ----------
    attrs : Attrs
        The attributes of the call.
    inputs : list of Tensor
        The operands.
    out_type : Type
        The type of the output.
    target : Target
        The target.

    Returns
    -------
    OpStrategy
        The implementation.
    """
    return _one("clip.vta", compute_clip_vta, topi.generic.schedule_injective)


def conv2d_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Return the implementations of ``nn.conv2d``: packed convolutions run on the accelerator, others on the host.

    Parameters
    ----------
    attrs : Attrs
        The attributes of the call.
    inputs : list of Tensor
        The operands.
    out_type : Type
        The type of the output.
    target : Target
        The target.

    Returns
    -------
    OpStrategy
        The implementations.
    """
    if not is_packed_layout(attrs.data_layout) or int(attrs.groups) != 1:
        return _on_host(relay_strategy.conv2d_strategy, attrs, inputs, out_type)
    compute = relay_strategy.wrap_compute_conv2d(conv2d_packed, need_data_layout=True)
    return _one("conv2d_packed.vta", compute, schedule_conv2d_packed)


def dense_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Return the implementations of ``nn.dense``: packed matmuls run on the accelerator, others on the host.

    Parameters
    ----------
    attrs : Attrs
        The attributes of the call.
    inputs : list of Tensor
        The operands.
    out_type : Type
        The type of the output.
    target : Target
        The target.

    Returns
    -------
    OpStrategy
        The implementations.
    """
    if len(inputs[0].shape) != 4:
        return _on_host(relay_strategy.dense_strategy, attrs, inputs, out_type)
    return _one("dense_packed.vta", relay_strategy.wrap_compute_dense(dense_packed), schedule_dense_packed)


relay_strategy.clip_strategy.register("vta", clip_strategy_vta)
relay_strategy.conv2d_strategy.register("vta", conv2d_strategy_vta)
relay_strategy.dense_strategy.register("vta", dense_strategy_vta)
