"""tvm.build: what it takes and what it refuses."""

from __future__ import annotations

import pytest

import tvm
from tvm import te
from tvm.error import TVMError


@pytest.mark.parametrize("kind", ["hexagon", "webgpu"])
def test_a_target_without_back_end_is_refused_by_name(kind):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    assert 'T.launch_thread("threadIdx.x", 64)' in str(tvm.lower(s, [a, b]))
    with pytest.raises(TVMError, match=f"no back end generates code for target kind '{kind}'; there are: .*llvm"):
        tvm.build(s, [a, b], kind)
