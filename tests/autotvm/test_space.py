"""Spaces of configurations: how many there are, which index means what, how choices act on schedules."""

from __future__ import annotations

import itertools

import pytest

from tvm import te
from tvm.autotvm.task.space import (
    ConfigEntity,
    ConfigSpace,
    FallbackConfigEntity,
    OtherOptionEntity,
    SplitEntity,
)


def splits(n: int, parts: int, factors: list[int], even: bool) -> set[tuple[int, ...]]:
    """Every way to choose sizes of the inner loops, by trying all."""
    found = set()
    for sizes in itertools.product(factors, repeat=parts - 1):
        product = 1
        for s in sizes:
            product *= s
        if n % product == 0 or not even and product < n:
            found.add((-1, *sizes))
    return found


def policy_factors(n: int, policy: str) -> list[int]:
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    powers = [2**i for i in range(12) if 2**i <= n]
    return {"factors": divisors, "power2": powers, "verbose": sorted({*divisors, *powers})}[policy]


@pytest.mark.parametrize("policy", ["factors", "power2", "verbose"])
@pytest.mark.parametrize("n", [1, 7, 224, 256, 300])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_split_policies_give_every_way_to_cut(policy: str, n: int, parts: int):
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(n), policy=policy, num_outputs=parts)
    got = [tuple(e.size) for e in cfg.space_map["tile"].entities]
    assert len(set(got)) == len(got)
    assert set(got) == splits(n, parts, policy_factors(n, policy), policy == "factors")


def test_counts_that_classic_tvm_has():
    cfg = ConfigSpace()
    for name, n, policy, count in (
        ("a", 256, "factors", 45),
        ("b", 256, "power2", 45),
        ("c", 256, "verbose", 45),
        ("d", 224, "factors", 63),
        ("e", 224, "power2", 36),
        ("f", 224, "verbose", 84),
    ):
        cfg.define_split(name, cfg.axis(n), policy=policy, num_outputs=3)
        assert len(cfg.space_map[name]) == count, (n, policy)


def test_split_filters_and_limits():
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(64), num_outputs=3, max_factor=8, filter=lambda e: e.size[2] >= 4)
    sizes = [e.size for e in cfg.space_map["tile"].entities]
    assert sizes and all(max(s[1:]) <= 8 and s[2] >= 4 for s in sizes)
    cfg.define_split("given", cfg.axis(64), policy="candidate", candidate=[[32, 2], [2, 32]])
    assert [e.size for e in cfg.space_map["given"].entities] == [[32, 2], [2, 32]]
    with pytest.raises(RuntimeError, match="policy"):
        cfg.define_split("wrong", cfg.axis(64), policy="sideways")
    with pytest.raises(RuntimeError, match="sizes"):
        cfg.define_split("wrong", cfg.axis(64), policy="candidate", candidate=[[1, 2, 3]])


def space_of_three() -> ConfigSpace:
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(12), num_outputs=2)
    cfg.define_reorder("order", [cfg.axis(2), cfg.axis(3), cfg.axis(4)], policy="all")
    cfg.define_knob("unroll", [0, 16, 64])
    return cfg


def test_index_is_a_number_in_mixed_radix():
    cfg = space_of_three()
    assert cfg.dims == [6, 6, 3] and len(cfg) == 108
    seen = set()
    for index in range(108):
        knob = cfg.point2knob(index)
        assert cfg.knob2point(knob) == index
        config = cfg.get(index)
        assert config.index == index
        assert cfg.index_of(config.values()) == index
        seen.add(str(config.values()))
    assert len(seen) == 108
    with pytest.raises(IndexError, match="is out of range for a space of 108"):
        cfg.get(108)


def test_filters_over_several_knobs():
    cfg = space_of_three()
    cfg.multi_filter(lambda config: config["unroll"].val != 16 or config["tile"].size[-1] == 1)
    kept = [i for i in range(cfg.range_length) if cfg.point2knob(i)[2] != 1 or cfg.point2knob(i)[0] == 0]
    assert len(cfg) == len(kept) == cfg.subrange_length(0, 108)
    assert [i for i in range(108) if cfg.is_index_valid(i)] == kept
    assert all(cfg.is_index_valid(i) for i in cfg.sample_ints(40))
    assert len(set(cfg.sample_ints(1000))) == len(kept)
    walk = kept[0]
    for _ in range(50):
        step = cfg.random_walk(walk)
        assert cfg.is_index_valid(step)
        walk = step
    assert cfg.get_next_index(kept[3]) == kept[4] and cfg.get_next_index(kept[3], -2) == kept[1]
    assert cfg.get_next_index(kept[-1]) is None
    assert cfg.get_rand_index(to_exclude=set(kept[1:])) == kept[0]
    with pytest.raises(IndexError, match="a filter of the space rejects index"):
        cfg.get(next(i for i in range(108) if i not in kept))


def test_a_knob_that_is_defined_again_is_another_knob():
    cfg = ConfigSpace()
    cfg.define_split("y", cfg.axis(128), num_outputs=2)
    cfg.define_split("x", cfg.axis(128), num_outputs=2)
    cfg.multi_filter(lambda config: 32 <= config["x"].size[1] * config["y"].size[1] < 1024)
    assert (len(cfg), cfg.range_length) == (34, 64)
    cfg.define_split("y", cfg.axis(128), num_outputs=2, filter=lambda y: y.size[-1] < 64)
    assert (len(cfg), cfg.range_length) == (27, 48)
    by_hand = FallbackConfigEntity()
    for _ in range(2):
        by_hand.define_split("n", by_hand.axis(128), num_outputs=3)
        by_hand.fallback_split("n", [-1, 8, 4])
    by_hand.define_split("n", by_hand.axis(128), num_outputs=3)
    assert by_hand["n"].size == [4, 8, 4]


def test_json_keeps_a_configuration():
    cfg = space_of_three()
    cfg.define_annotate("ann", [cfg.axis(2), cfg.axis(4)], policy="try_unroll_vec")
    config = cfg.get(77)
    row = config.to_json_dict()
    assert [kind for _, kind, _ in row["entity"]] == ["sp", "re", "ot", "an"]
    back = ConfigEntity.from_json_dict(row)
    assert back == config and back.index == 77 and back.to_json_dict() == row
    assert len(config.get_flatten_feature()) == 2 + 3 + 1 + 2


def words(cfg: ConfigSpace, name: str) -> list:
    return [e.value for e in cfg.space_map[name].entities]


def test_annotations_that_are_tried():
    cfg = ConfigSpace()
    axes = [cfg.axis(4), cfg.axis(8)]
    cfg.define_annotate("both", axes, policy="try_unroll_vec")
    every = set(itertools.product(["none", "unroll", "vec"], repeat=2)) - {("vec", "vec")}
    assert set(map(tuple, words(cfg, "both"))) == every and len(cfg.space_map["both"]) == 8
    cfg.define_annotate("vec", axes, policy="try_vec")
    assert words(cfg, "vec") == [["none", "none"], ["none", "vec"], ["vec", "none"]]
    cfg.define_annotate("unroll", axes, policy="try_unroll")
    assert len(cfg.space_map["unroll"]) == 4
    cfg.define_annotate("given", axes, policy="candidate", candidate=[["vec", "none"]])
    assert words(cfg, "given") == [["vec", "none"]]
    with pytest.raises(RuntimeError, match="policy"):
        cfg.define_annotate("wrong", axes, policy="try_everything")


def test_annotations_for_threads_and_places():
    cfg = ConfigSpace()
    cfg.define_annotate("gpu", [cfg.axis(1)] * 4, policy="bind_gpu")
    assert cfg["gpu"].anns == ["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]
    cfg.define_annotate("more", [cfg.axis(1)] * 5, policy="bind_gpu")
    assert cfg["more"].anns == ["fuse", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]
    cfg.define_annotate("virtual", [cfg.axis(1)] * 3, policy="bind_gpu_virtual")
    assert cfg["virtual"].anns == ["blockIdx.x", "vthread", "threadIdx.x"]
    cfg.define_annotate("at", [cfg.axis(1)] * 3, policy="locate_cache", num_anchor=2)
    assert words(cfg, "at") == [[0, 1], [0, 2], [1, 2]]
    with pytest.raises(RuntimeError, match="axes are not enough"):
        cfg.define_annotate("none", [cfg.axis(1)], policy="bind_gpu")


def test_threads_and_places_act_on_a_schedule():
    a = te.placeholder((4, 6, 8), name="a")
    b = te.compute(a.shape, lambda i, j, k: a[i, j, k] * 2, name="b")
    s = te.create_schedule(b.op)
    far = s.cache_read(a, "shared", [b])
    near = s.cache_read(far, "local", [b])
    cfg = ConfigSpace()
    axes = list(s[b].op.axis)
    cfg.define_annotate("bind", axes, policy="bind_gpu")
    cfg.define_annotate("at", axes[:2], policy="locate_cache", num_anchor=1)
    left = cfg["bind"].apply(s, b, axes)
    assert len(left) == 2 and list(s[b].leaf_iter_vars) == left
    tags = [s[b].iter_var_attrs[x].bind_thread.thread_tag for x in left]
    assert tags == ["blockIdx.x", "threadIdx.x"]
    config = cfg.get(cfg.knob2point([0, 1]))
    config["at"].apply(s, b, left, source=[[near, far]])
    assert s[near].attach_ivar is left[1] and s[far].attach_ivar is left[1]
    with pytest.raises(ValueError, match="source"):
        config["at"].apply(s, b, left)


def orders(cfg: ConfigSpace, name: str) -> list[list[int]]:
    return [e.value for e in cfg.space_map[name].entities]


def test_orders_of_every_policy():
    cfg = ConfigSpace()
    a, b, c, d = (cfg.axis(n) for n in (2, 3, 4, 5))
    cfg.define_reorder("same", [a, b], policy="identity")
    assert orders(cfg, "same") == [[0, 1]]
    cfg.define_reorder("part", [a, b, c, d], policy="interval_all", interval=(1, 3))
    assert orders(cfg, "part") == [[0, 1, 2, 3], [0, 2, 1, 3]]
    cfg.define_reorder("given", [a, b, c], policy="candidate", candidate=[[c, a, b]])
    assert orders(cfg, "given") == [[2, 0, 1]]
    # Axes y and x in two loops each (0, 1 and 2, 3), the sum in two (4, 5).
    yo, yi, xo, xi, ko, ki = axes = [cfg.axis(2) for _ in range(6)]
    chains = {"spatial": [[yo, yi], [xo, xi]], "reduce": [[ko, ki]]}
    cfg.define_reorder("mixed", axes, policy="interleave", **chains)
    got = orders(cfg, "mixed")
    wanted = [list(p) for p in itertools.permutations(range(6))
              if set(p[:2]) == {0, 2} and p.index(4) < p.index(5)]  # fmt: skip
    assert len(got) == len(wanted) == 24 and sorted(got) == sorted(wanted)
    cfg.define_reorder("apart", axes, policy="interleave_cuda", **chains)
    assert sorted(orders(cfg, "apart")) == sorted([*o, 4, 5, *i] for o in ([0, 2], [2, 0]) for i in ([1, 3], [3, 1]))
    with pytest.raises(RuntimeError, match="policy"):
        cfg.define_reorder("wrong", [a, b], policy="backwards")


def test_entities_act_on_a_schedule():
    a = te.placeholder((32, 24), name="a")
    b = te.compute((32, 24), lambda i, j: a[i, j] + 1, name="b")
    s = te.create_schedule(b.op)
    cfg = ConfigSpace()
    i, j = s[b].op.axis
    cfg.define_split("ti", i, num_outputs=3)
    cfg.define_split("tj", j, num_outputs=2)
    cfg.define_reorder("order", [i, j, i, j, i], policy="candidate", candidate=[[0, 3, 1, 2, 4]])
    cfg.define_annotate("ann", [i, j], policy="try_unroll_vec")
    at = words(cfg, "ann").index(["unroll", "vec"])
    config = cfg.get(cfg.knob2point([4, 3, 0, at]))
    loops = config["ti"].apply(s, b, i) + config["tj"].apply(s, b, j)
    order = config["order"].apply(s, b, loops)
    assert [loops.index(x) for x in order] == [0, 3, 1, 2, 4]
    config["ann"].apply(s, b, order[-2:])
    assert list(s[b].leaf_iter_vars) == order
    assert s[b].iter_var_attrs[order[-2]].iter_type == te.schedule.IterVar.Unrolled
    assert s[b].iter_var_attrs[order[-1]].iter_type == te.schedule.IterVar.Vectorized


def test_fallback_splits_as_near_as_it_can():
    cfg = FallbackConfigEntity()
    cfg.define_split("tile", cfg.axis(128), num_outputs=3)
    cfg.fallback_split("tile", [-1, 8, 4])
    assert cfg["tile"].size == [4, 8, 4]
    cfg.define_split("odd", cfg.axis(49), num_outputs=3)
    cfg.fallback_split("odd", [-1, 8, 4])
    assert cfg["odd"].size == [7, 7, 1]
    with pytest.raises(RuntimeError, match="sizes must be positive, and one may be -1"):
        cfg.fallback_split("odd", [-1, 1, 0])
    with pytest.raises(RuntimeError, match="'nothing' is not a split knob"):
        cfg.fallback_split("nothing", [-1, 1])
    cfg["set"] = SplitEntity([-1, 16])
    cfg.define_split("set", cfg.axis(64), num_outputs=2)
    assert cfg["set"].size == [-1, 16]
    with pytest.raises(KeyError, match="tile"):
        cfg["missing"]


def test_axes_have_constant_lengths():
    n = te.var("n")
    with pytest.raises(RuntimeError, match="constant"):
        ConfigSpace().define_split("tile", te.reduce_axis((0, n), name="k"))


def test_filters_on_arrays_keep_the_same_as_one_by_one():
    cfg = space_of_three()
    cfg.array_filter(lambda values: (values["unroll"] != 16) | (values["unroll"] == 0))
    kept = [i for i in range(cfg.range_length) if cfg.point2knob(i)[2] != 1]
    assert len(cfg) == len(kept) and [i for i in range(108) if cfg.is_index_valid(i)] == kept
    assert sorted(cfg.sample_ints(1000)) == kept and cfg.subrange_length(0, 50) == sum(i < 50 for i in kept)
    cfg.multi_filter(lambda config: config["tile"].size[-1] == 1)
    assert len(cfg) == sum(cfg.point2knob(i)[0] == 0 for i in kept)


def test_fallback_takes_the_record_of_the_nearest_workload():
    class Record:
        def __init__(self, size: int, sizes: list[int], word: int):
            self.task, self.config = self, ConfigEntity(0, None, {"tile": SplitEntity(sizes),
                                                                  "unroll": OtherOptionEntity(word)})  # fmt: skip
            self.workload = ("matmul", size, size)

    cfg = FallbackConfigEntity()
    vars(cfg)["workload"] = ("matmul", 96, 96)
    cfg.define_split("tile", cfg.axis(96), num_outputs=3)
    cfg.define_knob("unroll", [0, 16])
    cfg.fallback_with_reference_log([(Record(8, [-1, 2, 2], 0), None), (Record(128, [-1, 8, 16], 16), None)])
    assert cfg["tile"].size == [1, 6, 16] and cfg["unroll"].val == 16
