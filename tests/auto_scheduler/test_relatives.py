"""Decisions of a task that are tried for others of the same loops."""

import random

import pytest

from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.relatives import Relation

ARGUMENTS = {"llvm": (8, 16, 24), "cuda": (64, 64, 64)}


def task_of(m, n, k, epilogue, target):
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k), name="b")
    out, inputs = topi.nn.dense(a, b), [a, b]
    if epilogue == "residual":
        other = te.placeholder((m, n), name="other")
        out, inputs = topi.add(out, other), [a, b, other]
    if epilogue != "none":
        out = topi.nn.relu(out)
    dag = auto_scheduler.ComputeDAG([*inputs, out])
    hardware = auto_scheduler.HardwareParams(num_cores=2, target=target) if target == "llvm" else None
    return auto_scheduler.SearchTask(
        compute_dag=dag, workload_key=dag.workload_key(), target=target, hardware_params=hardware
    )


def policy_of(m, n, k, epilogue, target="llvm", seed=0):
    return auto_scheduler.SketchPolicy(
        task_of(m, n, k, epilogue, target), params={"evolutionary_search_population": 64}, seed=seed, verbose=0
    )


def learn(policy, states):
    """The states of a policy as if they had been measured, the first the fastest."""
    inputs = [auto_scheduler.MeasureInput(policy.search_task, state) for state in states]
    policy.learn(inputs, [auto_scheduler.MeasureResult([1e-3 * (n + 1)], 0, "", 0.1, 1) for n in range(len(states))])


def lengths(state):
    return [step.lengths for step in state.transform_steps if step.code == "SP"]


@pytest.mark.parametrize("target", ARGUMENTS)
def test_the_best_states_of_a_sibling_are_among_the_first_of_a_task(target, seed):
    first, second = (policy_of(*ARGUMENTS[target], epilogue, target, seed % 1000) for epilogue in ("relu", "residual"))
    states = first.propose(8)
    learn(first, states)
    second.siblings = [first, second]
    proposed = second.propose(16)
    assert any(lengths(states[0]) == lengths(state) for state in proposed)
    # What was measured is not tried again.
    learn(second, proposed)
    assert not {state.transform_steps for state in second.propose(8)} & set(second.measured)


def test_translated_decisions_are_those_of_the_other_state(seed):
    ours, theirs = policy_of(8, 16, 24, "residual").breeder, policy_of(8, 16, 24, "relu").breeder
    theirs.generator = random.Random(seed)
    met = 0
    for number, sketch in enumerate(theirs.sketches):
        for own, other in enumerate(ours.sketches):
            relation = Relation.between(sketch, other)
            if relation is None:
                continue
            for _ in range(4):
                candidate = theirs.annotated(number, {})
                made = ours.annotated(own, relation.translated(candidate.decisions), complete=True)
                assert lengths(made.state) == lengths(candidate.state)
                assert list(made.decisions.values()) == list(candidate.decisions.values())
                met += 1
    assert met >= 8


@pytest.mark.parametrize("shape, epilogue", [((8, 16, 12), "relu"), ((8, 16, 24), "none")])
def test_tasks_of_other_loops_are_no_relatives(shape, epilogue):
    ours, theirs = policy_of(8, 16, 24, "relu"), policy_of(*shape, epilogue)
    learn(theirs, theirs.propose(4))
    related = [relations for relations in ours._relations_to(theirs) if relations]
    assert not related if shape != (8, 16, 24) else len(related) < len(theirs.breeder.sketches)
    ours.siblings = [theirs]
    assert len(ours.propose(8)) == 8
