"""Structural equality and hash."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

import tvm.ir.primop
from tvm import relay
from tvm.ir.attrs import DictAttrs
from tvm.ir.module import GlobalVar, IRModule
from tvm.ir.prim import Add, CommReducer, FloatImm, IntImm, IterVar, Let, Mul, Range, Reduce, SizeVar, Sub, Var, const
from tvm.ir.serialize import load_json, save_json
from tvm.ir.structural import (
    ObjectPath,
    assert_structural_equal,
    find_mismatch,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
    structural_key,
)
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt


def same(a, b, **kw) -> bool:
    """Equality both ways, with the hash in agreement when equal."""
    got = structural_equal(a, b, **kw)
    assert got == structural_equal(b, a, **kw)
    if got:
        assert structural_hash(a, **kw) == structural_hash(b, **kw)
        assert structural_key(a, **kw) == structural_key(b, **kw)
    else:
        assert structural_hash(a, **kw) != structural_hash(b, **kw)
    return got


def copy_function(n=16, names=("A", "B", "i"), op=lambda v: v + 1.0, symbol="f"):
    a = decl_buffer((n,), "float32", names[0])
    b = decl_buffer((n,), "float32", names[1])
    i = Var(names[2], "int32")
    loop = For(i, 0, n, 0, BufferStore(b, op(a[i]), (i,)))
    return PrimFunc([a, b], loop, attrs={"global_symbol": symbol})


def test_names_of_variables_and_buffers_do_not_matter():
    assert same(copy_function(), copy_function(names=("X", "Y", "j")))


def test_extent_operator_constant_and_attributes_matter():
    base = copy_function()
    assert not same(base, copy_function(n=17))
    assert not same(base, copy_function(op=lambda v: v * 2.0))
    assert not same(base, copy_function(op=lambda v: v + 1.5))
    assert not same(base, copy_function(symbol="g"))


def test_swapped_buffers_differ():
    a, b = decl_buffer((4,), name="a"), decl_buffer((4,), name="b")
    c, d = decl_buffer((4,), name="a"), decl_buffer((4,), name="b")
    one = PrimFunc([a, b], BufferStore(a, b[0], (0,)))
    two = PrimFunc([c, d], BufferStore(d, c[0], (0,)))
    assert not same(one, two)


def test_free_variables_are_equal_only_to_themselves_unless_mapped():
    x, y = Var("x", "int32"), Var("y", "int32")
    assert same(x + 1, x + 1)
    assert not same(x + 1, y + 1)
    assert same(x + 1, y + 1, map_free_vars=True)
    assert not same(x + y, x + x, map_free_vars=True)
    assert same(x + y, y + x, map_free_vars=True)
    assert not same(x + x, Var("x", "int64") + 1, map_free_vars=True)


def test_mapping_is_one_to_one():
    x, y, z = Var("x", "int32"), Var("y", "int32"), Var("z", "int32")
    assert not same(x + y, z + z, map_free_vars=True)


def test_size_variable_is_not_a_variable():
    assert not same(Var("n", "int32"), SizeVar("n", "int32"), map_free_vars=True)


def test_sharing_does_not_matter():
    x = Var("x", "int32")
    shared = Add(x, const(1, "int32"))
    assert same(shared * shared, Add(x, const(1, "int32")) * Add(x, const(1, "int32")))


def test_an_operator_used_twice_is_not_two_operators():
    x = relay.var("x", shape=(2,))

    def equal(a, b) -> bool:
        got = {structural_equal(*pair, map_free_vars=free) for pair in ((a, b), (b, a)) for free in (False, True)}
        assert len(got) == 1
        return got.pop()

    def once():
        y = relay.add(x, x)
        return relay.add(y, y)

    def twice():
        return relay.add(relay.add(x, x), relay.add(x, x))

    assert equal(once(), once()) and equal(twice(), twice()) and not equal(once(), twice())
    # Beside an object that both sides have, which is looked into before and after the other operands.
    e = relay.exp(x)
    log = relay.log(e)
    for order in (1, -1):
        left, own, other = (relay.Tuple([log, relay.sin(v)][::order]) for v in (e, e, relay.exp(x)))
        assert equal(left, own) and not equal(left, other)


def test_a_doubling_dag_takes_linear_time():
    def doubled(levels):
        e = x
        for _ in range(levels):
            e = Add(e, e)
        return e

    x = Var("x", "int32")
    assert same(doubled(200), doubled(200))
    assert not same(doubled(200), doubled(201))


def test_a_deep_chain_does_not_overflow():
    def chain(n):
        e = x
        for i in range(n):
            e = Add(e, const(i % 7 + 1, "int32"))
        return e

    x = Var("x", "int32")
    assert same(chain(20000), chain(20000))


def test_same_object_under_a_renamed_variable_differs():
    x, y = Var("x", "int32"), Var("y", "int32")
    body = x + 1
    assert not same(Let(x, 1, body), Let(y, 1, body))
    assert same(Let(x, 1, body), Let(y, 1, y + 1))


def test_one_buffer_twice_is_not_two_buffers():
    a, b = decl_buffer((4,), name="a"), decl_buffer((4,), name="b")
    assert not same(a[0] + b[0], a[0] + a[0])
    assert same(a[0] + b[0], b[0] + a[0])


@pytest.mark.parametrize("pair", [(1.0, 1.0 + 1e-12), (0.0, -0.0), (float("nan"), 0.0)])
def test_float_literals_compare_by_bits(pair):
    a, b = (FloatImm("float64", v) for v in pair)
    assert not same(a, b)
    assert same(a, FloatImm("float64", pair[0]))


def test_literals_of_different_type_differ():
    assert not same(IntImm("int32", 1), IntImm("int64", 1))
    assert not same(const(-1, "int32"), const(-2, "int32"))
    assert not same(const(True, "bool"), const(1, "int32"))


def test_reduction_axes_are_matched():
    def total(name):
        k = IterVar(Range(0, 8), name, IterVar.CommReduce)
        x, y = Var("x", "int32"), Var("y", "int32")
        combiner = CommReducer((x,), (y,), (x + y,), (const(0, "int32"),))
        return Reduce(combiner, (k.var * 2,), (k,), const(True, "bool"), 0, ())

    assert same(total("k"), total("r"))


def test_definitions_in_statements_are_matched():
    def program(name, limit=3):
        v, p = Var(name, "int32"), Var(name + "_data", "handle")
        store = IfThenElse(v < limit, Evaluate(v + 1))
        return LetStmt(v, 5, Allocate(p, "float32", (v,), True, SeqStmt((store, Evaluate(v)))))

    assert same(program("a"), program("b"))
    assert not same(program("a"), program("b", 4))


def test_attribute_statement_with_thread_axis_defines_its_variable():
    def program(name):
        axis = IterVar(None, Var(name, "int32"), IterVar.ThreadIndex, "threadIdx.x")
        return AttrStmt(axis, "thread_extent", const(32, "int32"), Evaluate(axis.var + 1))

    assert same(program("tx"), program("ty"))


def test_modules_compare_by_function_name():
    one = IRModule({"f": copy_function(), "g": copy_function(n=3)})
    two = IRModule({GlobalVar("g"): copy_function(n=3), GlobalVar("f"): copy_function()})
    assert same(one, two)
    assert not same(one, IRModule({"f": copy_function(), "h": copy_function(n=3)}))


def test_dictionaries_take_literals_and_python_values_alike():
    assert same(DictAttrs(a=1, b="x", c=[1, 2]), {"a": IntImm("int32", 1), "b": "x", "c": (IntImm("int64", 1), 2)})
    assert not same(DictAttrs(a=1), DictAttrs(a=2))
    assert not same(DictAttrs(a=1), DictAttrs(b=1))


def test_lists_and_python_numbers():
    x = Var("x", "int32")
    assert same([x, 1], (x, 1))
    assert same(const(3, "int32"), 3)
    assert not same([x], [x, x])


def test_arrays_compare_by_content():
    numpy = pytest.importorskip("numpy")
    assert same({"a": numpy.arange(3)}, {"a": numpy.arange(3)})
    assert not same({"a": numpy.arange(3)}, {"a": numpy.arange(3).astype("int32")})


def test_mismatch_names_the_path_and_both_sides():
    one, two = copy_function(), copy_function(op=lambda v: v + 2.0)
    place = r"<root>\.body\.body\.value\.b\.value"
    with pytest.raises(ValueError, match=rf"StructuralEqual check failed at {place}: float32 1\.0 against 2\.0"):
        assert_structural_equal(one, two)
    left, right = get_first_structural_mismatch(one, two)
    assert str(left) == str(right) == "<root>.body.body.value.b.value"
    assert get_first_structural_mismatch(one, copy_function()) is None


def test_mismatch_shows_the_missing_element_of_a_sequence():
    one = SeqStmt((Evaluate(1), Evaluate(2)))
    got = find_mismatch(one, SeqStmt((Evaluate(1), Evaluate(2), Evaluate(3))))
    assert got.lhs_path == ObjectPath.root().attr("seq").missing_array_element(2)
    assert got.rhs_path == ObjectPath.root().attr("seq").array_index(2)
    assert str(find_mismatch(one, SeqStmt((Evaluate(9),))).lhs_path) == "<root>.seq[0].value.value"


def test_mismatch_in_a_dictionary_names_the_key_of_each_side():
    mod = IRModule({"f": copy_function()})
    with pytest.raises(ValueError, match=r'<root>\.functions\[I\.GlobalVar\("f"\)\]\.body\.body\.value\.b\.value: '):
        assert_structural_equal(mod, IRModule({"f": copy_function(op=lambda v: v + 3.0)}))
    left, right = get_first_structural_mismatch(mod, IRModule({"f": copy_function(), "g": copy_function()}))
    assert str(left) == "<root>.functions[<missing entry>]" and str(right) == '<root>.functions[I.GlobalVar("g")]'


def test_mismatch_of_buffers_of_parameters_goes_by_variable_not_by_name():
    x, y = Var("x", "handle"), Var("x", "handle")
    one, two = decl_buffer((10, 10)), decl_buffer((10, 20))
    left, right = get_first_structural_mismatch(
        PrimFunc([x], Evaluate(0), buffer_map={x: one}), PrimFunc([x], Evaluate(0), buffer_map={x: one, y: two})
    )
    assert left == ObjectPath.root().attr("buffer_map").missing_map_entry()
    assert right == ObjectPath.root().attr("buffer_map").map_value(y)
    assert right != ObjectPath.root().attr("buffer_map").map_value(x)


def test_mismatch_of_a_parameter_type():
    x, a, b = Var("x", "int32"), Var("y", "int32"), Var("z", "float32")
    got = find_mismatch(PrimFunc([x, a], Evaluate(x)), PrimFunc([x, b], Evaluate(x)))
    assert got.lhs_path == got.rhs_path == ObjectPath.root().attr("params").array_index(1).attr("dtype")
    got = find_mismatch(PrimFunc([x, a], Evaluate(x)), PrimFunc([x], Evaluate(x)))
    assert got.rhs_path == ObjectPath.root().attr("params").missing_array_element(1)


def test_assert_passes_on_equal_programs():
    assert_structural_equal(copy_function(), copy_function(names=("p", "q", "r")))


def test_hash_is_the_same_in_every_process():
    code = (
        "import tvm.ir.primop\nfrom tvm.ir.prim import Var\nfrom tvm.ir.structural import structural_hash\n"
        "x = Var('x', 'int32')\nprint(structural_hash({'a': (x + 1) * 2, 'b': 'text', 'c': {3, 1, 2}}))"
    )
    out = set()
    for seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        out.add(done.stdout)
    assert len(out) == 1
    x = Var("x", "int32")
    assert out.pop().strip() == str(structural_hash({"a": (x + 1) * 2, "b": "text", "c": {3, 1, 2}}))


def test_object_path_prefixes_and_text():
    path = ObjectPath.root().attr("body").array_index(2).map_value("k")
    assert str(path) == '<root>.body[2]["k"]'
    assert len(path) == 4
    assert path.get_prefix(2) == ObjectPath.root().attr("body")
    assert ObjectPath.root().attr("body").is_prefix_of(path)
    assert not ObjectPath.root().attr("other").is_prefix_of(path)
    with pytest.raises(IndexError, match="prefixes of length 1 to 4, got 5"):
        path.get_prefix(5)
    assert path.parent == ObjectPath.root().attr("body").array_index(2)


def random_expression(rng, pool, size):
    """A graph of ``size`` operations over a pool of variables, with sharing and lets."""
    made = [*pool, const(rng.randint(0, 2), "int32")]
    for _ in range(size):
        a, b = rng.choice(made), rng.choice(made)
        kind = rng.randrange(4)
        if kind == 3:
            v = Var("v", "int32")
            made.append(Let(v, a, Add(v, b)))
        else:
            made.append((Add, Mul, Sub)[kind](a, b))
    return made[-1]


def canonical_text(node, names, outside):
    """The oracle: a tree written out, variables numbered where they are defined (or first met, for those outside)."""
    if isinstance(node, Var):
        return names.get(node) or outside(node, names)
    if isinstance(node, IntImm):
        return str(node.value)
    if isinstance(node, Let):
        value_names = names
        names[node.var] = names.get(node.var) or f"#{len(names)}"
        value = canonical_text(node.value, value_names, outside)
        return f"let({names[node.var]},{value},{canonical_text(node.body, names, outside)})"
    left = canonical_text(node.a, names, outside)
    return f"{type(node).__name__}({left},{canonical_text(node.b, names, outside)})"


@pytest.mark.parametrize("map_free_vars", [False, True])
def test_equality_agrees_with_written_out_trees(map_free_vars, seed):
    rng = random.Random(seed)
    pool = [Var(name, "int32") for name in "xyz"]

    def outside(var, names):
        if not map_free_vars:
            return var.name
        names[var] = f"#{len(names)}"
        return names[var]

    equal = 0
    for number in range(400):
        once = rng.getrandbits(32)
        # Every other pair is made from the same numbers: equal up to the variables the lets make.
        a, b = (
            random_expression(random.Random(s), pool[: 1 + s % 3], 1 + s % 4)
            for s in (once, rng.getrandbits(32) if number % 2 else once)
        )
        wanted = canonical_text(a, {}, outside) == canonical_text(b, {}, outside)
        assert same(a, b, map_free_vars=map_free_vars) == wanted, (seed, a, b)
        equal += wanted
    assert 200 <= equal < 400, seed


def test_random_graphs_survive_json(seed):
    rng = random.Random(seed)
    pool = [Var(name, "int32") for name in "xyz"]
    for _ in range(50):
        e = random_expression(rng, pool, rng.randint(1, 30))
        assert same(e, load_json(save_json(e)), map_free_vars=True), seed


def test_sizes_of_types_are_equal_by_value_whatever_their_integer_type():
    narrow, wide = (tvm.ir.TensorType([tvm.tir.const(n, dtype) for n in (2, 3)]) for dtype in ("int32", "int64"))
    other = tvm.ir.TensorType((2, 4))
    assert tvm.ir.structural_equal(narrow, wide) and tvm.ir.structural_hash(narrow) == tvm.ir.structural_hash(wide)
    assert not tvm.ir.structural_equal(wide, other)
    a, b, c = (tvm.relay.Function([x], x) for x in (tvm.relay.Var("x", t) for t in (narrow, wide, other)))
    assert tvm.ir.structural_equal(a, b) and tvm.ir.structural_hash(a) == tvm.ir.structural_hash(b)
    assert not tvm.ir.structural_equal(b, c)
