"""Helpers of tests. ``pytest -p tvm.testing.plugin`` (or ``pytest_plugins``) adds targets and devices as parameters."""

from .compare import CompareBeforeAfter
from .native import device_test, echo, object_use_count
from .utils import *
from .utils import (
    Feature,
    assert_allclose,
    assert_prim_expr_equal,
    device_enabled,
    enabled_targets,
    fixture,
    main,
    parameter,
    parameters,
    parametrize_targets,
)
