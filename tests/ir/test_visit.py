"""Traversal: order, sharing, depth, identity of the result."""

from __future__ import annotations

from tvm.ir.prim import Add, IntImm, Mul, Var, const
from tvm.ir.subst import substitute, uses_var, variables
from tvm.ir.visit import post_order, pre_order, rewrite, walk


def chain(n, x):
    e = x
    for _ in range(n):
        e = Add(e, const(1, "int32"))
    return e


def test_post_order_gives_operands_first_and_each_once():
    x = Var("x", "int32")
    shared = Add(x, x)
    root = Mul(shared, shared)
    order = list(post_order(root))
    assert [id(n) for n in order] == [id(x), id(shared), id(root)]
    seen = []
    walk(root, seen.append)
    assert [id(n) for n in seen] == [id(n) for n in order]


def test_pre_order_gives_users_first_and_can_stay_out():
    x, y = Var("x", "int32"), Var("y", "int32")
    inner = Mul(x, y)
    root = Add(inner, y)
    assert [id(n) for n in pre_order(root)] == [id(root), id(inner), id(x), id(y)]
    assert [id(n) for n in pre_order(root, stop=lambda n: n is inner)] == [id(root), id(inner), id(y)]


def test_rewrite_without_change_gives_the_same_object():
    root = chain(10, Var("x", "int32"))
    assert rewrite(root) is root
    assert rewrite(root, post=lambda n: None) is root


def test_rewrite_visits_shared_parts_once_and_keeps_them_shared():
    x, y = Var("x", "int32"), Var("y", "int32")
    shared = Add(x, const(1, "int32"))
    root = Mul(shared, shared)
    count = []

    def post(n):
        count.append(n)
        return y if n is x else None

    new = rewrite(root, post)
    assert new.a is new.b and new.a.a is y
    assert len(count) == 4


def test_rewrite_pre_replaces_without_going_inside():
    x = Var("x", "int32")
    inner = Add(x, const(1, "int32"))
    seen = []
    new = rewrite(Mul(inner, x), post=lambda n: seen.append(n), pre=lambda n: x if n is inner else None)
    assert new.a is x and all(n is not inner for n in seen)


def test_memo_is_shared_between_calls():
    x, y = Var("x", "int32"), Var("y", "int32")
    shared = Add(x, x)
    memo = {}
    one = rewrite(Add(shared, x), lambda n: y if n is x else None, memo=memo)
    two = rewrite(Mul(shared, shared), lambda n: y if n is x else None, memo=memo)
    assert one.a is two.a


def test_deep_chains_do_not_overflow():
    x, y = Var("x", "int32"), Var("y", "int32")
    root = chain(20000, x)
    assert sum(1 for _ in post_order(root)) == 20002
    new = substitute(root, {x: y})
    assert variables(new) == [y] and uses_var(new, [y]) and not uses_var(new, [x])


def test_substitute_takes_numbers_functions_and_axes():
    x, y = Var("x", "int64"), Var("y", "int32")
    assert isinstance(substitute(x + 1, {x: 4}).a, IntImm) and substitute(x + 1, {x: 4}).a.dtype == "int64"
    assert substitute(y + 1, lambda v: 5 if v is y else None).a.value == 5
    root = x + 1
    assert substitute(root, {}) is root and substitute(root, {y: 1}) is root


def test_post_order_follows_the_operands_it_is_told_to():
    x, y = Var("x", "int32"), Var("y", "int32")
    root = Add(Add(x, y), Add(y, x))
    assert list(post_order(root, operands=lambda n: n.children()[:1] if n is root else ())) == [root.a, root]


def test_post_order_from_several_roots_visits_what_they_share_once():
    x, y = Var("x", "int32"), Var("y", "int32")
    shared = Add(x, y)
    first, second = Add(shared, x), Add(y, shared)
    seen: set[int] = set()
    order = [n for root in (first, second) for n in post_order(root, seen=seen)]
    assert order == [x, y, shared, first, second]


def test_post_order_passes_by_what_its_taker_has_built_meanwhile():
    x = Var("x", "int32")
    below = Add(x, x)
    root = Add(below, Add(below, x))
    built: dict[int, object] = {}
    visited = []
    for node in post_order(root, built):
        visited.append(node)
        built[id(node)] = node
        if node is below:
            # Building this node built its neighbour too.
            built[id(root.b)] = root.b
    assert root.b not in [n for n in visited if n is root.b] and visited[-1] is root
