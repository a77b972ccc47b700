"""Search policies: they select the states of a task to measure next."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from ..error import TVMError, not_defined
from .annotate import Limits
from .cost_model import CostModel, RandomModel
from .cost_model.estimate import EstimateModel
from .cost_model.xgb_model import XGBModel
from .evolution import Breeder, Candidate
from .evolution import evolve as evolve_states
from .fragment_rule import fragment_rules
from .gpu_limits import GPULimits
from .gpu_rules import gpu_rules
from .intrinsic_rule import intrinsic_rules
from .loop_state import State
from .measure import MeasureInput, MeasureResult, ProgramMeasurer
from .measure_record import RecordReader
from .packing import packed, with_sums_in_lanes
from .population import Population, Space, evolve
from .queries import is_tensorized
from .relatives import Relation
from .search_task import SearchTask, TuningOptions
from .sketch_rules import CPU_RULES, SEARCHED_RULES, Condition, Rule, Sketching, generate
from .state import StateObject
from .state_features import FeatureExtractor, estimated_speed
from .steps import TransformStep
from .tile_rule import tile_rules

# The maximum number of candidates of a population per requested state; a small population suffices to select a few
# states.
_CANDIDATES_EACH = 32
# The minimum share of random states among the first states of a task.
_FIRST_BY_CHANCE = 0.25
# The share of the first states that is selected by the instruction-based estimate, without knowledge from other tasks.
_FIRST_BY_ESTIMATE = 0.375
# The shares of the first states of a task, and of later ones, that use the best decisions of sibling tasks; and the
# number of states of a sibling that are tried.
_FIRST_BORROWED, _BORROWED, _MOST_OF_A_SIBLING = 0.25, 0.125, 4
# The maximum share of the states proposed at once with the same register tile, if there are others.
_MOST_OF_A_TILE = 0.4


class SearchCallback:
    """A callback that prepares a policy before the search."""

    def prepare(self, policy: SearchPolicy) -> None:
        """Prepare a policy before it proposes its first states.

        Parameters
        ----------
        policy : SearchPolicy
            The policy.

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "prepare")


class PreloadMeasuredStates(SearchCallback):
    """A callback that loads the states of a record file: they are not measured again, and are among the parents of new
    states. A file that does not exist is ignored.

    Parameters
    ----------
    filename : str
        The record file.
    """

    def __init__(self, filename: str):
        self.filename = filename

    def prepare(self, policy: SearchPolicy) -> None:
        if not os.path.exists(self.filename):
            return
        task, target = policy.search_task, str(policy.search_task.target).split()
        rows = [
            (inp, res)
            for inp, res in RecordReader(self.filename)
            if inp.task.workload_key == task.workload_key and inp.task.target_text.split() == target
        ]
        policy.learn([MeasureInput(task, inp.state) for inp, _ in rows], [res for _, res in rows])


class PreloadCustomSketchRule(SearchCallback):
    """A callback that adds a user-defined sketch rule, which is tried before the others.

    Parameters
    ----------
    meet_condition_func : Callable
        The function that returns PASS, APPLY or APPLY_AND_SKIP_REST for the policy, a state and a stage number.
    apply_func : Callable
        The function with the same parameters that returns pairs of a state and the stage to visit next, -1 for none.
    rule_name : str
        The name of the rule.
    """

    PASS, APPLY, APPLY_AND_SKIP_REST = (int(condition) for condition in Condition)

    def __init__(self, meet_condition_func: Callable, apply_func: Callable, rule_name: str = "CustomSketchRule"):
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name

    def prepare(self, policy: SearchPolicy) -> None:
        """Insert the rule before the rules of the policy.

        Parameters
        ----------
        policy : SearchPolicy
            A policy that generates sketches.

        Raises
        ------
        TVMError
            The policy is not a ``SketchPolicy``.
        """
        if not isinstance(policy, SketchPolicy):
            raise TVMError(
                f"PreloadCustomSketchRule: a {type(policy).__name__} does not generate sketches; use a SketchPolicy"
            )

        def apply(at: Sketching) -> list[tuple[StateObject, int]]:
            found = self.apply_func(policy, at.state, at.stage_id)
            return [(getattr(state, "state_object", state), int(stage_id)) for state, stage_id in found]

        def condition(at: Sketching) -> Condition:
            return Condition(int(self.meet_condition_func(policy, at.state, at.stage_id)))

        policy.user_rules.append(Rule(self.rule_name, condition, apply))


class SearchPolicy:
    """A search policy proposes states of a task and learns from their measurements.

    Parameters
    ----------
    task : SearchTask
        The task.
    init_search_callbacks : list of SearchCallback, optional
        The callbacks that prepare the policy, such as loading records or adding rules.
    verbose : int
        Whether to print the rounds.
    """

    def __init__(
        self, task: SearchTask, init_search_callbacks: Sequence[SearchCallback] | None = None, verbose: int = 1
    ):
        self.search_task, self.verbose = task, verbose
        # Measured states, and the seconds of those that ran successfully.
        self.measured: dict[tuple[TransformStep, ...], float | None] = {}
        self._steps: dict[TransformStep, TransformStep] = {}
        for callback in init_search_callbacks or ():
            callback.prepare(self)

    def set_verbose(self, verbose: int) -> None:
        """Set whether to print the rounds.

        Parameters
        ----------
        verbose : int
            0 to print nothing.
        """
        self.verbose = verbose

    def propose(self, count: int) -> list[StateObject]:
        """At most ``count`` states that were not measured yet; none if the search is finished.

        Parameters
        ----------
        count : int
            The number of requested states.

        Returns
        -------
        list of StateObject

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "propose")

    def best_guess(self) -> StateObject:
        """The state to use without measuring.

        Returns
        -------
        StateObject

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "best_guess")

    def learn(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Process measurements of this task.

        Parameters
        ----------
        inputs : list of MeasureInput
            The states that were measured.
        results : list of MeasureResult
            The result of each measurement.
        """
        for inp, res in zip(inputs, results):
            # Most steps occur in many states, so equal steps are stored once.
            steps = tuple(self._steps.setdefault(step, step) for step in inp.state.transform_steps)
            self.measured[steps] = res.mean_cost if res.error_no == 0 else None

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Propose states, measure them and learn from the measurements.

        Parameters
        ----------
        num_measure : int
            The maximum number of states to measure.
        measurer : ProgramMeasurer
            The measurer that builds and runs them.

        Returns
        -------
        tuple of list
            The measured inputs and their results; empty if the search is finished.
        """
        inputs = [MeasureInput(self.search_task, state) for state in self.propose(num_measure)]
        results = measurer.measure(self.search_task, self, inputs)
        self.learn(inputs, results)
        return inputs, results


class EmptyPolicy(SearchPolicy):
    """A policy without a search: its only state is the plain loops.

    Parameters
    ----------
    task : SearchTask
        The task.
    init_search_callbacks : list of SearchCallback, optional
        The callbacks that prepare the policy, such as loading records or adding rules.
    """

    def __init__(self, task: SearchTask, init_search_callbacks: Sequence[SearchCallback] | None = None):
        super().__init__(task, init_search_callbacks)

    def propose(self, count: int) -> list[StateObject]:
        plain = self.best_guess()
        return [plain][:count] if plain.transform_steps not in self.measured else []

    def best_guess(self) -> StateObject:
        return self.search_task.compute_dag.get_init_state().state_object


class SketchPolicy(SearchPolicy):
    """A policy that generates sketches by rules, and searches their states by random sampling and evolution with a cost
    model.

    Parameters
    ----------
    task : SearchTask
        The task.
    program_cost_model : CostModel, optional
        The cost model that selects states; random selection by default.
    params : dict, optional
        Values that replace those of ``DEFAULT_PARAMS``.
    seed : int, optional
        The random seed.
    verbose : int
        Whether to print the rounds.
    init_search_callbacks : list of SearchCallback, optional
        The callbacks that prepare the policy, such as loading records or adding rules.
    """

    DEFAULT_PARAMS: ClassVar[dict[str, Any]] = {
        # The share of random states among the measured states.
        "eps_greedy": 0.05,
        "evolutionary_search_population": 2048,
        "evolutionary_search_num_iters": 4,
        "cpu_multi_level_tiling_structure": "SSRSRS",
        "gpu_multi_level_tiling_structure": "SSSRRSRS",
        "max_innermost_split_factor": 64,
        "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
        # The share of a population that comes from the best states so far.
        "sample_init_use_measured_ratio": 0.2,
        # The number of states of ``sample_initial_population``; a smaller population is returned completely.
        "sample_init_min_population": 50,
        # How often a round without new states is repeated.
        "retry_search_one_round_on_empty": 1,
    }
    # Parameters of Ansor that are not supported, and the reason.
    NOT_TAKEN: ClassVar[dict[str, str]] = {
        "evolutionary_search_mutation_prob": "every candidate of a generation is a mutation or a crossover",
    }
    # Other defaults if states are generated one by one.
    ONE_BY_ONE: ClassVar[dict[str, Any]] = {"evolutionary_search_population": 192, "evolutionary_search_num_iters": 3}

    def __init__(
        self,
        task: SearchTask,
        program_cost_model: CostModel | None = None,
        params: dict[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ):
        unknown = sorted(set(params or ()) - set(self.DEFAULT_PARAMS))
        if unknown and unknown[0] in self.NOT_TAKEN:
            raise ValueError(
                f"SketchPolicy: the parameter '{unknown[0]}' is not supported: {self.NOT_TAKEN[unknown[0]]}"
            )
        if unknown:
            raise ValueError(
                f"SketchPolicy: unknown parameter '{unknown[0]}'; the parameters are {', '.join(self.DEFAULT_PARAMS)}"
            )
        features = task.target.features
        if not features.is_cpu and not features.is_gpu:
            raise TVMError(f"SketchPolicy: only CPUs and GPUs are supported, not {task.target_kind}")
        _check_gpu_structure((params or {}).get("gpu_multi_level_tiling_structure", "SSSRRSRS"))
        self.params = {**self.DEFAULT_PARAMS, **({} if features.is_cpu else self.ONE_BY_ONE), **(params or {})}
        population = self.params["evolutionary_search_population"]
        if (params or {}).get("sample_init_min_population", 0) > population:
            raise ValueError(
                "SketchPolicy: sample_init_min_population must not exceed evolutionary_search_population, "
                f"{population}, because a search begins with that many states"
            )
        self.program_cost_model = program_cost_model or RandomModel()
        self.generator = random.Random(seed)
        if seed is not None and isinstance(self.program_cost_model, RandomModel):
            self.program_cost_model.seed(seed)
        self.user_rules: list[Rule] = []
        self._breeder: Breeder | None = None
        # The sketches of Ansor's rules; a search on CPUs uses its own rules and variants instead.
        self._by_rules: list[StateObject] = []
        self._space: Space | None = None
        # Candidates of measured states, and successful states whose candidates are not determined yet, because sketches
        # are generated after all rules are added.
        self._parents: dict[tuple[TransformStep, ...], Candidate] = {}
        # The array keys of candidates that were proposed or read from records, or are about to be proposed.
        self._proposed: set[bytes] = set()
        self._keys: dict[tuple[TransformStep, ...], bytes] = {}
        self._read: list[StateObject] = []
        # Policies of the other tasks of a model, whose best decisions are tried if they are valid for this task, and
        # the relations of their sketches to the sketches of this policy.
        self.siblings: Sequence[SearchPolicy] = ()
        self._relations: dict[SketchPolicy, list[list[tuple[int, Relation]]]] = {}
        super().__init__(task, init_search_callbacks, verbose)

    # -- sketches and populations ----------------------------------------------------------------------------------

    @property
    def breeder(self) -> Breeder:
        """The generator of candidates; the sketches are generated at the first use."""
        if self._breeder is None:
            params, task = self.params, self.search_task
            dag, hardware, features = task.compute_dag, task.hardware_params, task.target.features
            of_target = (*intrinsic_rules(task.target), *tile_rules(task.target)) if features.is_cpu else ()
            if features.is_gpu:
                rules: Sequence[Rule] = (*fragment_rules(task.target), *gpu_rules(features.multiprocessors))
                structure = params["gpu_multi_level_tiling_structure"]
                gpu = GPULimits.of(hardware, features)
            else:
                rules = (*of_target, *CPU_RULES)
                structure, gpu = params["cpu_multi_level_tiling_structure"], None
            sketches = self._by_rules = generate(dag, hardware, structure, (*self.user_rules, *rules))
            if features.is_cpu and not self.user_rules:
                sketches = generate(dag, hardware, structure, (*of_target, *SEARCHED_RULES))
                twins = [twin(dag, sketch) for twin in (packed, with_sums_in_lanes) for sketch in sketches]
                sketches = [*sketches, *filter(None, twins)]
            limits = Limits(
                max(hardware.num_cores, 1),
                params["max_innermost_split_factor"],
                params["max_vectorize_size"],
                not params["disable_change_compute_location"],
                gpu,
            )
            self._breeder = Breeder(dag, sketches, limits, self.generator)
        return self._breeder

    @property
    def space(self) -> Space | None:
        """Candidates as arrays; None for targets whose states are annotated one by one."""
        task = self.search_task
        if self._space is None and task.target.features.is_cpu:
            breeder = self.breeder
            self._space = Space(FeatureExtractor.of(task), breeder.sketches, breeder.limits, self.generator)
        return self._space

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Generate all loop structures of the rules. A search on CPUs also contains their variants (``packing``), and
        omits parallel partial reductions if there are many elements.

        Parameters
        ----------
        print_for_debug : bool, optional
            Whether to print each sketch with its number.

        Returns
        -------
        list of State
            The sketches; their tile sizes are not chosen yet.
        """
        dag = self.breeder.dag
        states = [State(sketch, dag) for sketch in self._by_rules]
        if print_for_debug:
            for number, state in enumerate(states):
                print(f"sketch {number}\n{state}")
        return states

    def _random(self, count: int) -> list[Candidate]:
        """Return different random candidates; fewer if there are not enough."""
        found: dict[tuple[TransformStep, ...], Candidate] = {}
        for _ in range(4 * count):
            if len(found) == count:
                break
            made = self.breeder.random()
            if made is not None and made.key not in found:
                found[made.key] = made
        return list(found.values())

    def _leaders(self, least: int = 0) -> list[Candidate]:
        """Return the best candidates so far: as many as a population takes over, but at least ``count``."""
        share = self.params["evolutionary_search_population"] * self.params["sample_init_use_measured_ratio"]
        costs = self._costs()
        return [self._parents[key] for key in sorted(costs, key=costs.__getitem__)[: max(int(share), least)]]

    def _forget(self) -> None:
        """Drop candidates that ran and are not leaders, because a state is much larger than its steps."""
        leaders = {candidate.key for candidate in self._leaders(least=1)}
        self._parents = {key: one for key, one in self._parents.items() if key in leaders or key not in self.measured}

    def _costs(self) -> dict[Any, float]:
        """Return the seconds of the candidates that ran."""
        for recovered in filter(None, map(self.breeder.recovered, self._read)):
            self._parents[recovered.key] = recovered
        self._read.clear()
        return {key: cost for key in self._parents if (cost := self.measured.get(key)) is not None}

    def _scores(self, candidates: Sequence[Candidate]) -> list[float]:
        return list(self.program_cost_model.predict(self.search_task, [c.state for c in candidates]))

    def _best(self, leaders: Sequence[Candidate], count: int, is_new: bool = True) -> list[Candidate]:
        """Return the best candidates, by the cost model, of a population with these leaders and of its descendants;
        with ``is_new`` only those that were not measured."""
        size, generations = (self.params[f"evolutionary_search_{name}"] for name in ("population", "num_iters"))
        if self.space is None:
            population = [*leaders, *self._random(size - len(leaders))]
            ranked = evolve_states(self.breeder, population, self._scores, generations, count + len(self.measured))
            return [c for c in ranked if not is_new or c.key not in self.measured][:count]
        for leader in leaders:
            if leader.key not in self._keys:
                self._keys[leader.key] = self.space.key_of(leader.sketch, leader.decisions)
        size = min(size, max(_CANDIDATES_EACH * count, len(leaders)))
        population = self.space.of_keys([self._keys[leader.key] for leader in leaders], size)
        found, _ = evolve(self.space, population, self._scored, generations)
        return self._built(found, count, is_new)

    def _built(self, ranked: Population, count: int, is_new: bool = True) -> list[Candidate]:
        """Build the first candidates of an array as states."""
        assert self.space is not None
        found: dict[tuple[TransformStep, ...], Candidate] = {}
        keys = ranked.keys()
        rows = [row for row, key in enumerate(keys) if not is_new or key not in self._proposed]
        if is_new:
            rows = self._mixed(ranked, rows, max(round(_MOST_OF_A_TILE * count), 1))
        for row in rows:
            if len(found) == count:
                break
            key = keys[row]
            made = self.breeder.annotated(*self.space.decided(ranked, row), complete=True)
            if made is not None and not (is_new and made.key in self.measured):
                found.setdefault(made.key, made)
                self._keys[made.key] = key
        return list(found.values())

    def _mixed(self, ranked: Population, rows: Sequence[int], most: int) -> list[int]:
        """Return rows in their order, with rows moved to the end once ``most`` have the same register tile.
        Otherwise a cost model with a wrong preference for a register tile would propose nothing else and could not
        correct itself."""
        assert self.space is not None
        tiles, met = self.space.register_tiles(ranked), Counter[tuple[int, ...]]()
        first, last = [], []
        for row in rows:
            met[tiles[row]] += 1
            (first if met[tiles[row]] <= most else last).append(row)
        return [*first, *last]

    def _scored(self, population: Population) -> tuple[Population, Any]:
        """Return the candidates of a population that are valid states of their sketches, and their scores."""
        assert self.space is not None
        model, task = self.program_cost_model, self.search_task
        if model.scores_rows:
            return self.space.scored(population, lambda groups: model.predict_rows(task, groups))
        known, _ = self.space.scored(population, lambda groups: [np.zeros(len(group)) for group in groups])
        made = [self.breeder.annotated(*self.space.decided(known, row), complete=True) for row in range(len(known))]
        rows = np.array([row for row, one in enumerate(made) if one is not None], dtype="int64")
        return known.take(rows), np.array(self._scores([one for one in made if one is not None]), dtype="float64")

    def sample_initial_population(self) -> list[State]:
        """Return ``sample_init_min_population`` random states, including some of the best so far.

        Returns
        -------
        list of State
            The different states; fewer if there are not enough.
        """
        count = min(self.params["sample_init_min_population"], self.params["evolutionary_search_population"])
        leaders = self._leaders()[: int(count * self.params["sample_init_use_measured_ratio"])]
        sampled = [*leaders, *self._random(count - len(leaders))]
        return [State(candidate.state, self.search_task.compute_dag) for candidate in sampled]

    def evolutionary_search(self, init_populations: Sequence[Any], out_size: int) -> list[State]:
        """Return the best states, by the cost model, of the given states and their descendants.

        Parameters
        ----------
        init_populations : list of State or StateObject
            The first parents, in addition to random ones; states that do not belong to sketches of this policy are
            ignored.
        out_size : int
            The number of requested states.

        Returns
        -------
        list of State
            The states, best first.
        """
        objects = [getattr(state, "state_object", state) for state in init_populations]
        leaders = [c for c in (self.breeder.recovered(state) for state in objects) if c is not None]
        return [State(c.state, self.search_task.compute_dag) for c in self._best(leaders, out_size, is_new=False)]

    # -- searching -------------------------------------------------------------------------------------------------

    def propose(self, count: int) -> list[StateObject]:
        for _ in range(1 + self.params["retry_search_one_round_on_empty"]):
            found = self._propose(count)
            if found:
                return found
        return []

    def _propose(self, count: int) -> list[StateObject]:
        fresh = self._best(self._leaders(), count)
        share, by_estimate = self.params["eps_greedy"], []
        if self.space is not None and not self.measured:
            # If the cost model has not learned from this task, its best candidates may all be wrong in the same way.
            share = max(share, _FIRST_BY_CHANCE)
            by_estimate = self._by_estimate(round(_FIRST_BY_ESTIMATE * count))
        borrowed = self._borrowed(round((_BORROWED if self.measured else _FIRST_BORROWED) * count))
        by_chance = min(round(share * count), count)
        sure = max(count - by_chance - len(by_estimate) - len(borrowed), 0)
        chosen = {c.key: c for c in (*borrowed, *fresh[:sure], *by_estimate[: count - by_chance])}
        for candidate in (*self._by_chance(by_chance), *fresh[sure:]):
            if len(chosen) < count and candidate.key not in self.measured:
                chosen.setdefault(candidate.key, candidate)
        self._forget()
        self._parents.update(chosen)
        self._keys = {key: self._keys[key] for key in self._parents if key in self._keys}
        self._proposed.update(self._keys.values())
        return [candidate.state for candidate in chosen.values()]

    def _borrowed(self, count: int) -> list[Candidate]:
        """Return the best candidates of siblings converted to candidates of this task, if their decisions are valid
        here."""
        found: dict[tuple[TransformStep, ...], Candidate] = {}
        for other in self.siblings:
            if other is self or not isinstance(other, SketchPolicy) or not other.measured:
                continue
            relations = self._relations_to(other)
            if len(found) >= count or not any(relations):
                continue
            for candidate in other._leaders(least=1)[:_MOST_OF_A_SIBLING]:
                for number, relation in relations[candidate.sketch]:
                    decisions = relation.translated(candidate.decisions)
                    made = self.breeder.annotated(number, decisions, complete=True) if decisions is not None else None
                    if made is not None and made.key not in self.measured:
                        found.setdefault(made.key, made)
        return list(found.values())[:count]

    def _relations_to(self, other: SketchPolicy) -> list[list[tuple[int, Relation]]]:
        """Return for each sketch of a sibling the corresponding sketches of this policy."""
        if other not in self._relations:
            ours = list(enumerate(self.breeder.sketches))
            self._relations[other] = [
                [(number, found) for number, sketch in ours if (found := Relation.between(theirs, sketch)) is not None]
                for theirs in other.breeder.sketches
            ]
        return self._relations[other]

    def _by_estimate(self, count: int) -> list[Candidate]:
        """Return the best candidates by the instruction-based estimate alone, without the cost model. If some have
        tensor intrinsics and some do not, both groups get the same share, because the code that LLVM generates for
        plain loops is harder to estimate."""
        if self.space is None or not count:
            return []
        size, generations = (self.params[f"evolutionary_search_{name}"] for name in ("population", "num_iters"))
        kinds: dict[bool, list[int]] = {}
        for number, sketch in enumerate(self.breeder.sketches):
            kinds.setdefault(any(map(is_tensorized, sketch.stages)), []).append(number)
        each, made = -(-count // len(kinds)), []
        for numbers in kinds.values():
            population = self.space.random(min(size // len(kinds), _CANDIDATES_EACH * each), numbers)
            found, _ = evolve(self.space, population, self._estimated, generations)
            made.append(self._built(found, each))
        return [one for together in zip_longest(*made) for one in together if one is not None][:count]

    def _estimated(self, population: Population) -> tuple[Population, Any]:
        assert self.space is not None
        return self.space.scored(population, lambda groups: [estimated_speed(group) for group in groups])

    def _by_chance(self, count: int) -> list[Candidate]:
        if self.space is None:
            return self._random(count)
        drawn, _ = self.space.scored(
            self.space.random(4 * count), lambda groups: [np.zeros(len(group)) for group in groups]
        )
        return self._built(drawn.take(self.space.chance.permutation(len(drawn))), count)

    def best_guess(self) -> StateObject:
        costs = self._costs()
        if costs:
            return self._parents[min(costs, key=costs.__getitem__)].state
        found = self._best([], 1, is_new=False)
        return found[0].state if found else self.search_task.compute_dag.get_init_state().state_object

    def learn(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        super().learn(inputs, results)
        if inputs:
            self.program_cost_model.update(inputs, results)
        self._read += [
            inp.state
            for inp, res in zip(inputs, results)
            if res.error_no == 0 and inp.state.transform_steps not in self._parents
        ]


def _check_gpu_structure(structure: str) -> None:
    if not structure.startswith("SSS") or structure.count("S") < 4 or structure.count("R") != 3:
        raise ValueError(
            "SketchPolicy: gpu_multi_level_tiling_structure must begin with SSS (blocks, virtual threads and "
            f"threads) and contain one more S and three R, got '{structure}'"
        )


def default_policy(task: SearchTask, adaptive_training: bool = False) -> SearchPolicy:
    """The default search policy of a task: sketches with a cost model that learns; on CPUs only if the package of the
    model is installed.

    Parameters
    ----------
    task : SearchTask
        The task.
    adaptive_training : bool
        Whether to train the model only after the number of measurements has grown considerably.

    Returns
    -------
    SearchPolicy
        The policy.
    """
    if task.target.features.is_gpu:
        return SketchPolicy(task, EstimateModel())
    try:
        return SketchPolicy(task, XGBModel(adaptive_training=adaptive_training))
    except ImportError:
        return SketchPolicy(task)


def search(policy: SearchPolicy, options: TuningOptions) -> StateObject:
    """Search with a policy and return the best state. With zero trials, the policy's guess is returned without
    measuring.

    Parameters
    ----------
    policy : SearchPolicy
        The search policy.
    options : TuningOptions
        The budget and the measurement options.

    Returns
    -------
    StateObject
        The best state.
    """
    if options.num_measure_trials < 1:
        return policy.best_guess()
    measurer = ProgramMeasurer(options.builder, options.runner, options.measure_callbacks, options.verbose)
    key, patience = policy.search_task.workload_key, options.early_stopping
    while measurer.ct < options.num_measure_trials:
        count = min(options.num_measures_per_round, options.num_measure_trials - measurer.ct)
        inputs, _ = policy.continue_search_one_round(count, measurer)
        if options.verbose:
            print(_line(measurer, key))
        if not inputs or patience is not None and measurer.ct - measurer.best_ct.get(key, measurer.ct) > patience:
            break
    return measurer.best_state.get(key) or policy.best_guess()


def _line(measurer: ProgramMeasurer, key: str) -> str:
    best = measurer.best_cost.get(key)
    found = f"best {best * 1e3:.4g} ms" if best is not None else "none ran"
    return f"trials {measurer.ct}, failed {measurer.error_ct}, {found}"


__all__ = [
    "EmptyPolicy",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "SearchCallback",
    "SearchPolicy",
    "SketchPolicy",
    "default_policy",
    "search",
]
