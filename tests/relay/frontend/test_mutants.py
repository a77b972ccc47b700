"""What watches importers while they read damaged files sees code that is run and files that are opened."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mutants import watched


def test_files_below_the_folder_may_be_read_and_others_may_not(tmp_path):
    inside, outside = tmp_path / "model", tmp_path / "secret"
    inside.mkdir()
    outside.write_text("")
    (inside / "weights").write_text("")
    (inside / "link").symlink_to(outside)
    with watched(inside):
        (inside / "weights").read_text()
    for path in (outside, inside / ".." / "secret", inside / "link"):
        with pytest.raises(AssertionError, match="open"), watched(inside):
            path.read_text()
    with pytest.raises(AssertionError, match="open"), watched():
        (inside / "weights").read_text()


@pytest.mark.parametrize(
    "act",
    [
        lambda: exec("1"),
        lambda: (lambda: 0).__code__.replace(co_name="other"),
        lambda: subprocess.run([sys.executable, "-V"], check=True, capture_output=True),
    ],
    ids=["exec", "code", "program"],
)
def test_code_that_is_run_is_seen(act):
    with pytest.raises(AssertionError), watched():
        act()
