"""TVMScript text: expressions, statements, functions and modules, as TVM writes them."""

import math
import textwrap

import pytest

from tvm import tir
from tvm.ir.module import GlobalVar, IRModule
from tvm.ir.prim import CommReducer, Range
from tvm.ir.type import PointerType, PrimType, TupleType

i, j, n = tir.Var("i", "int32"), tir.Var("j", "int32"), tir.Var("n", "int32")
x, y = tir.Var("x", "float32"), tir.Var("y", "float32")


def same(node, expected, **options):
    assert node.script(**options).strip() == textwrap.dedent(expected).strip()


@pytest.mark.parametrize(
    "build,expected",
    [
        (lambda: i + 1, "i + 1"),
        (lambda: (i + 1) * 2 - (i - 3), "(i + 1) * 2 - (i - 3)"),
        (lambda: i - (j + n), "i - (j + n)"),
        (lambda: i // 4 % 3, "i // 4 % 3"),
        (lambda: tir.truncdiv(i, 4) + tir.truncmod(i, 4), "T.Div(i, 4) + T.truncmod(i, 4)"),
        (lambda: x / y, "x / y"),
        (lambda: tir.all(i < 3, tir.any(i != 2, j >= 1)), "i < 3 and (i != 2 or j >= 1)"),
        (lambda: tir.Not(i < j), "not i < j"),
        (lambda: tir.EQ(i < 3, j < 2), "(i < 3) == (j < 2)"),
        (lambda: tir.max(i, tir.min(j, 7)), "T.max(i, T.min(j, 7))"),
        (lambda: tir.Select(i > 0, x, tir.const(0, "float32")), "T.Select(i > 0, x, T.float32(0))"),
        (lambda: tir.if_then_else(i > 0, x, y), "T.if_then_else(i > 0, x, y)"),
        (lambda: i.astype("float64"), 'T.Cast("float64", i)'),
        (lambda: tir.Ramp(i, 2, 4), "T.Ramp(i, 2, 4)"),
        (lambda: tir.Broadcast(x, 8), "T.Broadcast(x, 8)"),
        (lambda: tir.Shuffle([x, y], [0, 1]), "T.Shuffle([x, y], [0, 1])"),
        (lambda: tir.Let(i, 1, i + 1), "T.Let(i + 1, where={i: 1})"),
        (lambda: tir.exp(x), "T.exp(x)"),
        (lambda: tir.call_extern("float32", "sinf", x), 'T.call_extern("float32", "sinf", x)'),
        (lambda: tir.call_packed("f", i), 'T.call_packed("f", i)'),
        (lambda: tir.type_annotation("int8"), 'T.type_annotation("int8")'),
        (lambda: tir.const(3, "int64"), "T.int64(3)"),
        (lambda: tir.const(True), "T.bool(True)"),
        (lambda: tir.const(math.inf, "float32"), 'T.float32("inf")'),
        (lambda: tir.const(-1.5, "float16"), "T.float16(-1.5)"),
        (lambda: tir.StringImm('a"b\n'), r'"a\"b\n"'),
        (lambda: tir.Add(3, 4), "T.Add(3, 4)"),
        (lambda: tir.Any(), "T.Any()"),
        (lambda: Range(0, 10), "T.Range(0, 10)"),
        (lambda: Range(i, i + 4), "T.Range(i, i + 4)"),
        (lambda: tir.IterVar((0, 8), "a", 0), 'T.iter_var(a, T.Range(0, 8), "DataPar", "")'),
        (lambda: PrimType("float32"), "T.float32"),
        (lambda: PointerType(PrimType("int32"), "global"), 'T.handle("int32", "global")'),
        (lambda: TupleType((PrimType("float32"), PrimType("int32"))), "T.Tuple(T.float32, T.int32)"),
        (lambda: GlobalVar("f"), 'I.GlobalVar("f")'),
        (lambda: CommReducer([x], [y], [x + y], [0.0]), "T.comm_reducer(lambda x, y: x + y, [T.float32(0)])"),
    ],
)
def test_expression(build, expected):
    assert str(build()) == expected


def test_reduction():
    k = tir.IterVar((0, 4), "k", tir.IterVar.CommReduce)
    same(
        tir.sum(x * 2.0, axis=k),
        "T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), source=[x * T.float32(2)], init=[], "
        'axis=[T.iter_var(k, T.Range(0, 4), "CommReduce", "")], condition=T.bool(True), value_index=0)',
    )


def test_verbose_expression_declares_its_variables():
    same(i + j, "i = T.int32()\nj = T.int32()\ni + j", verbose_expr=True)
    same(tir.SizeVar("m", "int64"), "m = T.int64(is_size_var=True)\nm", verbose_expr=True)
    a = tir.decl_buffer((128, 128), "float16", name="A")
    same(a[1, i], 'A = T.Buffer((128, 128), "float16")\ni = T.int32()\nA[1, i]', verbose_expr=True)


def test_equal_names_are_told_apart():
    assert str(tir.Var("i", "int32") + tir.Var("i", "int32")) == "i + i_1"
    assert str(tir.Var("i.outer", "int32") + tir.Var("lambda", "int32")) == "i_outer + lambda_1"


def test_deep_expression_is_written_without_recursion():
    e = i
    for k in range(20_000):
        e = e + k
    text = str(e)
    assert text.startswith("i + 1 + 2 + 3") and text.endswith("+ 19999")


def test_heavily_shared_expression_is_written_once_per_part():
    e = x
    for _ in range(64):
        e = e * e
    lines = str(e).split("\n")
    assert lines[0] == "shared: T.float32 = x * x" and len(lines) == 64


def test_vector_indices_are_slices():
    a = tir.decl_buffer((64,), name="A")
    assert str(a[tir.Ramp(i * 4, 1, 4)]) == "A[i * 4:i * 4 + 4]"
    assert str(a[tir.Ramp(0, 2, 4)]) == "A[0:8:2]"
    assert str(tir.decl_buffer((), name="S")[()]) == "S[()]"


def vector_add(attrs=None, shape=(1024,)):
    a, b = tir.decl_buffer(shape, name="A"), tir.decl_buffer(shape, name="B")
    body = tir.For(i, 0, shape[0], 0, tir.BufferStore(b, a[i] + 1.0, [i]))
    ha, hb = tir.Var("var_A", "handle"), tir.Var("var_B", "handle")
    return tir.PrimFunc([ha, hb], body, None, {ha: a, hb: b}, attrs)


def test_function_with_simple_buffers():
    same(
        vector_add({"global_symbol": "add_one", "tir.noalias": True}),
        """
        # from tvm.script import tir as T

        @T.prim_func
        def add_one(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
            T.func_attr({"tir.noalias": T.bool(True)})
            for i in range(1024):
                B[i] = A[i] + T.float32(1)
        """,
    )


def test_function_with_symbolic_shape_matches_buffers():
    same(
        vector_add(shape=(n,)),
        """
        # from tvm.script import tir as T

        @T.prim_func(private=True)
        def main(var_A: T.handle, var_B: T.handle):
            n = T.int32()
            A = T.match_buffer(var_A, (n,))
            B = T.match_buffer(var_B, (n,))
            for i in range(n):
                B[i] = A[i] + T.float32(1)
        """,
    )


def test_strides_and_offset_of_a_matched_buffer_are_its_attributes():
    s0, offset = tir.Var("s0", "int32"), tir.Var("off", "int32")
    a = tir.decl_buffer((4, 4), "int8", "A", strides=[s0, 1], elem_offset=offset, scope="shared", offset_factor=16)
    h = tir.Var("a", "handle")
    same(
        tir.PrimFunc([h], tir.Evaluate(tir.call_extern("int32", "f", a.data, s0, offset)), None, {h: a}),
        """
        # from tvm.script import tir as T

        @T.prim_func(private=True)
        def main(a: T.handle):
            A = T.match_buffer(a, (4, 4), "int8", strides=("s0", 1), scope="shared", offset_factor=16)
            T.call_extern("int32", "f", A.data, A.strides[0], A.elem_offset)
        """,
    )


def test_module_lists_functions_by_name():
    g = GlobalVar("zero")
    call = tir.PrimFunc([], tir.Evaluate(tir.Call("void", g, ())), None, None, {"global_symbol": "b"})
    zero = tir.PrimFunc([n], tir.Evaluate(n))
    same(
        IRModule({g: zero, "b": call}, attrs={"system_lib_prefix": "x"}),
        """
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            I.module_attrs({"system_lib_prefix": "x"})

            @T.prim_func
            def b():
                Module.zero()

            @T.prim_func(private=True)
            def zero(n: T.int32):
                T.evaluate(n)
        """,
    )


def test_flattened_views_are_declared_where_all_uses_are():
    a, b = tir.decl_buffer((4, 4), name="A"), tir.decl_buffer((4, 4), name="B")
    flat_a, flat_b = a.get_flattened_buffer(), b.get_flattened_buffer()
    store = tir.BufferStore(flat_b, flat_a[i * 4 + j], [i * 4 + j])
    body = tir.For(i, 0, 4, tir.ForKind.PARALLEL, tir.For(j, 0, 4, tir.ForKind.VECTORIZED, store))
    ha, hb = tir.Var("a", "handle"), tir.Var("b", "handle")
    same(
        tir.PrimFunc([ha, hb], body, None, {ha: a, hb: b}, {"global_symbol": "main"}),
        """
        # from tvm.script import tir as T

        @T.prim_func
        def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
            for i in T.parallel(4):
                for j in T.vectorized(4):
                    B_1 = T.Buffer((16,), data=B.data)
                    A_1 = T.Buffer((16,), data=A.data)
                    B_1[i * 4 + j] = A_1[i * 4 + j]
        """,
    )


def test_loops_of_every_kind():
    thread = tir.IterVar(None, "tx", tir.IterVar.ThreadIndex, "threadIdx.x")
    inner = tir.For(j, 0, 4, tir.ForKind.THREAD_BINDING, tir.Evaluate(i), thread)
    stmt = tir.For(i, 2, 6, 0, tir.For(n, 0, i, tir.ForKind.UNROLLED, inner), annotations={"pragma": 1, "a": "b"})
    same(
        stmt,
        """
        for i in T.serial(2, 8, annotations={"a": "b", "pragma": 1}):
            for n in T.unroll(i):
                for j in T.thread_binding(4, thread="threadIdx.x"):
                    T.evaluate(i)
        """,
    )


def test_scopes_need_with_only_where_something_follows():
    v = tir.Var("v", "float32")
    p = tir.Var("p", PointerType(PrimType("float32"), "local"))
    view = tir.decl_buffer((4,), name="P", data=p, scope="local")
    alloc = tir.Allocate(p, "float32", [4], True, tir.BufferStore(view, v, [0]))
    inner = tir.LetStmt(v, 10.0, tir.AttrStmt("pragma", "unroll", 1, alloc))
    other = tir.AssertStmt(i < 3, tir.StringImm("small"), tir.Evaluate(1))
    same(
        tir.SeqStmt([inner, tir.IfThenElse(i < 2, other, tir.Evaluate(0))]),
        """
        i = T.int32()
        with T.LetStmt(T.float32(10)) as v:
            T.attr("pragma", "unroll", 1)
            p = T.allocate([4], "float32", "local")
            P = T.Buffer((4,), data=p, scope="local")
            P[0] = v
        if i < 2:
            assert i < 3, "small"
            T.evaluate(1)
        else:
            T.evaluate(0)
        """,
    )


def test_let_in_a_function_is_an_annotated_assignment():
    v = tir.Var("v", "int32")
    func = tir.PrimFunc([n], tir.LetStmt(v, n * 2, tir.While(v < 3, tir.Evaluate(v))), PrimType("int32"))
    same(
        func,
        """
        # from tvm.script import tir as T

        @T.prim_func(private=True)
        def main(n: T.int32) -> T.int32:
            v: T.int32 = n * 2
            while v < 3:
                T.evaluate(v)
        """,
    )


def test_launch_and_repeated_thread_axes():
    bx = tir.IterVar(None, "blockIdx.x", 1, "blockIdx.x")
    same(
        tir.PrimFunc([], tir.AttrStmt(bx, "thread_extent", 4, tir.Evaluate(bx.var)), attrs={"global_symbol": "k"}),
        """
        # from tvm.script import tir as T

        @T.prim_func
        def k():
            blockIdx_x = T.launch_thread("blockIdx.x", 4)
            T.evaluate(blockIdx_x)
        """,
    )
    twice = tir.SeqStmt([tir.AttrStmt(bx, "thread_extent", 4, tir.Evaluate(bx.var)) for _ in range(2)])
    same(
        twice,
        """
        blockIdx_x = T.env_thread("blockIdx.x")
        with T.launch_thread(blockIdx_x, 4):
            T.evaluate(blockIdx_x)
        with T.launch_thread(blockIdx_x, 4):
            T.evaluate(blockIdx_x)
        """,
    )


def test_allocate_followed_by_its_declaration_is_one_line():
    p = tir.Var("p", PointerType(PrimType("float32"), "global"))
    b = tir.decl_buffer((8, 8), name="buffer", data=p)
    same(
        tir.Allocate(p, "float32", [8, 8], True, tir.DeclBuffer(b, tir.Evaluate(p))),
        """
        with T.decl_buffer((8, 8)) as buffer:
            T.evaluate(buffer.data)
        """,
    )


def test_realize_and_prefetch():
    a = tir.decl_buffer((128, 128), name="A")
    bounds = [Range(0, 128), Range(0, 128)]
    body = tir.SeqStmt([tir.Prefetch(a, bounds), tir.BufferStore(a, a[0, 1], [0, 0])])
    same(
        tir.BufferRealize(a, bounds, True, body),
        """
        A = T.Buffer((128, 128))
        with T.realize(A[0:128, 0:128], "global"):
            T.prefetch(A, [T.Range(0, 128), T.Range(0, 128)])
            A[0, 0] = A[0, 1]
        """,
    )


def matmul_block():
    a, b, c = (tir.decl_buffer((8, 8), name=s) for s in "ABC")
    k = tir.Var("k", "int32")
    vi, vj = (tir.IterVar((0, 8), s, 0) for s in ("vi", "vj"))
    vk = tir.IterVar((0, 8), "vk", 2)
    one = [Range.from_min_extent(v.var, 1) for v in (vi, vj, vk)]
    reads = [tir.BufferRegion(a, [one[0], one[2]]), tir.BufferRegion(b, [Range(0, 8), one[1]])]
    writes = [tir.BufferRegion(c, one[:2])]
    index = [vi.var, vj.var]
    update = tir.BufferStore(c, c[vi, vj] + a[vi, vk] * b[vk, vj], index)
    block = tir.Block([vi, vj, vk], reads, writes, "C", update, init=tir.BufferStore(c, 0.0, index))
    nest = tir.BlockRealize([i, j, k + 1], k < 7, block)
    for v in (k, j, i):
        nest = tir.For(v, 0, 8, 0, nest)
    root = tir.BlockRealize([], True, tir.Block([], [], [], "root", nest, alloc_buffers=[c]))
    ha, hb = tir.Var("a", "handle"), tir.Var("b", "handle")
    return tir.PrimFunc([ha, hb], root, None, {ha: a, hb: b}, {"global_symbol": "main"})


def test_blocks():
    same(
        matmul_block(),
        """
        # from tvm.script import tir as T

        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
            # with T.block("root"):
            C = T.alloc_buffer((8, 8))
            for i, j, k in T.grid(8, 8, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(8, k + 1)
                    T.where(k < 7)
                    T.reads(A[vi, vk], B[0:8, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
    )


def test_text_is_the_same_every_time():
    f = matmul_block()
    assert [str(f), repr(f), f.script()] == [str(f)] * 3


def test_options():
    text = vector_add({"global_symbol": "f"}).script(name="g", tir_prefix="tir", indent_spaces=2, syntax_sugar=False)
    assert "@tir.prim_func\ndef g(var_A: tir.handle, var_B: tir.handle):\n  tir.func_attr" in text
    assert "A = tir.match_buffer(var_A, (1024,))" in text
    assert (i + 1).script(int_dtype="int64") == "i + T.int32(1)"
    assert tir.Evaluate(i).script(print_line_numbers=True) == "1 i = T.int32()\n2 T.evaluate(i)"
    assert (x + 1.0).script(float_dtype="float32") == "x + 1.0"
    with pytest.raises(ValueError, match="obj_to_underline"):
        i.script(obj_to_underline=[i])
    with pytest.raises(TypeError, match="colour"):
        i.script(colour=True)


def test_show_prints(capsys):
    tir.Evaluate(3).show()
    assert capsys.readouterr().out == "T.evaluate(3)\n"
