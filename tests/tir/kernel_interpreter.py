"""Runs kernels in the reference interpreter: one Python thread per device thread, barriers as barriers.

Blocks run one after the other. Memory in a shared scope is one array per block; a thread that leaves while others wait
at a barrier is an error, and so is a barrier that not all threads reach.
"""

from __future__ import annotations

import threading

import interpreter
import numpy as np
from interpreter import Interpreter, Memory, numpy_dtype

from tvm.dtype import info
from tvm.ir.visit import pre_order
from tvm.tir import stmt as S

TIMEOUT = 20


class Block:
    """What the threads of one block have in common."""

    def __init__(self, count: int):
        self.barrier = threading.Barrier(count, timeout=TIMEOUT)
        self.shared: dict = {}
        self.lock = threading.Lock()
        self.barriers = 0
        self.offered: dict = {}


def thread_axes(body) -> dict[str, int]:
    """Extent of each thread tag in a statement."""
    out = {}
    for node in pre_order(body):
        if isinstance(node, S.AttrStmt) and node.attr_key == "thread_extent":
            out.setdefault(node.node.thread_tag, int(node.value))
    return out


def shuffle(thread, e):
    """Every thread offers its value; each takes the one of the lane it names."""
    state = thread.block_state
    value, lane, width = thread.eval(e.args[1]), int(thread.eval(e.args[2])), int(thread.eval(e.args[3]))
    me = thread.place["threadIdx.x"]
    others = tuple((k, v) for k, v in sorted(thread.place.items()) if k != "threadIdx.x")
    state.barrier.wait()
    state.offered[(others, me)] = value
    state.barrier.wait()
    got = state.offered[(others, me // width * width + lane)]
    state.barrier.wait()
    return got


interpreter.SPECIAL["tvm_warp_shuffle"] = shuffle
interpreter.SPECIAL["tvm_warp_activemask"] = lambda self, e: 0


def copy_later(thread, e):
    """An asynchronous copy: it happens when the thread waits, and not before."""
    target, to, source, first, size = e.args[:5]
    wanted = bool(thread.eval(e.args[5])) if len(e.args) > 5 else True
    memory, data = thread.memory[target].array, thread.memory[source].array
    count, to, first = int(size) // memory.itemsize, int(thread.eval(to)), int(thread.eval(first))
    value = data[first : first + count].copy() if wanted else np.zeros(count, memory.dtype)
    thread.copies.append((memory, to, value))
    return 0


def wait_for_copies(thread, e):
    for memory, to, value in thread.copies:
        memory[to : to + len(value)] = value
    thread.copies.clear()
    return 0


interpreter.SPECIAL["ptx_cp_async"] = copy_later
interpreter.SPECIAL["ptx_commit_group"] = lambda self, e: 0
interpreter.SPECIAL["ptx_wait_group"] = wait_for_copies


class Thread(Interpreter):
    """One thread of a block; ``place`` gives its number along each axis."""

    def __init__(self, parent: Interpreter, block: Block, place: dict[str, int]):
        super().__init__(parent.externs)
        self.values, self.memory = dict(parent.values), dict(parent.memory)
        self.block_state, self.place = block, place
        self.copies: list = []

    def attribute(self, s):
        if s.attr_key == "thread_extent":
            self.values[s.node.var] = numpy_dtype(s.node.var.dtype).type(self.place[s.node.thread_tag])
        self.exec(s.body)

    def allocate(self, s):
        scope = getattr(s.buffer_var.type_annotation, "storage_scope", "") or "global"
        if not scope.startswith("shared"):
            super().allocate(s)
            return
        with self.block_state.lock:
            if s.buffer_var not in self.block_state.shared:
                size = int(np.prod([int(self.eval(e)) for e in s.extents])) * info(s.dtype).lanes
                self.block_state.shared[s.buffer_var] = Memory(interpreter._garbage(size, s.dtype))
        self.memory[s.buffer_var] = self.block_state.shared[s.buffer_var]
        self.exec(s.body)

    def exec(self, s):
        if isinstance(s, S.AttrStmt):
            self.attribute(s)
        elif isinstance(s, S.Allocate):
            self.allocate(s)
        elif isinstance(s, S.Evaluate) and getattr(getattr(s.value, "op", None), "name", "") == "tir.tvm_storage_sync":
            self.block_state.barriers += 1
            self.block_state.barrier.wait()
        else:
            super().exec(s)


def run_kernel(func, *arguments) -> int:
    """Execute a function whose body is a kernel; gives the number of barriers one thread met, over all blocks."""
    parent = Interpreter()
    for param, value in zip(func.params, arguments):
        buffer = func.buffer_map.get(param)
        parent.memory[param if buffer is None else buffer.data] = Memory(value.reshape(-1))
    axes = thread_axes(func.body)
    blocks = [t for t in axes if t.startswith("blockIdx")]
    threads = [t for t in axes if not t.startswith("blockIdx")]
    met = 0
    for place in np.ndindex(*[axes[t] for t in blocks]):
        met += run_block(parent, func.body, dict(zip(blocks, place)), {t: axes[t] for t in threads})
    return met


def run_block(parent, body, at: dict[str, int], axes: dict[str, int]) -> int:
    places = [dict(zip(axes, p)) for p in np.ndindex(*axes.values())]
    block = Block(len(places))
    errors: list[BaseException] = []

    def work(place):
        try:
            Thread(parent, block, {**at, **place}).exec(body)
        except BaseException as error:
            errors.append(error)
            block.barrier.abort()

    workers = [threading.Thread(target=work, args=(p,)) for p in places]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    if errors:
        raise errors[0]
    return block.barriers // len(places)
