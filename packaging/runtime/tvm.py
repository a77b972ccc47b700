"""The package ``tvm`` of tvm-classic-runtime, whose files are in the folder ``tvm_classic_runtime`` next to this file.

If tvm-classic is also installed, its folder ``tvm`` takes precedence over this file. The two distributions share no
file, so either can be uninstalled without affecting the other.
"""

import importlib.util
import os
import sys

_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tvm_classic_runtime")
_spec = importlib.util.spec_from_file_location(
    "tvm", os.path.join(_folder, "__init__.py"), submodule_search_locations=[_folder]
)
_package = importlib.util.module_from_spec(_spec)
# The import that runs this file returns the module that is in sys.modules afterwards.
sys.modules["tvm"] = _package
_spec.loader.exec_module(_package)
