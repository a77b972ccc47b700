"""The loop of ``csrc/crt/src/session.c`` under AddressSanitizer and UndefinedBehaviorSanitizer with random requests,
and ``framing.c`` with damaged frames."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tvm import micro
from tvm.micro.project_api.serial_line import MARKS, READY, framed
from tvm.runtime import link

CRT = Path(micro.get_standalone_crt_dir())
FLAGS = ["-std=c99", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", f"-I{CRT / 'include'}"]  # fmt: skip
PLATFORM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "tvm_crt.h"
%s
uint32_t TVMPlatformTimeMicroseconds(void) { return 7; }
void TVMPlatformAbort(int32_t status) { exit(status); }
static uint8_t memory[256] TVM_CRT_ALIGNED;
static int32_t add(void* const* data) {
  for (int i = 0; i < 16; ++i) ((uint8_t*)data[1])[i] = (uint8_t)(((uint8_t*)data[0])[i] + 1);
  return 0;
}
static int32_t fail(void* const* data) { (void)data; return 5; }
static const uint32_t sizes[] = {16, 16};
const TVMCrtFunction tvm_crt_functions[] = {{"add", add, 2, sizes, "[]"}, {"fail", fail, 0, sizes, "[]"}};
const uint32_t tvm_crt_num_functions = 2;
int main(void) { TVMCrtServeLibrary(memory, sizeof memory); return 0; }
"""
WHOLE = """
int32_t TVMPlatformRead(void* data, size_t size) { return fread(data, 1, size, stdin) == size ? 0 : -1; }
void TVMPlatformWrite(const void* data, size_t size) { fwrite(data, 1, size, stdout); }
void TVMPlatformLog(const char* message) { fputs(message, stderr); }
"""
BYTES = """
int32_t TVMPlatformReadByte(void) { return getchar(); }
void TVMPlatformWriteBytes(const uint8_t* data, size_t size) { fwrite(data, 1, size, stdout); }
"""
DESCRIBE, READ, WRITE, CALL = range(4)


def compiled(folder: Path, platform: str, *sources: str) -> Path:
    (folder / "main.c").write_text(PLATFORM % platform)
    files = [str(CRT / "src" / name) for name in sources]
    command = [*link.find_compiler(), *FLAGS, str(folder / "main.c"), *files, "-o", str(folder / "program")]
    done = subprocess.run(command, capture_output=True, text=True)
    if "asan" in done.stderr and "-l" in done.stderr:
        pytest.skip("the C compiler has no sanitizers")
    assert not done.returncode, done.stderr
    return folder / "program"


def answers(program: Path, requests: bytes) -> bytes:
    done = subprocess.run([program], input=requests, capture_output=True, timeout=60)
    assert not done.returncode and b"Sanitizer" not in done.stderr, done.stderr.decode()[-2000:]
    return done.stdout


def request(operation: int, first: int = 0, second: int = 0, data: bytes = b"") -> bytes:
    return struct.pack("<4I", operation, first, second, len(data)) + data


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("crt"), WHOLE, "session.c")


@pytest.mark.slow("compiles with sanitizers")
def test_random_requests(program, seed):
    rng = np.random.default_rng(seed)
    expected, requests = [], []
    memory = bytearray(256)
    numbers = [0, 1, 15, 16, 240, 241, 255, 256, 257, 2**31, 2**32 - 1]
    for _ in range(20000):
        operation, first = int(rng.integers(0, 6)), int(rng.choice(numbers))
        second, data = int(rng.choice(numbers[:8])), rng.bytes(int(rng.integers(0, 40)))
        if operation == CALL:
            first, data = int(rng.integers(0, 3)), struct.pack("<2I", *map(int, rng.choice(numbers, 2)))
            data = data[: [8, 0, 8][first]] if rng.random() < 0.9 else data[:5]
        elif operation != WRITE and rng.random() < 0.9:
            data = b""
        requests.append(request(operation, first, second, data))
        expected.append(model(memory, operation, first, second, data))
    assert answers(program, b"".join(requests)) == b"".join(expected)


def model(memory: bytearray, operation: int, first: int, second: int, data: bytes) -> bytes:
    """The reply to a request."""
    if operation == DESCRIBE and not data:
        texts = b"".join(struct.pack("<I", len(text)) + text for text in (b"add", b"[]", b"fail", b"[]"))
        return struct.pack("<iIII", 0, 0, len(texts) + 4, 256) + texts
    if operation == READ and not data:
        found = bytes(memory[first : first + second])
        return struct.pack("<iII", 0, 0, second) + found if first + second <= 256 else struct.pack("<iII", -1002, 0, 0)
    if operation == WRITE:
        is_inside = first + len(data) <= 256
        if is_inside:
            memory[first : first + len(data)] = data
        return struct.pack("<iII", 0 if is_inside else -1002, 0, 0)
    if operation == CALL and first < 2 and len(data) == (8, 0)[first]:
        return struct.pack("<iII", *called(memory, first, second, struct.unpack(f"<{len(data) // 4}I", data)), 0)
    return struct.pack("<iII", -1001, 0, 0)


def called(memory: bytearray, index: int, number: int, offsets: tuple[int, ...]) -> tuple[int, int]:
    """The status and the time of a call."""
    if any(offset + 16 > 256 for offset in offsets):
        return -1002, 0
    if index:
        return (5 if number else 0), 0
    for _ in range(number):
        for i in range(16):
            memory[offsets[1] + i] = (memory[offsets[0] + i] + 1) % 256
    return 0, 0


def test_truncated_requests(program):
    whole = request(WRITE, 0, 0, bytes(8)) + request(CALL, 0, 1, struct.pack("<2I", 0, 16))
    for size in range(len(whole)):
        answers(program, whole[:size])


@pytest.mark.slow("compiles with sanitizers")
def test_random_frames(tmp_path, seed):
    program = compiled(tmp_path, BYTES, "session.c", "framing.c")
    rng = np.random.default_rng(seed)
    good = framed(request(READ, 0, 4))
    reply = framed(struct.pack("<iII", 0, 0, 4)) + framed(bytes(4))
    # Text that contains no marks, frames with a wrong checksum, and questions whether the program is ready.
    requests, expected = b"", b""
    for _ in range(300):
        kind = rng.integers(0, 4)
        if kind == 0:
            requests += bytes(rng.integers(0, 0xA5, int(rng.integers(0, 20))).astype("uint8")) + MARKS[:1] + b"x"
        elif kind == 1:
            damaged = bytearray(good)
            damaged[int(rng.integers(3, len(good)))] ^= 1 << int(rng.integers(0, 8))
            requests += bytes(damaged)
        elif kind == 2:
            requests, expected = requests + READY, expected + READY
        else:
            requests, expected = requests + good, expected + reply
    assert answers(program, requests) == expected
    answers(program, rng.bytes(20000))
