"""The command line of the compiler, and its functions for Python: ``load``, ``compile``, ``run``, ``tune``."""

from . import (
    arguments,
    autotuner,
    compiler,
    completion,
    composite_target,
    config_options,
    frontends,
    main,
    model,
    pass_config,
    pass_list,
    registry,
    result_utils,
    runner,
    shape_parser,
    target,
    tracker,
    transform,
    workspace_pools,
)
from .autotuner import tune_model as tune
from .compiler import compile_model as compile
from .errors import TVMCException, TVMCImportError
from .frontends import load_model as load
from .model import TVMCModel, TVMCPackage, TVMCResult
from .runner import run_module as run
