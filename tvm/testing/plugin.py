"""The pytest plugin: tests with an argument ``target`` or ``dev`` run on every available target."""

from __future__ import annotations

import pytest

import tvm
from tvm.target import Target

from . import utils


def pytest_configure(config) -> None:
    for feature in utils.Feature.all_features.values():
        config.addinivalue_line("markers", f"{feature.name}: the test needs {feature.long_name}")


def pytest_generate_tests(metafunc) -> None:
    _parametrize_targets(metafunc)
    _parametrize_groups(metafunc)


def pytest_collection_modifyitems(items) -> None:
    """Filter a test's own list of targets by the targets that are available on this machine."""
    for item in items:
        failing, reason = getattr(getattr(item, "function", None), "tvm_xfail_parameterizations", ((), ""))
        if hasattr(item, "callspec") and item.callspec.id in failing:
            item.add_marker(pytest.mark.xfail(reason=reason))
        target = item.callspec.params.get("target") if hasattr(item, "callspec") else None
        if _names_device(target) and not utils._can_run(target):
            item.add_marker(pytest.mark.skip(reason=f"target {target} cannot run here"))


def _names_device(target) -> bool:
    kinds = {utils._kind(t) for t in utils.DEFAULT_TEST_TARGETS.split(";")} | {"nvptx"}
    return (isinstance(target, Target) or (isinstance(target, str) and bool(target))) and utils._kind(target) in kinds


def _parametrize_targets(metafunc) -> None:
    # A fixture named target replaces the list of targets, as in ``target = tvm.testing.parameter("llvm", "cuda")``.
    if "target" not in metafunc.fixturenames or "target" in metafunc._arg2fixturedefs:
        return
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0]
        if "target" in (names.replace(" ", "").split(",") if isinstance(names, str) else names):
            return
    excluded = set(getattr(metafunc.function, "tvm_excluded_targets", ()))
    failing = set(getattr(metafunc.function, "tvm_known_failing_targets", ()))
    params = []
    for text in utils._targets():
        kind = utils._kind(text)
        if kind in excluded or text in excluded:
            continue
        param = utils._target_param(text)
        if kind in failing or text in failing:
            param = pytest.param(
                text, marks=[*param.marks, pytest.mark.xfail(reason=f"known to fail on {kind}")], id=kind
            )
        params.append(param)
    metafunc.parametrize("target", params, scope="session")


def _parametrize_groups(metafunc) -> None:
    """Add the values of ``tvm.testing.parameters`` together."""
    groups: dict = {}
    for name, definitions in metafunc._arg2fixturedefs.items():
        group = getattr(definitions[-1].func, "tvm_parameter_group", None)
        if group is not None:
            groups.setdefault(id(group[0]), []).append((name, group))
    for members in groups.values():
        names = [n for n, _ in members]
        sets = members[0][1][2]
        values = [tuple(s[g[1]] for _, g in members) for s in sets]
        metafunc.parametrize(names, values, ids=_names(members[0][1][3]), indirect=True)


def _names(ids):
    return ids if ids is None or callable(ids) else list(ids)


@pytest.fixture
def dev(target):
    """Return the device of the test's target."""
    return tvm.device(utils._kind(target), 0)
