"""Tables, a chart and a comparison of stored rows."""

from __future__ import annotations

from math import exp, log

from tvm.drawing.chart import grouped_bars

from .workers import BEFORE, OURS, PEERS

# The project's targets for the ratios to onnxruntime and to OpenVINO, with two threads and batch 1.
BARS = {
    "resnet50": (0.90, 0.85),
    "resnet18": (0.85, 0.80),
    "vgg16": (0.80, 0.75),
    "mobilenet_v2": (0.95, 0.95),
    "squeezenet1_1": (0.95, 0.95),
    "inception_v3": (0.95, 0.95),
    "densenet121": (0.95, 0.95),
    "resnext50_32x4d": (0.80, 1.0),
    "efficientnet_b0": (1.0, 1.0),
    "mobilenet_v3_large": (1.0, 1.0),
    "shufflenet_v2_x1_0": (1.0, 1.0),
    "bert_base_s128": (0.98, 1.0),
    "vit_b16": (0.98, 1.0),
}
BARRED = ("onnxruntime", "openvino")
MEAN_BARS = (0.92, 0.92)


TITLES = {
    "resnet18": "ResNet-18",
    "squeezenet1_1": "SqueezeNet 1.1",
    "mobilenet_v2": "MobileNetV2",
    "resnet50": "ResNet-50",
    "shufflenet_v2_x1_0": "ShuffleNetV2",
    "mobilenet_v3_large": "MobileNetV3-L",
    "efficientnet_b0": "EfficientNet-B0",
    "densenet121": "DenseNet-121",
    "inception_v3": "Inception-v3",
    "resnext50_32x4d": "ResNeXt-50",
    "vgg16": "VGG-16",
    "convnext_tiny": "ConvNeXt-T",
    "vit_b16": "ViT-B/16",
    "bert_base_s128": "BERT-base, 128",
    "openvino": "OpenVINO",
    "torch": "PyTorch",
    "jax": "XLA",
}


def key(row: dict) -> str:
    """Return the key of a row: model, shape, layout, threads, target."""
    case = row["case"]
    size = f" {case['width']}x{case['height']}" if case["height"] else ""
    batch = f" batch {case['batch']}" if case["batch"] > 1 else ""
    layout = f" {case['layout']}" if case["layout"] != "NCHW" else ""
    target = "" if row["target"] == "llvm" else f" {row['target']}"
    return f"{case['name']}{batch}{size}{layout} {row['threads']}t{target}"


def is_variant(row: dict) -> bool:
    case = row["case"]
    return case["batch"] > 1 or bool(case["height"]) or case["layout"] != "NCHW" or row["threads"] == 1


def _bar(row: dict, peer: str) -> float | None:
    case = row["case"]
    if is_variant(row) or row["threads"] != 2 or peer not in BARRED or row["target"] != "llvm":
        return None
    bars = BARS.get(case["name"])
    return bars[BARRED.index(peer)] if bars else None


def _share(row: dict) -> tuple[float, float]:
    """Return the GFLOPS of ours and their share of the peak."""
    speed = row["gflop"] / row["peers"][OURS]["p20"]
    return speed, speed / row["peak_gflops"]


def _ok(row: dict, peer: str) -> bool:
    return "p20" in row["peers"].get(peer, {})


def line(row: dict) -> str:
    """Return one row as text, for the output during a run."""
    if not _ok(row, OURS):
        errors = [f"{peer} {facts['error']:.1e}" for peer, facts in row["peers"].items() if "error" in facts]
        return f"{key(row)}: not timed; error of {', '.join(errors) or 'none'}"
    ours = row["peers"][OURS]
    speed, share = _share(row)
    text = f"{key(row)}: {ours['p20'] * 1e3:.2f} ms (median {ours['median'] * 1e3:.2f})"
    text += f", {speed:.0f} GFLOPS, {share:.0%} of peak"
    for peer, (ratio, low, high) in row["ratios"].items():
        bar = _bar(row, peer)
        text += f"; {ratio:.3f} of {peer} [{low:.3f}, {high:.3f}]" + (f" bar {bar:.2f}" if bar else "")
    return text


def _table(head: list[str], body: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *body]]
    return "\n".join(lines) + "\n"


def _time_cell(row: dict, peer: str) -> str:
    if not _ok(row, peer):
        return "failed" if row["peers"].get(peer) else ""
    facts = row["peers"][peer]
    return f"{facts['p20'] * 1e3:.2f} ({facts['median'] * 1e3:.2f})"


def _ratio_cell(row: dict, peer: str) -> str:
    if peer not in row.get("ratios", {}):
        return ""
    ratio, low, high = row["ratios"][peer]
    bar = _bar(row, peer)
    text = f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
    return text if bar is None else f"{text} {'ok' if ratio <= bar else 'over'} {bar:.2f}"


def geometric_mean(rows: dict, peer: str) -> float | None:
    ratios = [row["ratios"][peer][0] for row in rows.values() if peer in row.get("ratios", {})]
    return exp(sum(log(r) for r in ratios) / len(ratios)) if ratios else None


def tables(rows: dict) -> str:
    """Return tables of ratios, times and other measurements."""
    peers = [p for p in (*PEERS, BEFORE) if p != OURS and any(p in row["peers"] for row in rows.values())]
    ratios = [[k, *(_ratio_cell(row, p) for p in peers)] for k, row in rows.items()]
    means = [geometric_mean(rows, p) for p in peers]
    ratios.append(["geometric mean", *(f"{m:.3f}" if m else "" for m in means)])
    times = [[k, *(_time_cell(row, p) for p in (OURS, *peers))] for k, row in rows.items()]
    facts = [_facts(k, row) for k, row in rows.items() if _ok(row, OURS)]
    head = [
        "model",
        "GFLOP",
        "GFLOPS",
        "of peak",
        "compile s",
        "peak MiB compiling",
        "package MiB",
        "peak MiB running",
        *(f"{p} MiB" for p in peers),
        *(f"{p} load s" for p in peers),
        "error",
    ]
    for cells in facts:
        row = rows[cells[0]]
        for p in peers:
            cells.append(_mib(row["peers"].get(p, {}).get("peak_bytes")))
        for p in peers:
            load = row["peers"].get(p, {}).get("load_s")
            cells.append("" if load is None else f"{load:.1f}")
        error = row["peers"][OURS].get("error")
        cells.append("" if error is None else f"{error:.1e}")
    return (
        "Time of ours divided by the peer's (20th percentiles, 95 % interval, target where there is one; "
        f"rounds: {_rounds(rows, peers)}):\n\n"
        + _table(["model", *peers], ratios)
        + "\nMilliseconds, 20th percentile (median):\n\n"
        + _table(["model", "ours", *peers], times)
        + "\n"
        + _table(head, facts)
    )


def _rounds(rows: dict, peers: list[str]) -> str:
    """Return the number of rounds of each program as text."""
    counts: dict[str, list[str]] = {}
    for peer in (OURS, *peers):
        seen = sorted({row["peers"][peer].get("rounds", row["rounds"]) for row in rows.values() if _ok(row, peer)})
        if seen:
            counts.setdefault(" to ".join(str(n) for n in dict.fromkeys((seen[0], seen[-1]))), []).append(peer)
    return "; ".join(f"{n} of {', '.join('ours' if p == OURS else p for p in who)}" for n, who in counts.items())


# ---- result files ----


def _title(name: str) -> str:
    return TITLES.get(name, name)


def _variant_title(row: dict) -> str:
    return ", ".join(filter(None, [_title(row["case"]["name"]), variant(row)]))


def variant(row: dict) -> str:
    """Describe what distinguishes a row from batch 1, the usual image, layout and two threads; empty where nothing."""
    case = row["case"]
    words = [f"batch {case['batch']}" if case["batch"] > 1 else "",
             f"{case['width']}x{case['height']}" if case["height"] else "",
             case["layout"] if case["layout"] != "NCHW" else "", "1 thread" if row["threads"] == 1 else ""]  # fmt: skip
    return " ".join(filter(None, words))


def _with_input(row: dict, found: dict) -> dict:
    words = variant(row)
    return {"name": _title(row["case"]["name"]), **({"input": words} if words else {}), **found}


def _program(peer: str) -> str:
    return "ours" if peer == OURS else TITLES.get(peer, peer)


def time_row(row: dict) -> dict:
    """Return a row of a result file: milliseconds of each program and ratios with their intervals."""
    values = {_program(peer): facts["p20"] * 1e3 for peer, facts in row["peers"].items() if "p20" in facts}
    ratios = {_program(peer): found for peer, found in row.get("ratios", {}).items()}
    return _with_input(row, {"values": values, "ratios": ratios, "details": row})


def memory_row(row: dict) -> dict:
    """Return a row of a result file: the peak memory of each program in MiB."""
    values = {_program(peer): facts["peak_bytes"] / 2**20 for peer, facts in row["peers"].items()
              if facts.get("peak_bytes") and peer in (OURS, *BARRED)}  # fmt: skip
    return _with_input(row, {"values": values})


def _mib(size: float | None) -> str:
    return "" if size is None else f"{size / 2**20:.0f}"


def _facts(name: str, row: dict) -> list[str]:
    speed, share = _share(row)
    return [
        name,
        f"{row['gflop']:.2f}",
        f"{speed:.0f}",
        f"{share:.0%}",
        f"{row['compile_s']:.1f}",
        _mib(row["compile_peak_bytes"]),
        _mib(row["package_bytes"]),
        _mib(row["peers"][OURS]["peak_bytes"]),
    ]


def compare(old: dict, new: dict) -> str:
    """Return the ratios that changed. Ratios are compared, since the speed of the machine itself changes."""
    lines = []
    for name, row in new.items():
        before = old.get(name)
        if before is None:
            lines.append(f"{name}: not in the old run")
            continue
        for peer, (ratio, low, high) in row.get("ratios", {}).items():
            if peer not in before.get("ratios", {}):
                continue
            was, was_low, was_high = before["ratios"][peer]
            if high < was_low or low > was_high:
                word = "faster" if ratio < was else "slower"
                lines.append(f"{name}: {word}, {was:.3f} -> {ratio:.3f} of {peer}")
    lost = [name for name in old if name not in new]
    if lost:
        lines.append("not in this run: " + ", ".join(lost))
    return "Moved since the old run (intervals that do not touch):\n" + ("\n".join(lines) or "nothing") + "\n"


def plot(rows: dict) -> str:
    """Draw the ratios as bars in SVG; a line marks equal time, and shorter bars are faster."""
    rows = {name: row for name, row in rows.items() if row.get("ratios")}
    peers = [p for p in PEERS if any(p in row["ratios"] for row in rows.values())]
    values = [
        (_variant_title(row), [row["ratios"][p][0] if p in row["ratios"] else None for p in peers])
        for row in rows.values()
    ]
    return grouped_bars("time of ours / time of the other", [_title(p) for p in peers], values, 1.5, 1.0).file()
