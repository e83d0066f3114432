"""Answers as typed objects. Their fields are the keys of the commands' --json, with the same units in the names."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from pipescope._keywords import Hardware, Pipeline, given_to
from pipescope._schedule import asked_schedule
from pipescope._timeline import MemorySamples, Timeline
from pipescope._values import imported_pandas
from pipescope.errors import UsageError

if TYPE_CHECKING:
    import pandas


@functools.cache
def _hints(type_: Any) -> dict[str, Any]:
    return typing.get_type_hints(type_, vars(sys.modules[type_.__module__]))


def built(type_: Any, value: Any) -> Any:
    """The JSON value as an object of that type: dataclasses by their fields, and tuples of them."""
    origin = typing.get_origin(type_)
    if origin in (Union, types.UnionType):
        wanted = next(each for each in typing.get_args(type_) if each is not type(None))
        return None if value is None else built(wanted, value)
    if origin is tuple:
        return tuple(built(typing.get_args(type_)[0], each) for each in value)
    if isinstance(type_, type) and dataclasses.is_dataclass(type_):
        hints: dict[str, Any] = _hints(type_)
        names = {field.name for field in dataclasses.fields(type_)}
        return type_(**{name: built(hints[name], each) for name, each in value.items() if name in names})
    return dict(value) if isinstance(value, Mapping) else value


def duration_text(ns: float) -> str:
    """ "12.34 ms"."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"


#: Options with a value for each lane, or one for all.
_BY_LANE = ("devices", "speed", "memory_limit")


def _first_lanes(value: Any, lanes: int) -> Any:
    """The values of that many lanes. Fewer take the first ones, and more repeat the last one, as the planner does."""
    values = value.split(",") if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or len(values) < 2:
        return value
    return (*values[:lanes], *values[-1:] * (lanes - len(values)))


def _drawn(step: object, timeline: Timeline) -> str:
    from html import escape

    return f"<div>{escape(repr(step))}</div>{timeline._repr_html_()}"


@dataclass(frozen=True, kw_only=True)
class MemoryBreakdown:
    """What a lane's bytes are for. docs/cli/simulate.md describes the categories; -1 is not known."""

    parameters: int
    gradients: int
    optimizer: int
    boundary: int
    saved: int
    skip: int
    transient: int
    copy: int
    output: int


@dataclass(frozen=True, kw_only=True)
class SimulatedPartition:
    """Layers that one lane runs: ``layers`` are the first and the last."""

    layers: tuple[int, ...]
    lane: int
    device: str
    parameter_bytes: int | None  #: None if memory is unknown
    mirror_lane: int | None = None  #: of the other copy, with a bidirectional schedule


@dataclass(frozen=True, kw_only=True)
class SimulatedLane:
    """What a lane does in a step. ``peak`` is what ``peak_bytes`` consists of; both are None if memory is unknown."""

    busy_ns: int
    bubble_fraction: float
    peak_bytes: int | None
    peak: MemoryBreakdown | None
    gradient_sum_ns: int | None = None  #: in which it sums gradients and computes nothing; the bubble contains it
    peak_reserved_bytes: int | None = None
    model_tflops_per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class SimulatedStep:
    """The figures of a simulated step. Fractions are 0 to 1. Fields that end in _mean are of the expected step, and None
    if the profile has no noise; the others are without noise."""

    step_ns: int  #: from the first forward's start to the last backward's end
    bubble_fraction: float  #: mean over lanes of 1 - busy / step
    utilization: float
    speedup: float  #: over one device that runs all layers of the mini-batch alone
    samples_per_second: float  #: without the optimizer
    balance: tuple[int, ...]
    chunks: int  #: micro-batches asked for
    micro_batches: int  #: micro-batches that a step has
    batch: int  #: samples of a mini-batch
    checkpoint: str
    schedule: str
    dtype: str
    optimizer: str
    master_weights: bool
    feasible: bool  #: every lane keeps its memory limit
    extrapolated: bool  #: a micro-batch is smaller or larger than all that were profiled
    estimated: bool  #: the profile's times were not measured
    partitions: tuple[SimulatedPartition, ...]
    lanes: tuple[SimulatedLane, ...]
    step_mean_ns: int | None = None
    step_band_ns: tuple[int, ...] | None = None  #: 5th and 95th percentile of a run's steps
    bubble_mean: float | None = None
    utilization_mean: float | None = None
    speedup_mean: float | None = None
    samples_per_second_mean: float | None = None
    tokens_per_second: float | None = None  #: None unless the profile knows the length of a sequence
    tokens_per_second_mean: float | None = None
    lower_bound_ns: int | None = None  #: no order of the same tasks that keeps the memory limit is faster
    gap_above_bound: float | None = None  #: step_ns / lower_bound_ns - 1
    model_flops: float | None = None
    model_tflops_per_second: float | None = None
    mfu: float | None = None
    model_tflops_per_second_mean: float | None = None
    mfu_mean: float | None = None
    memory_unknown: bool = False  #: the layers' bytes are not known: None
    replicas: int = 1
    update: str = "synchronous"  #: or staggered: steps overlap, and the step is their period
    device_idle_fraction: float | None = None
    _asked: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the question's arguments

    @property
    def expected_step_ns(self) -> int:
        """The expected step, or the step without noise if the profile has none."""
        return self.step_ns if self.step_mean_ns is None else self.step_mean_ns

    @property
    def peak_bytes(self) -> int | None:
        """The highest peak of any lane. None if memory is unknown."""
        peaks = [lane.peak_bytes for lane in self.lanes if lane.peak_bytes is not None]
        return max(peaks) if peaks else None

    @property
    def options(self) -> dict[str, Any]:
        """What was simulated, hardware included, as keyword arguments of simulate(), which then gives the same answer:
        change one and simulate again. Files are named by their paths."""
        lanes = len(self.lanes)
        options = {
            name: _first_lanes(value, lanes) if name in _BY_LANE else value
            for name, value in self._asked.items()
            if name != "replicas"
        }
        options |= {name: getattr(self, name) for name in ("balance", "chunks", "batch", "checkpoint")}
        options["schedule"] = asked_schedule(self._asked.get("schedule"), self.schedule)
        lane_of = tuple(partition.lane for partition in self.partitions)
        if options["schedule"] == "auto" and lane_of != tuple(range(lanes)):  # a named schedule implies its placement
            options["placement"] = lane_of
        if self.replicas > 1:
            options["replicas"] = self.replicas
        return options

    @property
    def pipeline(self) -> Pipeline:
        """The part of `options` that says how the model was trained."""
        return given_to(Pipeline, self.options)

    @property
    def hardware(self) -> Hardware:
        """The part of `options` that says on what machine."""
        return given_to(Hardware, self.options)

    def __repr__(self) -> str:
        bubble = self.bubble_fraction if self.bubble_mean is None else self.bubble_mean
        balance = ",".join(map(str, self.balance)) if len(self.balance) < 12 else f"{len(self.balance)} partitions"
        return (
            f"{type(self).__name__}(balance {balance}, {self.micro_batches} micro-batches, {self.schedule}, "
            f"{self.checkpoint}: step {duration_text(self.expected_step_ns)}, bubble {bubble:.2%}"
            f"{'' if self.feasible else ', infeasible'})"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Simulation(SimulatedStep):
    """A simulated step with its timeline. A notebook draws it."""

    assumed: dict[str, str]  #: options that were not given, with the values assumed
    timeline: Timeline
    memory: MemorySamples

    def _repr_html_(self) -> str:
        return _drawn(self, self.timeline)


@dataclass(frozen=True, kw_only=True, repr=False)
class ComparedSchedule(SimulatedStep):
    """A schedule among others: ``note`` is a cost that the figures do not show."""

    name: str
    synchronous: bool  #: the update equals that of one device
    communicated_bytes: int  #: between all lanes in a step
    note: str

    @property
    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = SimulatedStep.options.__get__(self)
        if self.schedule == "gpipe":  # compared without this limit, which gpipe cannot keep
            options.pop("in_flight", None)
        return options


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A schedule that was not simulated."""

    name: str
    because: str


@dataclass(frozen=True, kw_only=True)
class ScheduleComparison:
    """What the same lanes do with one mini-batch under each schedule."""

    schedules: tuple[ComparedSchedule, ...]
    left_out: tuple[LeftOut, ...]
    assumed: dict[str, str]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each schedule."""
        return _frame(self.schedules)


@dataclass(frozen=True, kw_only=True)
class FoundBalance:
    """A balance, as pipescope balance prints it. A sequence of the layers of each partition: ``list(found)``."""

    balance: tuple[int, ...]
    step_ns: int
    lower_bound_ns: int | None  #: no balance of that many partitions is faster; None if no bound is known
    optimal: bool  #: step_ns is proved to be the shortest
    algorithm: str
    ranked_by_simulation: bool
    peak_bytes: tuple[int, ...] | None  #: by lane; None if memory is unknown
    micro_batches: int
    dtype: str
    optimizer: str
    estimated: bool
    extrapolated: bool
    assumed: dict[str, str]
    step_mean_ns: int | None = None
    bubble_mean: float | None = None
    repaired: bool = False
    feasible: bool = True  #: every lane keeps its memory limit
    smallest_memory_limit: int | None = None  #: bytes; if infeasible: some balance keeps it
    smallest_memory_limits: tuple[int, ...] | None = None
    smallest_partitions: int | None = None
    infeasible_because: str | None = None

    def __iter__(self) -> Iterator[int]:
        return iter(self.balance)

    def __len__(self) -> int:
        return len(self.balance)

    def __getitem__(self, partition: int) -> int:
        return self.balance[partition]


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanCandidate(SimulatedStep):
    """A pipeline that the planner tried."""

    device_type: str | None  #: None: the profiled device
    balance_is_optimal: bool
    pareto: bool  #: no other is at least as good in samples/s, lanes, memory and cost, and better in one
    cost: float  #: of a million samples, in Plan.cost_unit
    num_devices: int  #: lanes of all replicas
    cost_mean: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        options = SimulatedStep.options.__get__(self)
        return options if self.device_type is None else {**options, "device_types": self.device_type}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Pipelines, best first."""

    candidates: tuple[PlanCandidate, ...]
    best: PlanCandidate | None  #: None if none keeps the memory limit
    next_loses_because: str | None
    infeasible_because: str | None
    remedies: tuple[str, ...]  #: if there is no best: options that were tried and give one
    rank_by: str
    sizes_to_profile: tuple[int, ...]  #: samples; if the best is extrapolated
    cost_unit: str
    assumed: dict[str, str]
    notes: tuple[str, ...]  #: about prices

    def __repr__(self) -> str:
        return f"Plan({len(self.candidates)} candidates, best: {self.best!r})"

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each candidate, best first."""
        return _frame(self.candidates)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a model lies on a cluster. docs/cli/simulate.md describes the numbers."""

    pipeline: int  #: lanes of one pipeline
    data_parallel: int
    tensor_parallel: int
    context_parallel: int
    expert_parallel: int
    interleave: int
    devices: int  #: of the whole layout
    device: str  #: their type; of several types "A100:4,V100:4", with their lanes
    micro_batch_size: int
    recompute: str
    sequence_parallel: bool
    zero: int
    gradient_bytes: int
    gradient_bucket_bytes: int  #: 0: gradients are summed once a lane has ended
    sends: str
    token_dispatch: str
    cuts: str  #: even, quickest, or numbers of blocks such as 9,8,8,7
    product_dtype: str | None = None  #: of a gpt: model's products, if it differs from the others'
    bfloat16_blocks: int = 0  #: blocks at each end whose products do not run in product_dtype
    optimizer: str | None = None  #: of a gpt: model; None for a profile
    no_master_weights: bool = False
    offload: str | None = None  #: rate of a device's link to its host, which keeps the optimizer's state
    program: str | None = None  #: the training program; None: every kernel at its usual rate


#: Fields of Layout that options have under other names.
_LAYOUT_OPTIONS = {"pipeline": "partitions", "device": "device_types", "gradient_bucket_bytes": "gradient_bucket"}


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """The memory of one type's devices. ``headroom_bytes`` of it are no tensors'."""

    device: str
    memory_bytes: int
    headroom_bytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class LayoutStep(SimulatedStep):
    """The step of a layout on a cluster. ``step_ns`` and the rates are those of the whole step. Bubbles and lanes are
    those of the pipeline, which takes ``pipeline_ns`` of it."""

    layout: Layout
    pipeline_ns: int
    tied_embedding_ns: int
    parameter_gather_ns: int
    optimizer_ns: int
    tflops_per_device: float | None  #: of the model; None if the profile has no operations
    hardware_tflops_per_device: float | None  #: with what is recomputed
    device_memory: tuple[DeviceMemory, ...]  #: of each type, in the order of the lanes
    program_ns: int = 0  #: what the program adds once per step
    step_interval_ns: tuple[int, int] | None = None  #: nine of ten steps should lie between; None for a profile
    published_runs: dict[str, Any] | None = None  #: what the interval comes from; None for a profile
    mfu_causal: float | None = None  #: mfu without the pairs of tokens that causal attention skips
    model_parameters: int | None = None  #: of a language model; None for a profile
    active_parameters: int | None = None  #: those that compute one token
    trained_parameters: int | None = None  #: those that train
    offloaded_bytes: int | None = None  #: what an update moves between a device and its host, both ways

    @property
    def options(self) -> dict[str, Any]:
        """This layout, as keyword arguments of simulate_layout(): change one and simulate again."""
        options = dict(self._asked)
        options |= {_LAYOUT_OPTIONS.get(name, name): value for name, value in vars(self.layout).items() if name not in ("devices", "bfloat16_blocks")}
        options |= {"batch": self.batch, "dtype": options.pop("product_dtype", None) or self.dtype}
        options["program"] = self._asked.get("program")  # a file has a name of its own
        if options["program"] is None:
            del options["program"]
        options["schedule"] = asked_schedule(self._asked.get("schedule"), self.schedule)
        options["gradient_bucket"] = f"{self.layout.gradient_bucket_bytes}B"
        if self.layout.expert_parallel == 1:
            del options["token_dispatch"]
        if self.tokens_per_second is None:  # a profile
            del options["gradient_bytes"], options["recompute"], options["cuts"]
            for name in ("balance", "checkpoint", "optimizer", "master_weights"):
                options[name] = getattr(self, name)
        return options

    def __repr__(self) -> str:
        layout = self.layout
        split = "".join(
            f" x {name} {number}"
            for name, number in (
                ("data", layout.data_parallel),
                ("tensor", layout.tensor_parallel),
                ("context", layout.context_parallel),
            )
            if number > 1
        )
        return (
            f"{type(self).__name__}({layout.devices} devices of type {layout.device}: pipeline {layout.pipeline}{split}, "
            f"{self.micro_batches} micro-batches, {self.schedule}: step {duration_text(self.step_ns)}"
            f"{'' if self.feasible else ', infeasible'})"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class LayoutSimulation(LayoutStep):
    """The step of a layout, what it consists of, and the timeline of one replica's pipeline. A notebook draws it."""

    step_parts: dict[str, float]  #: shares of the step, which sum to 1
    bubble_causes: dict[str, float]  #: shares of pipeline_ns, which sum to bubble_fraction
    next_constraint: str  #: the limit without which the step would be shortest, and what helps
    measured: dict[str, Any] | None = None  #: the program fitted to `measured`, and each step's error
    warnings: tuple[str, ...]  #: sentences about options that do not help
    timeline: Timeline
    memory: MemorySamples

    def _repr_html_(self) -> str:
        return _drawn(self, self.timeline)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterCandidate(LayoutStep):
    """A layout that plan_cluster() lists. None: failures let the run never end."""

    nodes: int
    spare_nodes: int
    missing_nodes: int  #: further spares that would be needed
    run_hours: float | None  #: of the whole run, with failures and saves; of one step without `tokens`
    wait_hours: float | None  #: of these, those in which all spares are in repair
    cost: float | None  #: of the run, in ClusterPlan.cost_unit
    effective_share: float  #: of the run's time that is progress, 0 to 1
    checkpoint_interval_seconds: float  #: training between two saves; 0: nothing fails
    pareto: bool  #: no other has as short a run, as low a cost and as few devices
    reason: str  #: the parts of the step, the largest first
    like_best: bool | None = None  #: runs might rank it before the best; None for a profile
    in_time: bool = True  #: the run ends before `deadline`
    ramp: tuple[dict[str, Any], ...] | None = None  #: the run by batch: batch, steps, step_ns
    cost_interval: tuple[float, float] | None = None  #: nine of ten runs should cost this much; None for a profile
    peak_interval_bytes: tuple[int, int] | None = None  #: what nine of ten devices should show; None for a profile
    surely_fits: bool | None = None  #: all of that interval lies below the devices' memory; None for a profile


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """Layouts on a cluster that fit into memory, best first."""

    candidates: tuple[ClusterCandidate, ...]
    rank_by: str
    cost_unit: str
    considered: int  #: layouts whose shortest possible step was computed
    simulated: int
    cancelled: bool
    left_out: tuple[str, ...]  #: sentences about device types that no layout uses
    next_constraint: str | None  #: of the best
    infeasible_because: str | None
    save_seconds: float | None = None  #: for which a save stops the training
    deadline_hours: float | None = None
    fewest_in_time: int | None = None  #: index of the candidate with the fewest devices that ends before the deadline
    measured: dict[str, Any] | None = None  #: the program fitted to `measured`, and each step's error

    @property
    def best(self) -> ClusterCandidate | None:
        """None if no layout fits."""
        return self.candidates[0] if self.candidates else None

    def __repr__(self) -> str:
        return f"ClusterPlan({len(self.candidates)} candidates, best: {self.best!r})"

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each candidate, best first. The layout's numbers are columns of their own."""
        return _frame(self.candidates)


def _frame(steps: tuple[SimulatedStep, ...]) -> pandas.DataFrame:
    nested = ("partitions", "lanes", "layout", "device_memory", "_asked")
    rows = []
    for each in steps:
        row = {field.name: getattr(each, field.name) for field in dataclasses.fields(each) if field.name not in nested}
        if isinstance(each, LayoutStep):
            row.update(vars(each.layout))
        row.update(num_lanes=len(each.lanes), peak_bytes=each.peak_bytes)
        rows.append(row)
    return imported_pandas().DataFrame(rows)


@dataclass(frozen=True, kw_only=True)
class BubbleCause:
    """Time of all lanes for one reason, mean of the steps: ``share`` is of step time x lanes."""

    cause: str
    ns: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Bubble:
    """A time in which a lane computed nothing. Times since the start of the step."""

    lane: int
    start_ns: int
    ns: int
    share: float
    cause: str
    culprit: str | None  #: the task or copy that the lane waited for
    next: str | None


@dataclass(frozen=True, kw_only=True)
class RootCause:
    """How much longer all lanes idle for one reason, mean of the steps: ``share`` is of step time x lanes."""

    cause: str
    ns: int
    share: float


@dataclass(frozen=True, kw_only=True)
class RootCauses:
    """Why the run idles, as docs/cli/compare.md explains."""

    main: str
    lane: int | None  #: the slow lane, if main is slow_lane
    causes: tuple[RootCause, ...]


@dataclass(frozen=True, kw_only=True)
class BubbleReport:
    """Why lanes computed nothing, and the largest bubbles of the step of median length."""

    causes: tuple[BubbleCause, ...]
    step: int
    largest: tuple[Bubble, ...]
    roots: RootCauses | None = None  #: of measured steps; None: not known


@dataclass(frozen=True, kw_only=True)
class Bubbles:
    """Measured (None if the recording is incomplete) and simulated."""

    measured: BubbleReport | None
    simulated: BubbleReport


@dataclass(frozen=True, kw_only=True)
class ComparedLane:
    """A lane, measured and simulated. None: not recorded."""

    measured_busy_ns: int | None
    simulated_busy_ns: int
    measured_bubble_fraction: float | None
    simulated_bubble_fraction: float
    measured_peak_bytes: int | None
    simulated_peak_bytes: int | None
    replayed_peak_bytes: int | None
    measured_model_tflops_per_second: float | None = None
    device_busy_ns: int | None = None  #: of another program's run on GPUs
    unattributed_share: float | None = None  #: of device_busy_ns, which no task or other known work explains


@dataclass(frozen=True, kw_only=True)
class KernelSum:
    """Kernels, copies or fills of one name: those of all tasks, or those that tasks of a kind and partition launched."""

    name: str
    activity: str  #: kernel, memcpy, memset or graph
    count: int
    total_ns: int
    share: float  #: of the total of all device work
    mean_ns: float
    median_ns: int
    p95_ns: int
    kind: str | None = None
    partition: int | None = None
    bytes: int | None = None  #: moved, if known
    bandwidth: float | None = None  #: bytes / their time, in bytes/s
    launch: KernelLaunch | None = None  #: of kernels, if known


@dataclass(frozen=True, kw_only=True)
class KernelLaunch:
    """How kernels of one name are launched: the configuration that takes most of their time."""

    grid: tuple[int, ...]  #: blocks in x, y and z
    block: tuple[int, ...]  #: threads of a block in x, y and z
    registers: int | None  #: of a thread
    shared_memory: int  #: of a block, bytes
    configurations: int  #: number of different ones


@dataclass(frozen=True, kw_only=True)
class CollectiveSum:
    """NCCL's messages of one type, element type, size and number of ranks, over all ranks. docs/cli/compare.md explains
    skew and bandwidths."""

    type: str  #: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, send or receive
    element_type: str | None
    bytes: int | None
    ranks: int | None
    count: int
    total_ns: int
    shortest_ns: int
    transfer_ns: int | None
    skew_ns: int | None
    late_device: str | None  #: for which the others waited longest
    late_skew_ns: int | None  #: the part of skew_ns for which it came last
    bus_bandwidth: float | None  #: bytes/s
    best_bandwidth: float | None  #: bytes/s


@dataclass(frozen=True, kw_only=True)
class StreamSum:
    """The device work of a stream."""

    stream: str
    count: int
    total_ns: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What the devices of a run did, the largest sums first. Empty without device work."""

    by_name: tuple[KernelSum, ...] = ()
    by_task: tuple[KernelSum, ...] = ()
    by_stream: tuple[StreamSum, ...] = ()
    collectives: tuple[CollectiveSum, ...] = ()

    def to_pandas(self, by: str = "name") -> pandas.DataFrame:
        """A row for each sum, `by` "name", "task", "stream" or "collective", with its fields as columns. Those of `launch` are
        columns of their own."""
        if by not in ("name", "task", "stream", "collective"):
            raise UsageError(f'by is {by!r}; sums are by name, task, stream or collective; write by="task"')
        type_ = {"stream": StreamSum, "collective": CollectiveSum}.get(by, KernelSum)
        columns = [each.name for each in dataclasses.fields(type_)
                   if each.name != "launch" and (by == "task" or each.name not in ("kind", "partition"))]
        sums = self.collectives if by == "collective" else getattr(self, f"by_{by}")
        rows = [[getattr(each, column) for column in columns] for each in sums]
        if type_ is KernelSum:
            launch = [each.name for each in dataclasses.fields(KernelLaunch)]
            rows = [row + [getattr(each.launch, name, None) for name in launch] for row, each in zip(rows, sums, strict=True)]
            columns += launch
        return imported_pandas().DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        work = sum(each.count for each in self.by_stream)
        return f"Kernels({work} kernels and copies, {len(self.by_name)} names, {len(self.by_stream)} streams)"


@dataclass(frozen=True, kw_only=True)
class KernelFigures:
    """Kernels, copies or fills of one name in a run."""

    count: int
    total_ns: int
    share: float
    mean_ns: float
    median_ns: int
    p95_ns: int


@dataclass(frozen=True, kw_only=True)
class KernelDifference:
    """Kernels, copies or fills of one name in two runs. None: the run has none."""

    name: str
    activity: str
    before: KernelFigures | None
    after: KernelFigures | None


@dataclass(frozen=True, kw_only=True)
class ComparedTask:
    """A task, measured and simulated."""

    task: str
    measured_ns: int
    simulated_ns: int
    half: str | None = None  #: I or W if the backward is split


@dataclass(frozen=True, kw_only=True)
class VerdictPart:
    """A part of a verdict, and what it rests on: bubbles (of a cause), lanes, change or none."""

    text: str
    role: str  #: words, idle, cause, aside or change
    evidence: str
    cause: str | None
    lane: int | None


@dataclass(frozen=True, kw_only=True)
class VerdictChange:
    """A proposed change of the pipeline, and the range of its effect by the error of the simulation on the run."""

    kind: str
    title: str
    step_change: float
    least_change: float | None
    most_change: float | None
    within_model_error: bool | None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why a run idles and what would help, as docs/cli/compare.md explains."""

    text: str
    idle: float | None  #: 0 to 1; None: not known
    parts: tuple[VerdictPart, ...]
    change: VerdictChange | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A recorded run against its simulation, as pipescope compare prints it. None: not known, or not recorded."""

    steps: tuple[int, ...]
    measured_step_ns: int | None
    simulated_step_ns: int
    measured_step_mean_ns: int | None
    simulated_step_mean_ns: int | None
    step_error: float | None  #: simulated / measured - 1
    lower_bound_ns: int | None  #: no order of the same tasks has a shorter simulated step
    measured_bubble_fraction: float | None
    simulated_bubble_fraction: float
    measured_bubble_mean: float | None
    simulated_bubble_mean: float | None
    measured_wall_step_ns: int | None
    replay_step_ns: int | None
    replay_error: float | None
    replay_with_gaps_error: float | None
    tasks_matched: int
    tasks_unmatched: int
    lanes: tuple[ComparedLane, ...]
    worst: tuple[ComparedTask, ...]
    bubbles: Bubbles
    verdict: Verdict
    load: dict[str, Any]
    profile_from_trace: bool
    processes: int
    clock_bound_ns: int | None
    drops: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    refused: tuple[str, ...]  #: fields that are None because the recording is incomplete
    measured_samples_per_second: float | None = None
    simulated_samples_per_second: float | None = None
    measured_tokens_per_second: float | None = None
    simulated_tokens_per_second: float | None = None
    model_flops: float | None = None
    measured_model_tflops_per_second: float | None = None
    simulated_model_tflops_per_second: float | None = None
    measured_mfu: float | None = None
    simulated_mfu: float | None = None
    unattributed_share: float | None = None  #: of the devices' work, which no task or other known work explains
    kernels: Kernels | None = None  #: None without device work

    def __repr__(self) -> str:
        # Those of step_error: the means if both are known.
        steps = self.measured_step_mean_ns, self.simulated_step_mean_ns
        if None in steps:
            steps = self.measured_step_ns, self.simulated_step_ns
        measured, simulated = ("unknown" if each is None else duration_text(each) for each in steps)
        error = "" if self.step_error is None else f", error {self.step_error:+.2%}"
        return f"Comparison({len(self.steps)} steps: measured {measured}, simulated {simulated}{error})"


@dataclass(frozen=True, kw_only=True)
class RunLane:
    """A lane of one run."""

    busy_ns: int | None
    bubble_fraction: float | None
    peak_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One of two runs. None: not known, or not recorded."""

    name: str
    model: str | None
    steps: tuple[int, ...]
    step_ns: int | None
    step_mean_ns: int | None
    pipeline_ns: int | None  #: of a layout on a cluster: the traced part of the step
    step_deviation_ns: int | None
    wall_step_ns: int | None
    bubble_fraction: float | None
    bubble_mean: float | None
    samples_per_second: float | None
    lanes: tuple[RunLane, ...]
    bubbles: BubbleReport | None
    load: dict[str, Any] | None
    processes: int
    clock_bound_ns: int | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StepDifference:
    """After minus before, of the mean steps."""

    difference_ns: int
    change: float
    standard_error_ns: int | None
    limit_ns: int | None  #: a larger difference exceeds the noise
    exceeds_noise: bool | None


@dataclass(frozen=True, kw_only=True)
class BubbleDifference:
    """After minus before, of the mean bubble fractions."""

    difference: float
    standard_error: float | None
    limit: float | None
    exceeds_noise: bool | None


@dataclass(frozen=True, kw_only=True)
class TaskDifference:
    """A task in both runs, medians over the steps."""

    task: str
    before_ns: int
    after_ns: int
    half: str | None = None  #: I or W if the backward is split


@dataclass(frozen=True, kw_only=True)
class TaskGroup:
    """Tasks of a kind and partition: sums of a step."""

    kind: str
    partition: int | None
    layers: tuple[int, ...] | None
    tasks_before: int
    tasks_after: int
    before_ns: int
    after_ns: int
    half: str | None = None  #: I or W if all of them are such halves of split backwards


@dataclass(frozen=True, kw_only=True)
class RangeDifference:
    """Ranges of one name on one track."""

    track: str
    name: str
    matched: int
    only_before: int
    only_after: int
    before_ns: int
    after_ns: int
    only_before_ns: int
    only_after_ns: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What differs between two runs."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class RunsComparison:
    """Two runs, task by task, as pipescope compare prints them."""

    before: Run
    after: Run
    step: StepDifference | None
    bubble: BubbleDifference | None
    joined_by: str | None  #: "task", "name" or None
    why_no_tasks: str | None
    why_no_kinds: str | None
    matched: int
    only_before: int
    only_after: int
    worst: tuple[TaskDifference, ...]
    groups: tuple[TaskGroup, ...]
    kinds: tuple[TaskGroup, ...]
    ranges: tuple[RangeDifference, ...]
    losses: dict[str, Any] | None
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    kernels: tuple[KernelDifference, ...] = ()

    def __repr__(self) -> str:
        change = "no step in common" if self.step is None else f"step {self.step.change:+.2%}"
        return f"RunsComparison({self.before.name} and {self.after.name}: {change}, {self.matched} tasks matched)"
