"""CoProcSync: programs are run step by step, and whoever touches memory must know that the others are done with it."""

from __future__ import annotations

import random

import pytest

import tvm
from tvm import te, tir
from tvm.ir.op import Op, register_op_attr
from tvm.ir.prim import BufferLoad, Call, IterVar, const
from tvm.ir.subst import substitute
from tvm.ir.visit import post_order
from tvm.tir.intrinsics import CallEffectKind
from tvm.tir.stmt import AttrStmt, BufferStore, Evaluate, For, IfThenElse, SeqStmt, seq

for call in ("sync", "read_barrier", "write_barrier", "dep_push", "dep_pop"):
    register_op_attr(f"tir.cop.coproc_{call}", "TGlobalSymbol", f"cop_{call}")
    register_op_attr(f"tir.cop.coproc_{call}", "TCallEffectKind", CallEffectKind.Opaque)

AXIS = te.thread_axis((0, 1), "cop")
MEMORY = tir.decl_buffer((64,), "int32", "memory")
FLAG = te.var("flag")


def work(queue, stmt):
    return AttrStmt(AXIS, "coproc_scope", const(queue), stmt)


def synced(body, params=(FLAG,)):
    mod = tvm.IRModule.from_expr(tir.PrimFunc([*params, MEMORY.data], body))
    return tvm.tir.transform.CoProcSync()(mod)["main"].body


def name_of(stmt):
    """What a call of the coprocessor's is: sync, dep_push, ..."""
    name = getattr(getattr(getattr(stmt, "value", None), "op", None), "name", "")
    return name.removeprefix("tir.cop.coproc_") if name.startswith("tir.cop.") else ""


class Run:
    """Runs a program. Each queue knows the works that came before its next one, through its own past and tokens."""

    def __init__(self, flag):
        self.flag = flag
        self.works = 0
        self.known = {q: set() for q in range(4)}
        self.tokens = {}
        self.pending = []  # what the coprocessor may still be doing: (element, writes)
        self.waits = 0
        self.unseen = {"program": set(), "coprocessor": set()}  # elements one side has written and the other not seen

    def run(self, node, values, queue=None):
        if isinstance(node, SeqStmt):
            for part in node.seq:
                self.run(part, values, queue)
        elif isinstance(node, For):
            for i in range(int(node.extent)):
                self.run(node.body, {**values, node.loop_var: const(i)}, queue)
        elif isinstance(node, IfThenElse):
            case = node.then_case if self.flag else node.else_case
            if case is not None:
                self.run(case, values, queue)
        elif isinstance(node, AttrStmt):
            assert queue is None
            self.run(node.body, values, int(node.value))
        elif name_of(node):
            self.call(name_of(node), node.value.args, values)
        elif isinstance(node, BufferStore):
            self.access(node, values, queue)
        else:
            assert isinstance(node, Evaluate)

    def call(self, name, args, values):
        if name == "sync":
            self.pending.clear()
            self.waits += 1
        elif name == "dep_push":
            self.tokens.setdefault(tuple(int(a) for a in args), []).append(set(self.known[int(args[0])]))
        elif name == "dep_pop":
            self.known[int(args[1])] |= self.tokens[tuple(int(a) for a in args)].pop(0)
        else:
            data, bits, first, count = args
            first, count = (int(tvm.arith.Analyzer().simplify(substitute(e, values))) for e in (first, count))
            assert data is MEMORY.data and int(bits) == 32
            side = "program" if name == "read_barrier" else "coprocessor"
            self.unseen[side] -= set(range(first, first + count))

    def access(self, node, values, queue):
        at = lambda e: int(tvm.arith.Analyzer().simplify(substitute(e, values)))
        found = [(at(n.indices[0]), False) for n in post_order(node.value) if isinstance(n, BufferLoad)]
        found.append((at(node.indices[0]), True))
        if queue is None:
            assert not [x for x in found for p in self.pending if x[0] == p[0] and (x[1] or p[1])], node
        else:
            assert self.known[queue] == set(range(self.works)), f"queue {queue} does not wait before {node}"
            self.known[queue].add(self.works)
            self.works += 1
            self.pending += found
        other, own = ("program", "coprocessor") if queue is not None else ("coprocessor", "program")
        for element, writes in found:
            assert writes or element not in self.unseen[other], f"{node} reads what the {other} wrote"
            if writes:
                self.unseen[own].add(element)
                self.unseen[other].discard(element)

    def end(self):
        assert not any(self.tokens.values()) and self.waits


def check(body):
    new = synced(body)
    for flag in (False, True):
        run = Run(flag)
        run.run(new, {})
        run.end()
    return new


def program(rng, loops, depth=3):
    """Statements of the program and of three queues, in loops and branches."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("loop", "branch", "host", "work", "work", "work") if depth else ("host", "work", "work"))
        if kind == "loop":
            var = te.var(f"i{len(loops)}")
            parts.append(For(var, 0, rng.randint(1, 3), 0, program(rng, [*loops, var], depth - 1)))
        elif kind == "branch":
            cases = [program(rng, loops, depth - 1) for _ in range(rng.randint(1, 2))]
            parts.append(IfThenElse(FLAG > 0, *cases))
        else:
            index = lambda: sum((v * rng.randint(1, 3) for v in loops), const(rng.randint(0, 9)))
            store = BufferStore(MEMORY, MEMORY[index()] + 1, [index()])
            parts.append(store if kind == "host" else work(rng.randint(0, 2), store))
    return seq(*parts)


@pytest.mark.parametrize("case", range(60))
def test_random_programs(case, seed):
    rng = random.Random(f"{seed} {case}")
    body = program(rng, [])
    if not [n for n in post_order(body) if isinstance(n, AttrStmt)]:
        body = seq(body, work(1, BufferStore(MEMORY, const(0), [0])))
    check(body)


def test_a_loop_hands_its_work_from_queue_to_queue():
    i, n = te.var("i"), te.var("n")
    store = BufferStore(MEMORY, const(1), [i])
    body = For(i, 0, n, 0, seq(work(1, store), work(2, store)))
    sequence, end = synced(body, (n,)).seq[:-1], synced(body, (n,)).seq[-1]
    calls = [(name_of(s), *map(int, s.value.args)) if name_of(s) else type(s).__name__ for s in sequence]
    # The first iteration takes a token that nobody of the loop has left; the last one leaves a token over.
    assert calls == [("dep_push", 2, 1), "For", ("dep_pop", 2, 1)] and name_of(end) == "sync"
    inside = [[name_of(s) for s in scope.body.seq] for scope in sequence[1].body.seq]
    assert inside == [["dep_pop", "", "dep_push"], ["dep_pop", "", "dep_push"]]


def test_a_program_without_a_coprocessor_stays_as_it_is():
    body = BufferStore(MEMORY, const(1), [0])
    func = tir.PrimFunc([MEMORY.data], body)
    assert tvm.tir.transform.CoProcSync()(tvm.IRModule.from_expr(func))["main"].body is body


def test_what_cannot_be_synchronized_is_refused():
    store, var = BufferStore(MEMORY, const(1), [0]), te.var("k")
    other = IterVar((0, 1), "other", IterVar.ThreadIndex, "")
    for words, body in (
        (
            "exactly one axis for its coprocessor, got 2",
            seq(work(1, store), AttrStmt(other, "coproc_scope", const(1), store)),
        ),
        ("the queue of the coprocessor must be a constant integer", AttrStmt(AXIS, "coproc_scope", FLAG, store)),
        ("a while loop cannot contain work of a coprocessor", tir.While(MEMORY[0] < 3, work(1, store))),
        (
            "elements of different sizes",
            seq(
                store,
                work(
                    1,
                    seq(
                        BufferStore(MEMORY, MEMORY[0], [0]),
                        Evaluate(
                            Call(
                                "int32",
                                Op.get("tir.call_extern"),
                                (tir.StringImm("f"), tir.decl_buffer((4,), "int8", data=MEMORY.data).access_ptr("r")),
                            )
                        ),
                    ),
                ),
            ),
        ),
    ):
        with pytest.raises(tvm.TVMError, match=words):
            synced(body, (FLAG, var))
