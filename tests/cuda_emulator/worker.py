"""The process in which ``tests.cuda_emulator.run`` calls what it built: one request, a line of JSON, after another."""

from __future__ import annotations

import json
import sys

import numpy as np

import tvm
from tests.cuda_emulator import packed, unpacked


def answer(request: dict) -> dict:
    device = tvm.cuda(0)
    try:
        module = tvm.runtime.load_module(request["library"])
        function = module[request["name"]] if request["name"] else module
        values = [tvm.nd.array(unpacked(v), device) if isinstance(v, dict) else v for v in request["values"]]
        function(*values)
        device.sync()
        return {"arrays": [packed(np.asarray(v.numpy())) for v in values if isinstance(v, tvm.nd.NDArray)]}
    except Exception as error:
        return {"error": f"{error}"}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
