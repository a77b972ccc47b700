"""Programs that are measured beside ours say what they cannot do in the words of whoever asked."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tvm.utils import peers
from tvm.utils.rounds import Worker, WorkerFailed


@pytest.mark.parametrize("device, has_cuda", [("cl", True), ("cuda", False)])
def test_torch_names_the_device_it_does_not_run_on(monkeypatch, device, has_cuda):
    torch = SimpleNamespace(__version__="2.5", cuda=SimpleNamespace(is_available=lambda: has_cuda))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(RuntimeError, match=f"torch 2.5 does not run on {device} here"):
        peers.PROGRAMS["torch"]({"device": device, "threads": 1, "model": "m.pt"}, {})


def test_a_reason_is_said_without_the_class_of_its_error(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"")
    worker = Worker({"peer": "tvm", "folder": str(tmp_path), "inputs": str(tmp_path / "x.npz")})
    try:
        with pytest.raises(WorkerFailed, match="^tvm: (?!RuntimeError)"):
            worker.first()
    finally:
        worker.close()
