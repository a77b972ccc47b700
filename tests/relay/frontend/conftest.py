import os
import sys

sys.path.insert(0, os.path.dirname(__file__))


def pytest_pycollect_makemodule(module_path):
    """Folders beside each other have modules of one name (the cases of a format): the test files of a folder, which are
    collected together before any of them is imported, get those of their own."""
    folder = module_path.parent
    helpers = [path.stem for path in folder.glob("*.py") if not path.stem.startswith(("test_", "conftest"))]
    for name in helpers:
        found = getattr(sys.modules.get(name), "__file__", None)
        if found and os.path.dirname(os.path.abspath(found)) != str(folder):
            del sys.modules[name]
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
