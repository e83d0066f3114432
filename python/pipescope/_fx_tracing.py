"""Lets a lane call layers of torch.compile() while another one compiles.

A compiled function refuses to be traced by torch.fx. In torch 2.11 it knows that from a flag of the whole process, which is set
while any thread traces, as each compilation does for a while. Here it is told whether its own thread traces. Torch 2.15 has a flag
of each thread.
"""

from __future__ import annotations

import inspect

import torch
from torch.fx import _symbolic_trace
from torch.fx._symbolic_trace import Tracer

_is_fx_tracing_flag: bool  # of torch.fx._symbolic_trace


def _is_fx_symbolic_tracing() -> bool:
    """Runs with the global names of torch.fx._symbolic_trace, since compiled functions hold torch's function itself."""
    if not _is_fx_tracing_flag or torch.compiler.is_compiling():
        return False
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not Tracer.trace.__code__:
        frame = frame.f_back
    return frame is not None


def ask_own_thread() -> None:
    """Takes effect for the whole process."""
    if not hasattr(_symbolic_trace, "_is_fx_tracing_flag"):
        return
    _symbolic_trace.is_fx_symbolic_tracing.__code__ = _is_fx_symbolic_tracing.__code__
