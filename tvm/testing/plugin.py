"""The pytest plugin: tests that take ``target`` or ``dev`` run on every target this machine has."""

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


def _parametrize_targets(metafunc) -> None:
    names = metafunc.fixturenames
    if "target" not in names:
        return
    for mark in metafunc.definition.iter_markers("parametrize"):
        if "target" in str(mark.args[0]).replace(" ", "").split(","):
            return
    excluded = set(getattr(metafunc.function, "tvm_excluded_targets", ()))
    failing = set(getattr(metafunc.function, "tvm_known_failing_targets", ()))
    params = []
    for text in utils._targets():
        kind = Target(text).kind.name
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
    """Values of ``tvm.testing.parameters`` go together."""
    groups: dict = {}
    for name, definitions in metafunc._arg2fixturedefs.items():
        function = definitions[-1].func
        group = getattr(getattr(metafunc.module, name, None) or function, "tvm_parameter_group", None)
        if group is None and metafunc.cls is not None:
            group = getattr(getattr(metafunc.cls, name, None), "tvm_parameter_group", None)
        if group is not None:
            groups.setdefault(id(group[0]), []).append((name, group))
    for members in groups.values():
        names = [n for n, _ in members]
        sets = members[0][1][2]
        values = [tuple(s[g[1]] for _, g in members) for s in sets]
        metafunc.parametrize(names, values, ids=members[0][1][3], indirect=False)


@pytest.fixture
def dev(target):
    """The device of the test's target."""
    text = target if isinstance(target, str) else str(target)
    return tvm.device(Target(text).kind.name, 0)
