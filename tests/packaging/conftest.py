"""The tests of portable wheels are run by ``python -m tools test wheels``, which builds them and names interpreters."""

import os

collect_ignore = [] if "TVM_TEST_WHEELS" in os.environ else ["test_portable.py"]
