"""Models to try things on, and short cuts for tests of graphs."""

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
from .config import ctx_list, enabled_targets
from .init import create_workload
from .passes import run_infer_type, run_opt_pass
from .temp_op_attr import TempOpAttr

__all__ = [
    "TempOpAttr",
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
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "vgg",
]
