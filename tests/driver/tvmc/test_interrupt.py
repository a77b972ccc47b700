"""Ctrl-C during long work."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from tvm.driver.tvmc.interrupt import Interrupts


def test_held_parts_are_done_whole():
    steps = []
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        with interrupts.held():
            steps.append("begun")
            signal.raise_signal(signal.SIGINT)
            steps.append("done")
        steps.append("never")
    assert steps == ["begun", "done"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_outside_held_parts_it_comes_at_once():
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        with interrupts.held():
            pass
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_other_than_the_main_one_leave_signals_alone():
    seen = []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_the_second_ends_at_once():
    script = (
        "import time\nfrom tvm.driver.tvmc.interrupt import Interrupts\n"
        "with Interrupts():\n    try:\n        print('ready', flush=True); time.sleep(600)\n"
        "    finally:\n        print('cleaning up', flush=True); time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for wanted in ("ready", "cleaning up"):
        assert process.stdout.readline().strip() == wanted
        process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130 and "exited immediately" in error and "Traceback" not in error
    assert time.monotonic() - begin < 60
