"""The package ``tvm`` of tvm-classic-runtime, which lies in the folder ``tvm_classic_runtime`` beside this file.

Where tvm-classic is installed too, its folder ``tvm`` comes before this file in every import. So the two distributions
share no file, and either can be removed without the other noticing.
"""

import importlib.util
import os
import sys

_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tvm_classic_runtime")
_spec = importlib.util.spec_from_file_location(
    "tvm", os.path.join(_folder, "__init__.py"), submodule_search_locations=[_folder]
)
_package = importlib.util.module_from_spec(_spec)
# The import that runs this file hands out what stands here when it has run.
sys.modules["tvm"] = _package
_spec.loader.exec_module(_package)
