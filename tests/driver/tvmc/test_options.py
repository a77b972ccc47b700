"""Options of ``tvmc compile`` and ``tvmc run``, each tried."""

from __future__ import annotations

import json
import re
import tarfile

import numpy as np
import pytest

import tvm
from tests.cpus import BASELINE, OLDER
from tvm.driver import tvmc
from tvm.driver.tvmc import compiler
from tvm.driver.tvmc.main import _main

FIXED = ("--input-shapes", "data:[1,3,9,7]")


@pytest.fixture
def compiled(model_path, tmp_path):
    """``compiled(*options)``: the path of a package compiled with these options."""

    def make(*options: str) -> str:
        path = str(tmp_path / "out.tar")
        assert _main(["compile", model_path, "--output", path, *FIXED, *options]) == 0
        return path

    return make


def output(package: str) -> np.ndarray:
    data = {"data": np.random.default_rng(3).standard_normal((1, 3, 9, 7)).astype("float32")}
    return tvmc.run(tvmc.TVMCPackage(package), "cpu", inputs=data).get_output("output_0")


@pytest.mark.parametrize(
    "options",
    [
        ["--target", f"llvm -mcpu={BASELINE}"],
        ["--target", "native -num-cores=1"],
        ["--target", "c"],
        ["--target", "c, llvm"],
        ["--target", '{"kind": "llvm", "opt-level": 2}'],
        ["--target", "llvm", "--target-llvm-num-cores", "1"],
        ["--desired-layout", "NHWC"],
        ["--desired-layout", "NHWC:HWIO", "--desired-layout-ops", "nn.conv2d"],
        ["--disabled-pass", "FoldConstant,FuseOps"],
        ["-O", "0"],
        ["--opt-level", "1"],
        ["--pass-config", "tir.disable_vectorize=1"],
        ["--pass-config", "tir.add_lower_pass=1,tvm.tir.transform.Simplify"],
        ["--pass-config", "tir.add_lower_pass=1,tir.transform.UnrollLoop"],
        ["--module-name", "other"],
        ["--executor", "graph", "--executor-graph-link-params", "0", "--runtime", "cpp"],
        ["--executor", "graph", "--executor-graph-link-params", "1"],
        ["--cross-compiler", "cc", "--cross-compiler-options=-O1 -g"],
        ["--mixed-precision", "--mixed-precision-calculation-type", "float32"],
    ],
    ids=" ".join,
)
def test_results_do_not_depend_on_how_a_model_is_compiled(compiled, package, options):
    np.testing.assert_allclose(output(compiled(*options)), output(package), rtol=1e-4, atol=1e-5)


def test_a_target_can_be_a_file_of_json(compiled, tmp_path):
    (tmp_path / "target.json").write_text(json.dumps({"kind": "llvm", "mcpu": OLDER}))
    made = tvmc.TVMCPackage(compiled("--target", str(tmp_path / "target.json")))
    assert f"-mcpu={OLDER}" in made.manifest["target"] and made.manifest["machine"]["cpu"] == OLDER
    assert made.manifest["machine"]["features"]


@pytest.mark.parametrize("sums", ["float16", "float32"])
def test_mixed_precision_changes_the_type_of_sums_as_asked(compiled, package, tmp_path, sums):
    made = compiled("--mixed-precision", "--mixed-precision-acc-type", sums, "--dump-code", "relay")
    text = (tmp_path / "out.tar.relay").read_text()
    assert f'out_dtype="{sums}"' in text and 'dtype="float16"' in text
    np.testing.assert_allclose(output(made), output(package), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("cpu, is_fast", [
    ("x86_64-linux-gnu -mcpu=cascadelake", False), ("x86_64-linux-gnu -mcpu=cooperlake", True),
    ("x86_64-linux-gnu -mcpu=sapphirerapids", True), ("x86_64-linux-gnu -mattr=-amx-bf16 -mcpu=sapphirerapids", False),
    ("aarch64-linux-gnu -mcpu=neoverse-n1", False),
    ("aarch64-linux-gnu -mcpu=neoverse-v1", True),
])  # fmt: skip
def test_a_cpu_without_fast_bfloat16_matmuls_is_named(monkeypatch, cpu, is_fast):
    said = []
    monkeypatch.setattr(compiler, "note", said.append)
    asked = {"mixed_precision": True, "mixed_precision_calculation_type": "bfloat16"}
    compiler._say_precision(tvm.target.Target(f"llvm -mtriple={cpu}"), asked)
    name = cpu.rpartition("=")[2]
    assert said == [f"{name} has no fast bfloat16 matmuls: they are computed in float32"][is_fast:]


@pytest.mark.parametrize("command", ["compile", "tune"])
@pytest.mark.parametrize("switch, options", [
    ("--mixed-precision", ["--mixed-precision-ops", "nn.dense"]),
    ("--mixed-precision", ["--mixed-precision-calculation-type", "bfloat16"]),
    ("--mixed-precision", ["--mixed-precision-acc-type", "float32"]),
    ("--desired-layout", ["--desired-layout-ops", "nn.conv2d"]),
])  # fmt: skip
def test_details_of_what_is_not_done_are_refused(model_file, tmp_path, refused, command, switch, options):
    refused(4, f"{options[0]} needs {switch}", command, model_file, "-o", str(tmp_path / "made"), *options)


def test_code_is_dumped_beside_the_package(compiled, tmp_path):
    compiled("--dump-code", "asm, ll,tir,relay")
    marks = {"asm": ".text", "ll": "define ", "tir": "T.prim_func", "relay": "nn.conv2d"}
    for kind, mark in marks.items():
        assert mark in (tmp_path / f"out.tar.{kind}").read_text()


def test_offloads_are_printed_or_written(compiled, tmp_path, capsys):
    compiled("--dump-offloads", "-")
    shown = capsys.readouterr().out
    assert "Total: 5" in shown and "generic  <-  " in shown
    compiled("--dump-offloads", str(tmp_path / "report"))
    assert "generic: 5" in (tmp_path / "report").read_text()


def test_verbose_says_target_and_memory_and_nothing_is_said_without(compiled, caplog):
    compiled("-v")
    said = "\n".join(r.getMessage() for r in caplog.records)
    assert "compiling for" in said and "-bit vectors" in said and "memory of intermediate results" in said
    caplog.clear()
    compiled()
    assert not caplog.records


def test_verbose_counts_before_the_command_too(model_path, tmp_path, caplog):
    assert _main(["-v", "compile", *FIXED, "--output", str(tmp_path / "m.tar"), model_path]) == 0
    assert any("memory of intermediate results" in r.getMessage() for r in caplog.records)


def test_pass_times_are_printed(compiled, capsys):
    compiled("--print-pass-times")
    shown = capsys.readouterr().out
    assert "Compilation time breakdown by pass:\n" in shown and "FoldConstant: " in shown


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_program_is_printed_around_the_passes_named(compiled, capsys, when):
    compiled(f"--print-ir-{when}=[FuseOps,tir.VectorizeLoop]")
    shown = capsys.readouterr().out
    assert f"Print IR {when}: FuseOps\n" in shown and "def @main(%data: " in shown
    assert f"Print IR {when}: tir.VectorizeLoop\n# from tvm.script import ir as I\n" in shown
    assert "Print IR {}: ".format("after" if when == "before" else "before") not in shown


def test_a_pass_that_does_not_exist_is_not_printed(model_path, capsys):
    with pytest.raises(SystemExit) as end:
        _main(["compile", "--print-ir-after", "tir.Vectorise", model_path])
    assert end.value.code == 2 and "unknown pass 'tir.Vectorise'" in capsys.readouterr().err


def test_four_times_v_logs_what_is_done(model_path, tmp_path, caplog):
    package = str(tmp_path / "m.tar")
    assert not _main(["compile", "-vvvv", "--output", package, model_path])
    assert {"DEBUG", "WARNING"} <= {record.levelname for record in caplog.records if record.name == "TVMC"}
    caplog.clear()
    assert not _main(["run", "-vvvv", package])
    assert [r.levelname for r in caplog.records if package in r.getMessage()] == ["DEBUG"]


def test_defaults_come_from_a_configuration_file(compiled, tmp_path, model_path):
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps(
            {
                "targets": [{"kind": "llvm", "mcpu": BASELINE}],
                "executor": {"kind": "graph", "link-params": 0},
                "pass-config": {"tir.disable_vectorize": "1"},
                "module-name": "named",
            }
        )
    )
    out = str(tmp_path / "c.tar")
    assert _main(["--config", str(tmp_path / "mine"), "compile", *FIXED, "--output", out, model_path]) == 0
    manifest = tvmc.TVMCPackage(out).manifest
    assert manifest["machine"]["cpu"] == BASELINE and manifest["module_name"] == "named"
    # What stands on the command line wins.
    assert _main(["--config", str(path), "compile", *FIXED, "--module-name", "x", "--output", out, model_path]) == 0
    assert tvmc.TVMCPackage(out).manifest["module_name"] == "x"


def test_relay_text_is_a_model_format(tmp_path, capsys):
    signature = "def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32])"
    text = f'#[version = "0.0.5"]\n{signature} {{\n  nn.dense(%x, %w)\n}}\n'
    path, out = tmp_path / "m.relay", str(tmp_path / "m.tar")
    path.write_text(text)
    assert _main(["compile", "--output", out, str(path)]) == 0
    assert [i["name"] for i in tvmc.TVMCPackage(out).manifest["inputs"]] == ["x", "w"]
    # With shapes given, what they do not name is a weight.
    assert _main(["compile", "--input-shapes", "x:[2,3]", "--output", out, str(path)]) == 0
    made = tvmc.TVMCPackage(out)
    assert [i["name"] for i in made.manifest["inputs"]] == ["x"]
    assert tvmc.run(made, "cpu").get_output("output_0").shape == (2, 4)


def test_run_fills_prints_and_profiles(package, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not _main(["run", "--fill-mode", "zeros", "--print-top", "2", package])
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert not _main(["run", "--print-time", "--repeat", "2", "--number", "3", "--end-to-end", package])
    title, head, row, spread = capsys.readouterr().out.splitlines()
    assert spread.startswith("Percentiles of 2 repeats (ms): p5 ") and "p99 " in spread
    assert title == "Execution time summary:"
    assert head == " mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)  "
    assert row.endswith(" " * 15) and len(row) == len(head) + 15
    assert not _main(["run", "--profile", package])
    shown = capsys.readouterr().out
    assert "tvmgen_default_fused_" in shown and "Configuration" in shown and "Executor: Graph" in shown
    folder = tmp_path / "prof" / "_tvmdbg_device_CPU_0"
    assert (folder / "_tvmdbg_graph_dump.json").exists() and (folder / "profile.html").exists()


def test_outputs_go_into_a_pipe_or_device_without_replacing_it(package, tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert not _main(["run", "--outputs", str(link), package])
    assert link.is_symlink() and not link.is_file()


def test_a_link_is_written_through(package, tmp_path):
    (tmp_path / "to.npz").symlink_to(tmp_path / "real.npz")
    assert not _main(["run", "--outputs", str(tmp_path / "to.npz"), package])
    assert (tmp_path / "to.npz").is_symlink() and "output_0" in np.load(tmp_path / "real.npz")


def test_the_manifest_names_machine_inputs_and_outputs(package):
    manifest = tvmc.TVMCPackage(package).manifest
    assert manifest["inputs"] == [{"name": "data", "shape": [1, 3, 9, 7], "dtype": "float32"}]
    assert manifest["outputs"] == [{"name": "output_0", "shape": [1, 4], "dtype": "float32"}]
    assert set(manifest["machine"]) == {"triple", "cpu", "features"}
    with tarfile.open(package) as archive:
        assert all(m.isreg() for m in archive.getmembers())


def test_other_code_generators_mark_their_parts(compiled, package, monkeypatch):
    from tvm.driver.tvmc import composite_target, target

    seen = []

    def mark(mod, params, mod_name="", **options):
        seen.append((mod_name, options))
        return mod

    monkeypatch.setitem(composite_target.REGISTERED_CODEGEN, "mine", {"config_key": None, "pass_pipeline": mark})
    assert target.target_from_cli("mine -a=1, llvm")[1][0]["name"] == "mine"
    made = compiled("--target", "mine -a=1, llvm")
    assert seen == [("default", {"a": "1"})]
    np.testing.assert_allclose(output(made), output(package), rtol=1e-5, atol=1e-6)


def test_settings_of_a_code_generator_are_an_option_of_its_passes(monkeypatch, model_path):
    from tvm.driver.tvmc import composite_target, target
    from tvm.ir import pass_config

    seen = []

    def mark(mod, params, mod_name="", **options):
        seen.append((tvm.transform.PassContext.current().config["mine.options"], options))
        return mod

    monkeypatch.setitem(
        composite_target.REGISTERED_CODEGEN, "mine", {"config_key": "mine.options", "pass_pipeline": mark}
    )
    entry = pass_config.ConfigEntry("mine.options", dict, None, "options of mine", None)
    monkeypatch.setitem(pass_config.CONFIGS, "mine.options", entry)
    said = {"mine": {"b": "2"}}
    assert target.target_from_cli("mine -a=1, llvm", said)[1][0]["opts"] == {"a": "1", "b": "2"}
    tvmc.compile(tvmc.load(model_path), target="mine -a=1, llvm", additional_target_options=said)
    assert seen == [({"a": "1", "b": "2"}, {"a": "1", "b": "2"})]


def test_code_generators_that_are_not_there_have_names_and_refuse_a_model(model_path, capsys):
    from tvm.driver.tvmc import composite_target, target

    assert {"cmsis-nn", "compute-library", "ethos-n", "vitis-ai"} <= set(composite_target.get_codegen_names())
    assert target.target_from_cli("cmsis-nn, llvm")[1][0]["name"] == "cmsis-nn"
    with pytest.raises(tvmc.TVMCException, match="'cmsis-nn' is not available"):
        composite_target.get_codegen_by_target("cmsis-nn")["pass_pipeline"](tvm.IRModule())
    assert _main(["compile", "--target", "cmsis-nn, llvm", model_path]) == 4
    assert "the code generator of 'cmsis-nn' is not available" in capsys.readouterr().err


def test_a_saved_model_reads_as_it_was(model_path, tmp_path):
    model = tvmc.load(model_path)
    tvmc.compile(model, target="llvm")
    with open(model.default_tuning_records_path(), "w") as records:
        records.write("a record")
    model.save(str(tmp_path / "saved.tar"))
    again = tvmc.TVMCModel(model_path=str(tmp_path / "saved.tar"))
    assert str(again.mod) == str(model.mod)
    assert open(again.default_tuning_records_path()).read() == "a record"
    assert tvmc.TVMCPackage(again.default_package_path()).is_vm == tvmc.TVMCPackage(model.default_package_path()).is_vm


def test_a_compile_ends_with_a_line_about_what_it_made(model_path, tmp_path, capsys):
    out = str(tmp_path / "m.tar")
    assert _main(["compile", "--output", out, model_path]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    cpu = tvmc.TVMCPackage(out).manifest["machine"]["cpu"]
    assert re.fullmatch(rf"{re.escape(out)}, [\d.]+ KiB, \d kernels, \d+\.\d s, for {re.escape(cpu)} \(.*\)", last)


def test_run_says_what_inputs_it_made_up_and_how_a_photo_was_prepared(package, tmp_path, capsys):
    from PIL import Image

    assert not _main(["run", package])
    assert capsys.readouterr().err == "input 'data': random values, 1x3x9x7 float32 (use --inputs FILE for real data)\n"
    assert not _main(["run", "--fill-mode", "ones", package])
    assert "input 'data': ones" in capsys.readouterr().err
    np.savez(tmp_path / "in.npz", data=np.zeros((1, 3, 9, 7), "float32"))
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), package])
    assert capsys.readouterr().err == ""
    Image.new("RGB", (40, 30)).save(tmp_path / "p.png")
    assert not _main(["run", "--inputs", str(tmp_path / "p.png"), package])
    said = capsys.readouterr().err
    assert "40x30 resized to 14x10, its middle 7x9 cut out" in said
    assert "pixels RGB (x/255 - mean)/std, mean 0.485 0.456 0.406" in said
    assert not _main(["run", "--preprocess", "none", "--bgr", "--inputs", str(tmp_path / "p.png"), package])
    assert "pixels BGR as they are; NCHW float32" in capsys.readouterr().err
