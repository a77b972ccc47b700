"""Make the packages that TVM_TESTS_ABSENT names (separated by commas) impossible to import, in this process and those
that it starts. Python imports this module by itself when its folder is in PYTHONPATH."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

ABSENT = frozenset(filter(None, os.environ.get("TVM_TESTS_ABSENT", "").split(",")))


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname.partition(".")[0] in ABSENT:
            return None
        return super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
