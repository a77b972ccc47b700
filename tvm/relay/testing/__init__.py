"""Example models, and helpers for tests of Relay graphs."""

from . import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    temp_op_attr,
    vgg,
)
from ...not_built import name_of as _name_of
from .. import transform
from ..prelude import Prelude
from ..transform import gradient
from .config import ctx_list, enabled_targets
from .init import create_workload
from .nat import count, make_nat_expr, make_nat_value, rand
from .passes import count_ops, run_infer_type, run_opt_pass
from .py_converter import run_as_python, to_python
from .temp_op_attr import TempOpAttr

__all__ = [
    "TempOpAttr",
    "count_ops",
    "create_workload",
    "ctx_list",
    "dcgan",
    "densenet",
    "dqn",
    "enabled_targets",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "mlp",
    "mobilenet",
    "resnet",
    "resnet_3d",
    "run_as_python",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "to_python",
    "vgg",
]


def __getattr__(name: str):
    return _name_of(__name__, name)
