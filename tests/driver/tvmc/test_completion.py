"""Completion of commands in a shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tvm.driver.tvmc.main import _main


def complete(script: str, *words: str) -> list[str]:
    quoted = " ".join(f"'{w}'" for w in words)
    ask = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _tvmc; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_choices(capsys):
    assert _main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert complete(script, "tvmc", "co") == ["compile", "completion"]
    assert "--desired-layout" in complete(script, "tvmc", "compile", "--desired")
    assert complete(script, "tvmc", "-v", "run", "--fill-mode", "") == ["zeros", "ones", "random"]
    assert complete(script, "tvmc", "compile", "--output-format", "m") == ["mlf"]
    assert complete(script, "tvmc", "completion", "z") == ["zsh"]


def test_zsh_uses_the_script_of_bash(capsys):
    assert _main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("autoload -Uz bashcompinit")
