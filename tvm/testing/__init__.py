"""Test utilities. ``pytest -p tvm.testing.plugin`` (or ``pytest_plugins``) adds targets and devices as parameters."""

from .compare import CompareBeforeAfter
from . import utils
from .native import (
    ErrorTest,
    device_test,
    echo,
    nop,
    object_use_count,
    test_check_eq_callback,
    test_raise_error_callback,
    test_wrap_callback,
)
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
