"""Passes, contexts, pipelines."""

from __future__ import annotations

import sys
import threading

import pytest

from tvm.ir import transform
from tvm.ir.instrument import pass_instrument
from tvm.ir.module import IRModule
from tvm.ir.prim import Var
from tvm.ir.transform import (
    PASSES,
    FunctionPass,
    ModulePass,
    PassContext,
    PassInfo,
    Sequential,
    function_pass_factory,
    module_pass,
    run_pipeline,
)
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Evaluate


class PrimFuncPass(FunctionPass):
    function_type = PrimFunc


prim_func_pass = function_pass_factory(PrimFuncPass, "prim_func_pass")


def one_function(name="main", value=0):
    return IRModule({name: PrimFunc([], Evaluate(value), attrs={"global_symbol": name})})


def marker(name, opt_level=0, required=None, log=None):
    """A pass that appends its name to the attribute 'ran' (and to ``log``)."""

    def mark(mod, ctx):
        if log is not None:
            log.append(name)
        return mod.with_attr("ran", [*(mod.get_attr("ran") or ()), name])

    return ModulePass(mark, PassInfo(opt_level, name, required))


def ran(mod):
    return mod.get_attr("ran") or []


def test_module_pass_from_function():
    @module_pass(opt_level=2, name="named")
    def change(mod, ctx):
        assert isinstance(ctx, PassContext)
        return mod.with_attr("seen", True)

    assert isinstance(change, ModulePass)
    assert (change.info.name, change.info.opt_level, change.info.required) == ("named", 2, ())
    assert change(one_function()).get_attr("seen")


def test_module_pass_from_class_forwards_attributes():
    @module_pass(opt_level=1)
    class Replace:
        """Text of the class."""

        def __init__(self, value):
            self.value = value

        def transform_module(self, mod, ctx):
            return mod.with_attr("value", self.value)

        def twice(self):
            return 2 * self.value

    made = Replace(3)
    assert isinstance(made, ModulePass)
    assert made.info.name == "Replace" and Replace.__doc__ == "Text of the class."
    assert made(one_function()).get_attr("value") == 3
    assert made.value == 3 and made.twice() == 6
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        made.missing


def test_function_pass_changes_only_its_functions_and_keeps_the_module_when_nothing_changed():
    @prim_func_pass(opt_level=0)
    def same(func, mod, ctx):
        return func

    @prim_func_pass(opt_level=0, name="add")
    def add(func, mod, ctx):
        assert mod["main"] is func
        return func.with_attr("x", 1)

    mod = one_function()
    assert same(mod) is mod
    new = add(mod)
    assert new["main"].attrs["x"] == 1 and "x" not in mod["main"].attrs
    assert isinstance(add, PrimFuncPass) and add.info.name == "add"


def test_function_pass_from_class_and_dropping_a_function():
    @prim_func_pass(opt_level=1)
    class Keep:
        def __init__(self, name):
            self.name = name

        def transform_function(self, func, mod, ctx):
            return func if func.attrs["global_symbol"] == self.name else None

    mod = one_function("a")
    mod["b"] = PrimFunc([], Evaluate(1), attrs={"global_symbol": "b"})
    assert [v.name_hint for v in Keep("b")(mod)] == ["b"]


def test_decorators_refuse_misuse():
    with pytest.raises(ValueError, match="module_pass: opt_level is missing"):
        module_pass(lambda mod, ctx: mod)
    with pytest.raises(ValueError, match="prim_func_pass: opt_level is missing"):
        prim_func_pass(name="x")
    with pytest.raises(TypeError, match="must define transform_module"):
        module_pass(opt_level=0)(type("Empty", (), {}))
    with pytest.raises(TypeError, match="must decorate a function or a class"):
        module_pass(opt_level=0)(3)


def test_pass_refuses_a_bare_function_and_a_bad_result():
    bad = ModulePass(lambda mod, ctx: None, PassInfo(0, "bad"))
    with pytest.raises(TypeError, match="pass bad must return an IRModule, but it returned NoneType"):
        bad(one_function())
    with pytest.raises(TypeError, match="expects an IRModule, got PrimFunc; convert a function"):
        bad(one_function()["main"])

    @prim_func_pass(opt_level=0, name="wrong")
    def wrong(func, mod, ctx):
        return func.body

    with pytest.raises(TypeError, match="pass wrong must return a PrimFunc for 'main', it returned Evaluate"):
        wrong(one_function())


def test_sequential_obeys_level_required_and_disabled():
    seq = Sequential([marker("a", 0), marker("b", 2), marker("c", 3)], opt_level=1, name="mine", required=[])
    assert seq.info.name == "mine" and seq.info.opt_level == 1 and len(seq.passes) == 3
    assert ran(seq(one_function())) == ["a", "b"]
    with PassContext(opt_level=3):
        assert ran(seq(one_function())) == ["a", "b", "c"]
    with PassContext(opt_level=0, required_pass=["c"]):
        assert ran(seq(one_function())) == ["a", "c"]
    with PassContext(opt_level=3, disabled_pass=["b"]):
        assert ran(seq(one_function())) == ["a", "c"]
    with PassContext(opt_level=3, disabled_pass=["b"], required_pass=["b"]):
        assert ran(seq(one_function())) == ["a", "c"]


def test_sequential_runs_required_passes_first():
    PASSES.register("testing.NeededFirst", lambda: marker("NeededFirst", 3))
    try:
        seq = Sequential([marker("a", required=["NeededFirst"])])
        assert ran(seq(one_function())) == ["NeededFirst", "a"]
        with pytest.raises(ValueError, match="cannot find the pass 'NeededFrist'"):
            Sequential([marker("a", required=["NeededFrist"])])(one_function())
    finally:
        PASSES.remove("testing.NeededFirst")


def test_sequential_refuses_what_is_no_pass():
    with pytest.raises(TypeError, match="it must be called to make the pass"):
        Sequential([marker])
    with pytest.raises(TypeError, match="expects a list of passes"):
        Sequential(marker("a"))


def test_contexts_nest_and_are_per_thread():
    outer = PassContext.current()
    assert outer.opt_level == 2
    with PassContext(opt_level=3, config={"tir.noalias": False}) as a:
        assert PassContext.current() is a
        with PassContext(opt_level=1) as b:
            assert PassContext.current() is b
            assert b.config == {}
        assert PassContext.current() is a
        seen = []
        thread = threading.Thread(target=lambda: seen.append(PassContext.current()))
        thread.start()
        thread.join()
        assert seen[0] is not a and seen[0].opt_level == 2
    assert PassContext.current() is outer


def test_context_is_left_when_the_block_raises():
    outer = PassContext.current()
    with pytest.raises(KeyError), PassContext(opt_level=0):
        raise KeyError
    assert PassContext.current() is outer


def test_options_are_checked_and_converted():
    ctx = PassContext(
        config={
            "tir.UnrollLoop": {"auto_max_step": 16, "explicit_unroll": 0},
            "tir.disable_vectorize": 1,
            "tir.noalias": True,
        }
    )
    unroll = ctx.config["tir.UnrollLoop"]
    assert unroll.auto_max_step == 16 and unroll["explicit_unroll"] is False and unroll.auto_max_depth == 8
    assert ctx.config["tir.disable_vectorize"] is True
    assert ctx.get_config("tir.UnrollLoop") is unroll
    assert ctx.get_config("tir.LoopPartition").partition_const_loop is False
    assert ctx.get_config("tir.vtcm_capacity") == 0
    assert PassContext(config={"relay.ext.mine.options": object()}).config


def test_wrong_options_are_refused():
    with pytest.raises(AttributeError, match="; did you mean 'tir.disable_vectorize'"):
        PassContext(config={"tir.disable_vectorise": True})
    with pytest.raises(TypeError, match="option 'tir.noalias' must have the type bool, got 'yes'"):
        PassContext(config={"tir.noalias": "yes"})
    with pytest.raises(AttributeError, match="option 'tir.UnrollLoop' has no field 'auto_step'"):
        PassContext(config={"tir.UnrollLoop": {"auto_step": 1}})
    with pytest.raises(TypeError, match="field 'auto_max_step' must have the type int"):
        PassContext(config={"tir.UnrollLoop": {"auto_max_step": "16"}})
    with pytest.raises(TypeError, match="must be a dictionary"):
        PassContext(config={"tir.UnrollLoop": 16})
    with pytest.raises(ValueError, match="the phase of a pass is 0, 1, 2 or 3, got 4"):
        PassContext(config={"tir.add_lower_pass": [(4, marker("a"))]})
    with pytest.raises(TypeError, match="disabled_pass must be a list of pass names"):
        PassContext(disabled_pass="Simplify")
    with pytest.raises(TypeError, match="config must be a dictionary"):
        PassContext(config=[("tir.noalias", True)])
    with pytest.raises(AttributeError, match="unknown option"):
        PassContext().get_config("tir.nothing")


def test_list_configs_tells_type_default_and_meaning():
    configs = PassContext.list_configs()
    assert configs["tir.noalias"]["type"] == "IntImm" and configs["tir.noalias"]["default"] is True
    assert configs["relay.backend.use_auto_scheduler"]["type"] == "IntImm"
    assert configs["tir.UnrollLoop"]["type"] == "tir.transform.UnrollLoopConfig"
    assert all(c["doc"] for c in configs.values())


def test_declaring_an_option_twice_differently_is_refused():
    transform.register_pass_config("tir.noalias", bool, True, "same")
    with pytest.raises(ValueError, match="already declared"):
        transform.register_pass_config("tir.noalias", bool, False, "other")


def test_pipeline_obeys_context_and_instruments():
    @pass_instrument
    class Log:
        def __init__(self):
            self.events = []

        def should_run(self, mod, info):
            return info.name != "b"

        def run_before_pass(self, mod, info):
            self.events.append(("before", info.name))

        def run_after_pass(self, mod, info):
            self.events.append(("after", info.name))

    passes = (marker("a"), marker("b"), marker("c"), marker("d", 3))
    assert ran(run_pipeline(one_function(), passes)) == ["a", "b", "c"]
    log = Log()
    ctx = PassContext(instruments=[log], disabled_pass=["c"], opt_level=3)
    assert ran(run_pipeline(one_function(), passes, ctx)) == ["a", "d"]
    assert log.events == [("before", "a"), ("after", "a"), ("before", "d"), ("after", "d")]


def test_pipeline_machinery_is_cheap():
    passes = tuple(ModulePass(lambda mod, ctx: mod, PassInfo(0, f"p{i}")) for i in range(30))
    mod = one_function()
    assert _calls(lambda: run_pipeline(mod, passes)) < 40 * len(passes)


def _calls(f) -> int:
    """How many functions are called: a cost that is the same on every machine."""
    events = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        f()
    finally:
        sys.setprofile(before)
    return sum(event in ("call", "c_call") for event in events)


def test_print_ir_writes_the_module_to_standard_error(capsys):
    mod = one_function()
    assert transform.PrintIR("here")(mod) is mod
    assert "PrintIR(here):" in capsys.readouterr().err


def test_apply_pass_to_function_touches_only_matching_names():
    @prim_func_pass(opt_level=0)
    def mark(func, mod, ctx):
        return func.with_attr("marked", True)

    mod = one_function("alpha")
    mod["beta"] = PrimFunc([Var("x", "int32")], Evaluate(1), attrs={"global_symbol": "beta"})
    new = transform.ApplyPassToFunction(mark, "al.*")(mod)
    assert "marked" in new["alpha"].attrs and new["beta"] is mod["beta"]
    assert transform.ApplyPassToFunction(mark, "none")(mod) is mod
    with pytest.raises(ValueError, match="no function matches 'al'; the module has: alpha, beta"):
        transform.ApplyPassToFunction(mark, "al", True)(mod)


def test_public_facade_has_the_same_objects():
    import tvm.transform as public

    assert public.PassContext is PassContext and public.Sequential is Sequential
