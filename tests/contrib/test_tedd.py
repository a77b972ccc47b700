"""Pictures of schedules, in Graphviz's language and as SVG."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import tvm
from tvm import te, topi
from tvm.contrib import tedd
from tvm.te.picture import axis_graph, dataflow_graph, schedule_tree

SPACE = "{http://www.w3.org/2000/svg}"
DRAWN = [tedd.viz_schedule_tree, tedd.viz_itervar_relationship_graph, tedd.viz_dataflow_graph]


def tree_of(text: str):
    return ElementTree.fromstring(text)


def boxes(text: str) -> list[str]:
    """The titles of the boxes."""
    return [g.find(f"{SPACE}text").text for g in tree_of(text).iter(f"{SPACE}g") if g.find(f"{SPACE}text") is not None]


def softmax():
    a = te.placeholder((16, 32), name="a")
    return te.create_schedule(topi.nn.softmax(a).op)


def reduction():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    s[b].split(b.op.reduce_axis[0], factor=16)
    return s


def gpu():
    n, m, size = te.var("n"), te.var("m"), te.var("size")
    a = te.placeholder((n, m, size), name="A")
    b = te.compute((n, m, size), lambda bi, bj, bk: a[bi, bj, bk] + 1, name="B")
    r = te.reduce_axis((0, m), "r")
    c = te.compute((n, m), lambda ci, cj: te.sum(b[ci, cj, r], axis=r), name="C")
    s = te.create_schedule(c.op)
    s.cache_read(a, "shared", [b])
    s[b].vectorize(b.op.axis[-1])
    s[c].reorder(c.op.reduce_axis[0], c.op.axis[0])
    _, inner = s[c].split(c.op.reduce_axis[0], factor=16)
    parts = s.rfactor(c, inner)
    s[parts].compute_at(s[c], s[c].op.axis[-1])
    s[c].bind(s[c].op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(s[c].op.axis[1], te.thread_axis("threadIdx.x"))
    return s


def scan():
    m, n = 8, 4
    x = te.placeholder((m, n), name="x")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    return te.create_schedule(te.scan(init, update, state, [x]).op)


def group_and_inline():
    a = te.placeholder((32,), name="a")
    b = te.compute((32,), lambda i: a[i] + 1, name="b")
    c = te.compute((32,), lambda i: b[i] * 2, name="c")
    d = te.compute((32,), lambda i: c[i] * 3, name="d")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    group = s.create_group(outputs=c, inputs=a)
    group.compute_at(s[d], s[d].split(d.op.axis[0], 4)[0])
    s[d].fuse(*s[d].leaf_iter_vars[:2])
    return s


def extern():
    a = te.placeholder((8,), name="a")
    return te.create_schedule(te.extern((8,), [a], lambda ins, outs: tvm.tir.call_packed("f", ins[0], outs[0])).op)


SCHEDULES = [softmax, reduction, gpu, scan, group_and_inline, extern]


def test_the_dataflow_names_stages_tensors_and_their_ports():
    text = tedd.viz_dataflow_graph(softmax(), False, "", True)
    assert text.startswith('digraph "Dataflow Graph" {')
    for edge in (
        "Stage_0:O_0 -> Tensor_0_0",
        "Tensor_0_0 -> Stage_1:I_0",
        "Stage_1:O_0 -> Tensor_1_0",
        "Tensor_0_0 -> Stage_2:I_0",
        "Tensor_1_0 -> Stage_2:I_1",
        "Stage_2:O_0 -> Tensor_2_0",
        "Tensor_2_0 -> Stage_3:I_0",
        "Tensor_4_0 -> Stage_5:I_1",
        "Stage_5:O_0 -> Tensor_5_0",
    ):
        assert f"\t{edge}\n" in text, edge


def test_the_axes_of_a_split_are_joined_through_its_ports():
    text = tedd.viz_itervar_relationship_graph(reduction(), False, "", True)
    assert text.startswith('digraph "IterVar Relationship Graph" {') and "subgraph cluster_legend" in text
    assert "subgraph cluster_Stage_0 {" in text and "subgraph cluster_Stage_1 {" in text
    assert "(kDataPar)<br/>T.Range(0, n)" in text and "(kCommReduce)<br/>T.Range(0, m)" in text
    assert re.search(r"Split_Relation_1_0 .+>Split", text)
    for edge in (
        "IterVar_1_1:itervar -> Split_Relation_1_0:Input",
        "Split_Relation_1_0:Outer -> IterVar_1_2:itervar",
        "Split_Relation_1_0:Inner -> IterVar_1_3:itervar",
    ):
        assert edge in text


def test_the_tree_shows_scopes_loops_and_where_stages_are_computed():
    text = tedd.viz_schedule_tree(gpu(), False, "", True)
    assert text.startswith('digraph "Schedule Tree" {') and "label=ROOT" in text and "subgraph cluster_legend" in text
    assert re.search(
        r"Stage_1.*A\.shared<br/>Scope: shared.+>0.+>ax0.*\(kDataPar\).+>1.+ax1.*\(kDataPar\).+>2.+>ax2"
        r".*\(kDataPar\).+>\[A\[ax0, ax1, ax2\]\]",
        text,
    )
    assert re.search(r"bk.*\(kVectorized\)", text) and re.search(r"r\.outer.*\(kCommReduce\)", text)
    assert 'Stage_3 -> Stage_4:itervar_0 [color="#000000"]' in text and 'Stage_1 -> ROOT [color="#000000"]' in text
    assert "threadIdx.x" in text and "blockIdx.x" in text


@pytest.mark.parametrize("make", SCHEDULES)
def test_every_stage_axis_and_relation_is_in_both_forms(make):
    schedule = make()
    tree, axes, flow = schedule_tree(schedule), axis_graph(schedule), dataflow_graph(schedule)
    names = [stage.name for stage in schedule.stages]
    assert boxes(tree.drawing.file()) == ["ROOT", *names] and boxes(flow.drawing.file()) == names
    parts = [*(a for s in schedule.stages for a in s.all_iter_vars), *(r for s in schedule.stages for r in s.relations)]
    drawn = [g for g in tree_of(axes.drawing.file()).iter(f"{SPACE}g") if g.find(f"{SPACE}title") is not None]
    assert len(drawn) == len(parts)
    for i, stage in enumerate(schedule.stages):
        for j in range(len(stage.all_iter_vars)):
            assert f"\tIterVar_{i}_{j} [" in axes.dot.text()
        assert f"\tStage_{i} [" in tree.dot.text() and f"\tStage_{i} [" in flow.dot.text()
    for picture in (tree, axes, flow):
        assert picture.dot.text().count("{") == picture.dot.text().count("}")


@pytest.mark.parametrize("make", SCHEDULES)
def test_the_same_schedule_makes_the_same_pictures(make):
    for draw in (schedule_tree, axis_graph, dataflow_graph):
        schedule = make()
        assert draw(schedule).drawing.file() == draw(schedule).drawing.file()
        assert draw(schedule.normalize()).dot.text(), "normalized schedules are drawn too"


def test_groups_and_scans_hold_their_stages():
    tree = schedule_tree(group_and_inline()).dot.text()
    assert "Stage_2 -> Stage_3" in tree and re.search(r"Stage_1 -> \w+ .*style=dashed", tree)
    names = [stage.name for stage in scan().stages]
    update, whole = names.index("update"), names.index("scan")
    assert f"Stage_{update} -> Stage_{whole}" in schedule_tree(scan()).dot.text()


def test_a_schedule_that_cannot_be_lowered_yet_is_drawn():
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i], name="b")
    c = te.compute((8,), lambda i: b[7 - i], name="c")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis((0, 4), "threadIdx.x"))  # the extents disagree
    with pytest.raises(tvm.TVMError, match="has 8 iterations, but threadIdx.x has only 4"):
        tvm.lower(s, [a, c])
    assert "(kDataPar) T.Range(0, 8) threadIdx.x" in tedd.viz_schedule_tree(s, output_dot_string=True)


def test_hostile_names_stay_text():
    a = te.placeholder((4,), name='<b>&"\n')
    s = te.create_schedule(te.compute((4,), lambda i: a[i] + 1, name="</TD>").op)
    for draw in DRAWN:
        text = draw(s, output_dot_string=True)
        labels = re.findall(r"label=<(<TABLE.*?</TABLE>)>", text)
        cells = [cell.text for label in labels for cell in tree_of(label).iter("TD")]
        assert len(labels) == text.count("<TABLE") and (draw is DRAWN[1] or any("<b>" in (c or "") for c in cells))
    assert boxes(schedule_tree(s).drawing.file()) == ["ROOT", '<b>&"', "</TD>"]


def test_files_are_text_or_pictures_by_their_name(tmp_path):
    for draw in DRAWN:
        assert draw(reduction(), dot_file_path=str(tmp_path / "x.dot")) is None
        draw(reduction(), dot_file_path=str(tmp_path / "x.svg"))
        assert (tmp_path / "x.dot").read_text().startswith("digraph ")
        assert tree_of((tmp_path / "x.svg").read_text()).tag == f"{SPACE}svg"


def test_showing_a_picture_without_a_notebook_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(RuntimeError, match=r'IPython is not installed; dot_file_path="name.svg" writes it'):
        tedd.viz_schedule_tree(reduction(), show_svg=True)


def test_a_notebook_shows_a_schedule_as_its_tree():
    schedule = reduction()
    assert schedule._repr_svg_() == schedule_tree(schedule).drawing.file()


def test_a_schedule_of_many_stages_is_drawn():
    tensor = te.placeholder((8,), name="x")
    for i in range(300):
        tensor = te.compute((8,), lambda j, t=tensor: t[j] + 1, name=f"t{i}")
    schedule = te.create_schedule(tensor.op)
    for draw in (schedule_tree, axis_graph, dataflow_graph):
        assert len(boxes(draw(schedule).drawing.file())) >= 300
