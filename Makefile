# Every target does its own set-up in .venv; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Worker processes of the test run, and the seed of its random cases. Without SEED tests take it from the commit, so that
# every machine sees the same cases of one commit; the fuzzers take it from the clock, so that every run sees new ones.
JOBS := 2
SEED :=
# `make test` runs one of so many parts of the suite; which one follows the seed.
PARTS := 12
NEW_SEED := $(or $(SEED),$(shell date +%s))
TESTS := tests
# Further variables of the targets below. They are taken from the command line (make fuzz CASES=50), not from the
# environment, where such names mean other things.
ARCH :=
BENCH :=
CASES :=
DOCS :=
COMMIT :=
KILLS :=
SAMPLE :=
SYSROOTS :=
ONLY :=
PYTHONS := $(PYTHON)

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

demo: setup-run ## compile a trained model, run it on a photo, print the label and the time
	@$(BIN)/python examples/demo.py

test: setup ## run a sample of the test suite, in less than five minutes (TESTS=tests/te: all tests there; SEED=1 to repeat a sample)
	TVM_TEST_SEED=$(SEED) TVM_TEST_PARTS=$(if $(filter tests,$(TESTS)),$(PARTS)) \
	  $(BIN)/python -m pytest $(TESTS) -q -n $(JOBS) --dist worksteal

test-all: PARTS := 1
test-all: test ## run the whole test suite (SEED=1 to repeat random cases)

test-opencl: setup ## the operator tests on OpenCL, all with the table in docs/opencl_tests.md, or SAMPLE=200 of them
	TVM_TEST_ON=opencl $(if $(SAMPLE),TVM_TEST_SAMPLE=$(SAMPLE),TVM_TEST_TABLE=docs/opencl_tests.md) $(BIN)/python -m pytest \
	  tests/topi tests/relay/op -q -n $(JOBS)

ARCHITECTURES := $(if $(filter all,$(ARCH)),sm_75 sm_80 sm_90,$(or $(ARCH),sm_90))
test-cuda: setup ## the operator tests compiled for CUDA (ARCH=sm_90, or all), run where there is a GPU; docs/cuda_tests.md
	@set -e; for arch in $(ARCHITECTURES); do \
	  TVM_TEST_ON="cuda -arch=$$arch" TVM_TEST_TABLE=docs/cuda_tests.md $(BIN)/python -m pytest tests/topi tests/relay/op \
	    -q -n $(JOBS); done

test-emulated: setup ## the operator tests as CUDA (ARCH=sm_80) on the emulator of a GPU
	TVM_TEST_ON="cuda -arch=$(or $(ARCH),sm_80)" TVM_TEST_TABLE=docs/cuda_tests.md $(BIN)/python -m tests.cuda_emulator \
	  pytest tests/topi tests/relay/op -q -n $(JOBS)

test-cross: setup ## models compiled for Arm, RISC-V and x86 and run under qemu-user (SYSROOTS=/usr ONLY=armv7 MODELS=ResNet-18; OPS=8 for operators); docs/cross_tests.md
	$(BIN)/python tools/cross_check.py --only "$(ONLY)" $(if $(MODELS),--models "$(MODELS)") $(if $(OPS),--ops $(OPS)) $(if $(SYSROOTS),--sysroots $(SYSROOTS))

fuzz: setup ## a long run of random schedules, graphs and programs (CASES=20000)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest tests/fuzz \
	  tests/contrib/test_graph_executor_memory.py -q -n $(JOBS)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),1000) $(BIN)/python -m pytest tests/relay/test_random_graphs.py \
	  tests/relay/test_random_programs.py -q -n $(JOBS)

states: setup ## random states of the auto-scheduler against plain loops (CASES=500)
	TVM_TEST_SEED=$(NEW_SEED) TVM_TEST_STATES=$(or $(CASES),500) $(BIN)/python -m pytest tests/auto_scheduler/test_states.py \
	  -q -n $(JOBS)

symbolic: setup ## every operator with unknown sizes beside its static form, and ONNX's with run-time arguments
	TVM_TEST_ALL_SYMBOLIC=1 $(BIN)/python -m pytest tests/relay/op/test_symbolic.py tests/relay/qnn/test_symbolic_qnn.py tests/relay/frontend/test_onnx_run_time.py -q -n $(JOBS)

fuzz-tune: setup ## kill tuners and their workers at random moments and check that no record is lost (KILLS=50)
	$(BIN)/python tools/fuzz_tune.py --kills $(or $(KILLS),50) --seed $(NEW_SEED)
	$(BIN)/python tools/fuzz_tune.py --kills $(or $(KILLS),50) --seed $(NEW_SEED) --search auto_scheduler

fuzz-rpc: setup ## damaged messages into RPC servers, clients and handshakes under ASan, trackers and proxies (CASES=200000 of each)
	@$(MAKE) --no-print-directory -C csrc fuzz-rpc CASES=$(or $(CASES),200000) SEED=$(NEW_SEED)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),200000) $(BIN)/python -m pytest tests/rpc/test_fuzz.py -q -p no:xdist

soak-rpc: setup ## a pool of RPC servers and clients in which everything is killed at random moments (SECONDS=60, SERVERS=32, CLIENTS=8)
	$(BIN)/python tools/soak_rpc.py --seconds $(or $(SECONDS),60) --servers $(or $(SERVERS),32) --clients $(or $(CLIENTS),8) --seed $(NEW_SEED)

fuzz-vm: ## damaged executables of the virtual machine under ASan (CASES=200000)
	@$(MAKE) --no-print-directory -C csrc fuzz-vm CASES=$(or $(CASES),200000) SEED=$(NEW_SEED)

bisect: setup ## name the graph pass that changes the result of a random graph (SEED=... as its test printed it)
	$(BIN)/python tools/bisect_pass.py $(SEED)

lint: setup-lint ## ruff on everything, pyright on the compiler core
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: setup-lint ## lay out the code with ruff
	$(BIN)/ruff format .

bench: setup ## all benchmarks: tensor programs against the machine's peak, models against other runtimes
	$(BIN)/python -m benchmarks.tensor_programs
	$(BIN)/python -m benchmarks.compile_time
	$(BIN)/python -m benchmarks.models $(BENCH)

compile-cost: setup ## each of a thousand steps of an LSTM costs as much to compile as each of two hundred
	TVM_COMPILE_COST_STEPS=1000 $(BIN)/python -m pytest tests/relay/test_compile_cost.py -q -n $(JOBS)

bench-compile: setup ## time and memory of compiling, against the bars
	$(BIN)/python -m benchmarks.compile_time

bench-models: setup ## whole models beside other runtimes (BENCH="--quick --models resnet50 --peer-python PATH"; BENCH="--table MACHINE": all, into benchmarks/results)
	$(BIN)/python -m benchmarks.models $(BENCH)

bench-quantization: setup ## models quantized by us and by onnxruntime beside float32, on crops of photos (BENCH="--models resnet50 --methods percentile"); docs/quantization.md
	$(BIN)/python -m benchmarks.quantization --write $(BENCH)

bench-vm: setup ## models with open sizes on the virtual machine beside onnxruntime (BENCH="--models bert_base --at 2"; BENCH="--chain --memory")
	$(BIN)/python -m benchmarks.vm $(BENCH)

test-torch: lib ## the PyTorch importer in full, with an interpreter that has torch (TORCH_PYTHON=PATH; MODELS=1 for whole models too)
	TVM_TEST_TORCH=$(if $(MODELS),models,operators) PYTHONPATH=. $(or $(TORCH_PYTHON),$(PYTHON)) -m pytest \
	  tests/relay/frontend/pytorch tests/contrib/test_torch_dynamo.py tests/driver/tvmc/test_pytorch.py -q

pytorch-models: lib ## every model of the PyTorch importer's table beside PyTorch, written to docs/pytorch_models.md; goes on where it was (TORCH_PYTHON=PATH ONLY=vision AGAIN=1 JOBS=2)
	PYTHONPATH=. $(or $(TORCH_PYTHON),$(PYTHON)) tools/pytorch_models.py --only "$(ONLY)" $(if $(AGAIN),--again) --jobs $(or $(JOBS),1)

conformance-pytorch: lib ## every PyTorch operator beside PyTorch; writes the table in docs/coverage.md (TORCH_PYTHON=PATH)
	PYTHONPATH=. $(or $(TORCH_PYTHON),$(PYTHON)) tools/pytorch_conformance.py

fuzz-pytorch: setup ## damaged files of PyTorch into what tells them apart before anything is loaded (CASES=20000)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest \
	  tests/relay/frontend/pytorch/test_load.py -k mutated -q -p no:xdist

torch-compile: lib ## twenty models through torch.compile with PyTorch's back end and with ours, written to docs/torch_compile.md (TORCH_PYTHON=PATH ONLY=vision AGAIN=1)
	PYTHONPATH=. $(or $(TORCH_PYTHON),$(PYTHON)) tools/torch_compile.py --only "$(ONLY)" $(if $(AGAIN),--again)

test-ray: lib ## tuning and compiling on a Ray cluster of this machine, in an environment with ray (build/ray)
	$(PYTHON) tools/environment.py build/ray test ray
	RAY_USAGE_STATS_ENABLED=0 build/ray/bin/python -m pytest tests/farm -q -n 0

bench-search: setup ## operators by search beside default schedules and PyTorch (BENCH="--kinds C2D --trials 50"; make peers first)
	$(BIN)/python -m benchmarks.auto_scheduler_ops $(BENCH)

peers: ## build/peers: a Python with PyTorch, for benchmarks beside it
	$(PYTHON) -m venv build/peers
	build/peers/bin/pip install --quiet "torch==2.13.*" numpy

conformance: setup ## every node test of the onnx package; writes the table in docs/coverage.md
	$(BIN)/python tools/onnx_conformance.py --jobs $(JOBS)

conformance-tflite: setup ## every TFLite operator and model beside LiteRT's outputs; writes the table in docs/coverage.md
	$(BIN)/python tools/tflite_conformance.py
	TVM_CONFORMANCE_CASES=all $(BIN)/python -m pytest tests/relay/frontend/tflite/test_tflite_models.py -q -n $(JOBS)

fuzz-tflite: setup ## damaged TFLite files into the importer (CASES=20000)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest \
	  tests/relay/frontend/tflite/test_tflite_reader.py -k mutated -q -p no:xdist

conformance-keras: setup ## every Keras layer beside Keras' outputs; writes the table in docs/coverage.md
	$(BIN)/python tools/keras_conformance.py

fuzz-keras: setup ## damaged Keras files into the importer (CASES=20000)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest \
	  tests/relay/frontend/keras/test_keras_reader.py -k mutated -q -p no:xdist

test-keras: lib ## live models into the Keras importer, with an interpreter that has keras and tf_keras (KERAS_PYTHON=PATH)
	TVM_TEST_KERAS=1 PYTHONPATH=. $(or $(KERAS_PYTHON),$(PYTHON)) -m pytest tests/relay/frontend/keras -q

keras-models: lib ## every model of keras.applications beside Keras, written to docs/keras_models.md; goes on where it was (KERAS_PYTHON=PATH ONLY=ResNet AGAIN=1)
	PYTHONPATH=. $(or $(KERAS_PYTHON),$(PYTHON)) tools/keras_models.py --only "$(ONLY)" $(if $(AGAIN),--again)

conformance-tensorflow: setup ## every TensorFlow operator and real file beside TensorFlow's outputs; writes the table in docs/coverage.md
	$(BIN)/python tools/tensorflow_conformance.py
	$(BIN)/python -m pytest tests/relay/frontend/tensorflow/test_tensorflow_models.py -q -p no:xdist

tensorflow-models: lib ## whole TensorFlow graphs beside TensorFlow, written to docs/tensorflow_models.md (TF_PYTHON=PATH, with TensorFlow and this package's dependencies; ONLY=bert)
	PYTHONPATH=. $(or $(TF_PYTHON),$(PYTHON)) tools/tensorflow_models.py --only "$(ONLY)"

fuzz-tensorflow: setup ## damaged TensorFlow files into the importer (CASES=20000)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest \
	  tests/relay/frontend/tensorflow/test_tensorflow_reader.py -k mutated -q -p no:xdist

conformance-format: setup ## every operator of an older format's importer beside its oracle; writes the table in docs/coverage.md (FORMAT=caffe, caffe2, cntk, coreml, darknet, mxnet or paddle)
	$(BIN)/python tools/legacy_conformance.py $(FORMAT)

legacy-models: setup ## trained networks in older formats on photos, beside the originals; writes docs/legacy_models.md (ONLY="MXNet resnet50")
	$(BIN)/python tools/legacy_models.py "$(ONLY)"

fuzz-format: setup ## damaged files of an older format into its importer (FORMAT=caffe, caffe2, cntk, coreml, darknet, mxnet or paddle; CASES=20000)
	TVM_TEST_SEED=$(NEW_SEED) TVM_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest \
	  tests/relay/frontend/$(FORMAT) -k mutated -q -p no:xdist

cpptest: ## C tests of the runtime, without Python
	@$(MAKE) --no-print-directory -C csrc test

sanitize: ## the C tests under ASan+UBSan and under TSan
	@$(MAKE) --no-print-directory -C csrc sanitize

# The tools have an environment of their own: a C compiler among the packages of .venv would serve the tests as one.
WHEEL_TOOLS := build/wheel-tools
$(WHEEL_TOOLS)/.stamp: pyproject.toml tools/environment.py
	@mkdir -p build
	@$(PYTHON) tools/environment.py $(WHEEL_TOOLS) wheel
	@touch $@

wheel: $(WHEEL_TOOLS)/.stamp ## dist/: the full wheel and the runtime-only one, for any Linux of the last ten years
	rm -rf dist
	$(WHEEL_TOOLS)/bin/python tools/wheels.py dist

# Each interpreter gets an environment with the full wheel and its dependencies, in which examples and documents run.
test-wheels: setup wheel ## examples, documents and the runtime with the wheels installed (PYTHONS="python3.10 python3.13")
	@set -e; for python in $(PYTHONS); do \
	  echo "== $$python"; environment=build/wheel-$$(basename $$python); rm -rf $$environment; \
	  $$python -m venv $$environment; \
	  $$environment/bin/python -m pip install --quiet --disable-pip-version-check dist/tvm_classic-*.whl; \
	  TVM_TEST_WHEELS=dist TVM_TEST_PYTHONS=$$python TVM_TEST_PYTHON=$(CURDIR)/$$environment/bin/python \
	    $(BIN)/python -m pytest tests/packaging/test_portable.py tests/examples tests/docs/test_document_programs.py \
	    -q -n $(JOBS); done

replay: setup-run ## the generated code of a fixed corpus against a commit's (COMMIT=HEAD, ONLY=transformer for a part)
	$(BIN)/python tools/replay.py $(or $(COMMIT),HEAD) --only "$(ONLY)" --jobs $(JOBS)

# The generator has an environment of its own, with the versions it was tried with.
DOCS_VENV := .venv-docs
$(DOCS_VENV)/.stamp: pyproject.toml tools/environment.py docs/requirements.txt
	@$(PYTHON) tools/environment.py $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $@

docs: $(DOCS_VENV)/.stamp lib ## the documentation as a site in build/site (DOCS=--quick: tutorials are not run)
	$(DOCS_VENV)/bin/python tools/docs.py build/site $(DOCS)
	$(DOCS_VENV)/bin/python tools/check_site.py build/site $(DOCS)

first-hour: ## the commands of docs/first_ten_minutes.md in a new environment, by the clock (DOCS=--write: into the page)
	$(PYTHON) tools/first_hour.py $(DOCS)

size: ## lines per part against the budget, the largest files, and the change since the last commit
	@$(PYTHON) tools/size.py

clean: ## remove everything made here, .venv too
	@$(MAKE) --no-print-directory -C csrc clean
	rm -rf $(VENV) .venv-docs build dist csrc/build .pytest_cache .ruff_cache .hypothesis

# ---- set-up, done again only when what it depends on changes: .venv with the packages of what is to be done ----
setup: setup-test
setup-run: $(VENV)/.stamp-run lib
setup-test: $(VENV)/.stamp-test lib
setup-lint: $(VENV)/.stamp-lint lib

lib:
	@$(MAKE) --no-print-directory --silent -C csrc lib

$(VENV)/.stamp-%: pyproject.toml tools/environment.py
	@command -v $(PYTHON) >/dev/null || { echo "missing on this machine: python3; on Debian: sudo apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) tools/environment.py $(VENV) $(filter-out run,$*)
	@touch $@

# Two installations into one environment would meet.
.NOTPARALLEL:
.PHONY: test-all bench-quantization legacy-models fuzz-pytorch conformance-pytorch conformance-format fuzz-format conformance-keras fuzz-keras test-keras keras-models help demo test test-torch pytorch-models compile-cost test-opencl test-cuda test-emulated test-cross test-ray fuzz fuzz-rpc fuzz-tune bisect lint format bench bench-compile bench-models bench-vm bench-search peers conformance cpptest sanitize wheel test-wheels replay docs first-hour size clean setup setup-run setup-test setup-lint lib soak-rpc symbolic fuzz-vm conformance-tensorflow tensorflow-models fuzz-tensorflow torch-compile
.DEFAULT_GOAL := help
