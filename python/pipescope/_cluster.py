"""Layouts of a model on a cluster: how long a step takes, and what to rent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Union

from pipescope import _core
from pipescope._profile import Profile, ask, asked_of, kept
from pipescope._results import ClusterCandidate, ClusterPlan, LayoutSimulation, LayoutStep, built
from pipescope._schedule import AnySchedule, check_one
from pipescope._timeline import MemorySamples, Timeline
from pipescope._values import Names, Numbers, Path, Quantity, encoded

#: A model such as "gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200" or "hf:config.json", a profile, or
#: the path of its file.
Model = Union[str, "os.PathLike[str]", Profile]


def simulate_layout(
    model: Model,
    cluster: Path,
    *,
    batch: int,
    partitions: int | None = None,
    data_parallel: int | None = None,
    tensor_parallel: int | None = None,
    context_parallel: int | None = None,
    expert_parallel: int | None = None,
    interleave: int | None = None,
    micro_batch_size: int | None = None,
    schedule: AnySchedule | None = None,
    recompute: str | None = None,
    sequence_parallel: bool = False,
    zero: int | None = None,
    gradient_bytes: int | None = None,
    gradient_bucket: Quantity | None = None,
    sends: str | None = None,
    token_dispatch: str | None = None,
    program: Path | None = None,
    cuts: str | None = None,
    no_master_weights: bool = False,
    offload: Quantity | None = None,
    measured: Path | None = None,
    device_types: Names | None = None,
    device_catalogue: Path | None = None,
    headroom: Quantity | None = None,
    memory_limit: Quantity | None = None,
    dtype: str | None = None,
    balance: Numbers | None = None,
    checkpoint: str | None = None,
    optimizer: str | float | None = None,
    master_weights: bool = False,
    trace: Path | None = None,
    force: bool = False,
) -> LayoutSimulation:
    """Predicts a step of a model on a cluster: ``pipescope simulate --cluster``. docs/cli/simulate.md describes the
    options; None is the command's default. `cluster` is the path of a cluster file (docs/cluster-format.md), or the name of
    a built-in cluster such as ``dgx-h100``.
    `partitions`: lanes of a pipeline. `balance`, `checkpoint` and `master_weights` are for profiles, `cuts`,
    `no_master_weights` and `offload` for models. `trace`
    names a file to write; `force` replaces it. `measured` names a CSV of measured steps that the program is fitted to.

    An answer that is not feasible needs more memory than the devices have."""
    arguments = kept(locals())
    check_one(arguments["schedule"])
    text, tasks, memory = _ask(_core.simulate_layout, arguments)
    fields = json.loads(text)
    step = built(LayoutStep, {**fields, "_asked": asked_of(arguments, simulate_layout)})
    explained = {name: fields[name] for name in ("step_parts", "bubble_causes", "next_constraint")}
    explained["warnings"] = tuple(fields["warnings"])
    explained["measured"] = fields.get("measured")
    return LayoutSimulation(**vars(step), **explained, timeline=Timeline(tasks), memory=MemorySamples(memory))


def plan_cluster(
    model: Model,
    cluster: Path,
    *,
    batch: int,
    devices: Numbers | None = None,
    device_types: Names | None = None,
    tokens: float | None = None,
    steps: float | None = None,
    deadline: Quantity | None = None,
    ramp: str | None = None,
    schedule: AnySchedule | list[AnySchedule] | None = None,
    gradient_bytes: int | None = None,
    gradient_bucket: Quantity | None = None,
    sends: str | None = None,
    token_dispatch: str | None = None,
    program: Path | None = None,
    cuts: str | None = None,
    no_master_weights: bool = False,
    offload: Quantity | None = None,
    measured: Path | None = None,
    rank_by: str | None = None,
    checkpoint_time: Quantity | None = None,
    storage_bandwidth: Quantity | None = None,
    restart_time: Quantity | None = None,
    repair_time: Quantity | None = None,
    device_catalogue: Path | None = None,
    headroom: Quantity | None = None,
    memory_limit: Quantity | None = None,
    dtype: str | None = None,
    optimizer: str | float | None = None,
    progress: Callable[[float], object] | None = None,
) -> ClusterPlan:
    """Ranks layouts of a model on a cluster, and says what to rent: ``pipescope plan --cluster``. docs/cli/plan.md
    describes the options; None is the command's default. `cluster` is as for simulate_layout(). `devices` is a range,
    such as "64..1024". `measured` is as for simulate_layout(). `progress` is called with the share that is done, 0 to 1, in the calling thread. Ctrl-C, and an
    exception of `progress`, end the search."""
    arguments = kept(locals())
    del arguments["progress"]
    fields = json.loads(_ask(_core.plan_cluster, arguments, progress))
    asked = asked_of(arguments, simulate_layout)
    candidates = tuple(built(ClusterCandidate, {**each, "_asked": asked}) for each in fields.pop("candidates"))
    plan = built(ClusterPlan, {**fields, "candidates": ()})
    object.__setattr__(plan, "candidates", candidates)
    return plan  # type: ignore[no-any-return]


def _ask(function: Callable[..., Any], arguments: Mapping[str, Any], *more: Any) -> Any:
    model = arguments["model"]
    if isinstance(model, Profile):
        return ask(function, model._handle, model._file, arguments, *more)
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model is a {type(model).__name__}; it is a text such as gpt:layers=24,.. or hf:config.json, a Profile, or a path")
    return ask(function, None, encoded(model), arguments, *more)
