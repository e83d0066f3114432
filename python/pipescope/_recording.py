"""Recording the training of a GPipe into a trace."""

from __future__ import annotations

import json
import os
import platform
from typing import Any, Optional

import torch

from pipescope._core import __version__
from pipescope._profile import Profile
from pipescope._torch import engine
from pipescope._values import encoded, python_messages
from pipescope.errors import UsageError

__all__ = ["Recording", "refuse_beside_a_recording"]

_running: list[Recording] = []  # at most one


def refuse_beside_a_recording(own: Optional[Recording], what: str) -> None:
    """A trace holds the tasks of all models of the process, so no other may run."""
    if _running and _running[0] is not own and _running[0].process == os.getpid():  # a forked child records nothing
        raise UsageError(f"{what} while record() records another model, whose trace would hold both; leave that block first")


def _environment() -> dict[str, Any]:
    return {
        "pipescope": __version__,
        "libtorch": str(torch.__version__),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "kernel": f"{platform.system()} {platform.release()}",
    }


class Recording:
    """A trace that holds the steps of one model from start() until stop(). A step's wall time lasts until the next one
    begins."""

    def __init__(self, path: Any, profile: Optional[Profile], optimizer: str, warmup: int, force: bool) -> None:
        self._path = encoded(path)
        self._force = force
        self._trace: Any = None
        self.process = os.getpid()
        self._profile = profile
        self._optimizer = optimizer
        self._warmup = warmup
        self._is_described = False
        self._steps = 0
        # Model, number, start, loss and samples of the last one.
        self._step: Optional[tuple[Any, int, int, float, int]] = None
        self._samples = 0  # of the call that began last

    def start(self) -> None:
        """Raises TraceError if the file exists, unless it is to be replaced, or cannot be written."""
        with python_messages():
            self._trace = engine.Recording(self._path, self._force)
        _running.append(self)

    @property
    def is_started(self) -> bool:
        return self._trace is not None

    def begin(self, model: Any, options: dict[str, Any], samples: int) -> int:
        """Returns the start of a call that may be a step."""
        if not self.is_started:
            self.start()
        model.time_steps(True)
        if not self._is_described:
            self._describe(model, options, samples)
            self._is_described = True
        now: int = self._trace.now()
        self._end_step(now)
        self._samples = samples
        return now

    def end(self, model: Any, step: int, start: int, loss: float) -> None:
        """The call was a step."""
        self._step = (model, step, start, loss, self._samples)

    def stop(self) -> None:
        if not self.is_started:
            self.start()  # a trace without steps
        try:
            self._end_step(self._trace.now())
        finally:
            _running.remove(self)
            self._trace.stop()

    def _end_step(self, end: int) -> None:
        if self._step is not None:
            model, step, start, loss, samples = self._step
            self._step = None
            self._trace.add_step(model, step, start, end, loss, self._steps < self._warmup, samples)
            self._steps += 1

    def _describe(self, model: Any, options: dict[str, Any], samples: int) -> None:
        lanes = [lane for _first, _end, lane, _device, _is_here in model.partitions]
        schedule = options["schedule"]
        configuration = {
            "balance": model.balance,
            "chunks": options["chunks"],
            "batch": samples,
            "checkpoint": options["checkpoint"],
            "schedule": schedule if isinstance(schedule, str) else schedule[0],
            "placement": [] if lanes == list(range(len(lanes))) else lanes,
            "devices": model.devices,
            "optimizer": self._optimizer,
            "host_cores": options["host_cores"] or len(os.sched_getaffinity(0)),
        }
        if not isinstance(schedule, str):
            configuration["schedule_csv"] = schedule[1]
        name = self._profile.model if self._profile is not None and self._profile.model else "Python"
        run = {"model": name, "configuration": configuration, "environment": _environment()}
        profile = "" if self._profile is None else self._profile.to_json()
        self._trace.describe(model, samples, {key: json.dumps(value) for key, value in run.items()}, profile)
