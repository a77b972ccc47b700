"""The records of the planner."""

from __future__ import annotations

import pytest

import tvm
from tests.tir.usmp.programs import buffers_of, linear_structure, pool, with_pools
from tvm.ir.memory_pools import AllocatedPoolInfo, ConstantInfo, ConstantPoolInfo, PoolInfoProperties, WorkspacePoolInfo
from tvm.tir.usmp.analysis import extract_buffer_info
from tvm.tir.usmp.utils import BufferInfo, BufferInfoAnalysis, PoolAllocation, assign_stmt_pool_allocations


def test_pools():
    target = tvm.target.Target("c")
    info = WorkspacePoolInfo("foo_workspace", [target])
    assert info.pool_name == "foo_workspace" and list(info.targets) == [target] and info.size_hint_bytes == -1
    assert WorkspacePoolInfo("bar", [target], PoolInfoProperties(size_hint_bytes=1425)).size_hint_bytes == 1425
    flash = ConstantPoolInfo("flash", [target], [ConstantInfo("w", 16, None)])
    assert flash.constant_info_array[0].byte_offset == 16
    assert flash.replace(constant_info_array=()).constant_info_array == ()
    used = AllocatedPoolInfo(info, 100)
    assert used.pool is used.pool_info is info and (used.allocated_size, used.pool_var_idx) == (100, 0)


def test_buffers():
    workspace = pool("global_workspace")
    one = BufferInfo(name_hint="buf1", size_bytes=256, pool_candidates=[workspace])
    assert (one.name_hint, one.size_bytes, one.alignment, one.conflicts) == ("buf1", 256, 1, ())
    assert list(one.pool_candidates) == [workspace]
    two = BufferInfo("buf2", 512, [workspace], 8)
    assert two.alignment == 8
    one.set_conflicts([two])
    assert one.conflicts == (two,) and str(two) == "BufferInfo(buf2, 512 bytes, alignment 8)"
    with pytest.raises(ValueError, match="BufferInfo 'b': the size is negative: -1"):
        BufferInfo("b", -1, [workspace])
    with pytest.raises(ValueError, match="BufferInfo 'b': the alignment must be at least 1, got 0"):
        BufferInfo("b", 1, [workspace], 0)


def test_places():
    workspace = pool("foo_workspace")
    place = PoolAllocation(pool_info=workspace, byte_offset=64)
    assert place.pool_info is workspace and place.byte_offset == 64
    assert str(place) == "PoolAllocation(foo_workspace, 64)"


def test_the_list_of_an_analysis():
    mod = with_pools(linear_structure(), [pool()])
    analysis = extract_buffer_info(mod["__tvm_main__"], mod)
    assert isinstance(analysis, BufferInfoAnalysis) and "5 buffers, pressure" in str(analysis)
    made = tvm.get_global_func("tir.usmp.CreateArrayBufferInfo")(analysis.buffer_info_stmts)
    assert list(made) == list(analysis.buffer_info_stmts)


def test_a_place_of_an_unknown_buffer():
    (stranger,) = buffers_of([(0, 1, 4)])
    with pytest.raises(ValueError, match="the plan contains '0', which is not a buffer of the program"):
        assign_stmt_pool_allocations({}, {stranger: PoolAllocation(pool(), 0)})
