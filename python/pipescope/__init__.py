"""PipeScope: profile, simulate, plan and run pipeline-parallel training.

The half that needs no torch: Profile, Schedule, Trace, Timeline, layouts on clusters. The half that does is loaded when
one of its names is first used: GPipe, profile, annotate and others. Options have the names and texts of the commands'
options, with _ for -: ``link_bandwidth="12GB/s"`` is ``--link-bandwidth 12GB/s``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pipescope._cluster import plan_cluster, simulate_layout
from pipescope._core import __version__
from pipescope._installed import engine_package
from pipescope._keywords import Hardware, Pipeline
from pipescope._profile import Layer, Profile
from pipescope._results import (
    ClusterCandidate,
    ClusterPlan,
    Comparison,
    FoundBalance,
    Layout,
    LayoutSimulation,
    Plan,
    PlanCandidate,
    RunsComparison,
    ScheduleComparison,
    Simulation,
)
from pipescope._schedule import Schedule
from pipescope._timeline import Lane, MemorySamples, Task, Timeline
from pipescope._trace import MeasuredRun, Step, Trace
from pipescope.errors import BalanceError, Error, ProfileError, TraceError, TraceFormatError, UsageError

if TYPE_CHECKING:
    # With `as`, since mypy cannot read __all__ below.
    from pipescope import compat as compat
    from pipescope import skip as skip
    from pipescope._annotate import annotate as annotate
    from pipescope._any_model import ModelLayers as ModelLayers
    from pipescope._any_model import layers_of as layers_of
    from pipescope._check import Check as Check
    from pipescope._check import check as check
    from pipescope._gpipe import GPipe as GPipe
    from pipescope._gpipe import current_micro_batch as current_micro_batch
    from pipescope._layers import cut as cut
    from pipescope._gpipe import is_checkpointing as is_checkpointing
    from pipescope._gpipe import is_recomputing as is_recomputing
    from pipescope._gradients import GradScaler as GradScaler
    from pipescope._gradients import clip_grad_norm_ as clip_grad_norm_
    from pipescope._processes import Processes as Processes
    from pipescope._processes import join_processes as join_processes
    from pipescope._profiler import profile as profile

# Name: the module that has it, which needs torch.
_ENGINE_NAMES = {
    "GPipe": "_gpipe",
    "ModelLayers": "_any_model",
    "layers_of": "_any_model",
    "Check": "_check",
    "check": "_check",
    "cut": "_layers",
    "current_micro_batch": "_gpipe",
    "is_checkpointing": "_gpipe",
    "is_recomputing": "_gpipe",
    "GradScaler": "_gradients",
    "clip_grad_norm_": "_gradients",
    "profile": "_profiler",
    "annotate": "_annotate",
    "Processes": "_processes",
    "join_processes": "_processes",
}
_ENGINE_MODULES = ("compat", "skip")

__all__ = [
    "BalanceError",
    "ClusterCandidate",
    "ClusterPlan",
    "Comparison",
    "Error",
    "FoundBalance",
    "Hardware",
    "Lane",
    "Layer",
    "Layout",
    "LayoutSimulation",
    "MeasuredRun",
    "MemorySamples",
    "Pipeline",
    "Plan",
    "PlanCandidate",
    "Profile",
    "ProfileError",
    "RunsComparison",
    "Schedule",
    "ScheduleComparison",
    "Simulation",
    "Step",
    "Task",
    "Timeline",
    "Trace",
    "TraceError",
    "TraceFormatError",
    "UsageError",
    "__version__",
    "plan_cluster",
    "simulate_layout",
]
# Without an engine, help() and `import *` have what there is; using another name says what is missing.
if engine_package() is not None:
    __all__ += [*_ENGINE_NAMES, *_ENGINE_MODULES]

def __getattr__(name: str) -> Any:
    if name in _ENGINE_MODULES:
        importlib.import_module("pipescope._torch")
        return importlib.import_module(f"pipescope.{name}")
    if name not in _ENGINE_NAMES:
        raise AttributeError(f"module 'pipescope' has no attribute {name!r}")
    importlib.import_module("pipescope._torch")  # says what is wrong with torch before another module imports it
    value = getattr(importlib.import_module(f"pipescope.{_ENGINE_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
