"""Use tvmc from Python: load, inspect, compile, run and save a model.

python tvmcpythonintro.py [MODEL]
"""

from __future__ import annotations

import os
import sys
import tempfile

from tvm.driver import tvmc
from tvm.driver.tvmc.model import TVMCModel, TVMCPackage

HERE = os.path.dirname(os.path.realpath(__file__))
DEMO = os.path.join(os.path.dirname(HERE), "demo", "mobilenet_v2.onnx")

# Step 1: load a model of any format.
model = tvmc.load(sys.argv[1] if len(sys.argv) > 1 else DEMO)
model.summary()

with tempfile.TemporaryDirectory() as folder:
    # Step 2: compile it for this machine.
    package_path = os.path.join(folder, "package.tar")
    package = tvmc.compile(model, target="llvm", package_path=package_path)

    # Step 3: run it. Inputs that are not given are random.
    result = tvmc.run(package, device="cpu")
    print(result)

    # Another process can load the package and run it without compiling.
    again = tvmc.run(TVMCPackage(package_path=package_path), device="cpu", fill_mode="ones")
    first = tvmc.run(package, device="cpu", fill_mode="ones")
    same = all((first.get_output(name) == again.get_output(name)).all() for name in first.outputs)

    # A saved model is a Relay graph, which can be loaded without ONNX.
    saved = os.path.join(folder, "model.tar")
    model.save(saved)
    TVMCModel(model_path=saved)
print("the loaded package returns the same output" if same else "the loaded package returns another output")
sys.exit(not same)
