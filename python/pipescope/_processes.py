"""Processes that train one model together."""

from __future__ import annotations

import os
from typing import Any, Optional

from pipescope._torch import engine
from pipescope.errors import UsageError

__all__ = ["Processes", "join_processes"]

Processes = engine.Processes


def join_processes(
    rank: Optional[int] = None,
    size: Optional[int] = None,
    rendezvous: Optional[str] = None,
    *,
    patience_s: float = 60.0,
) -> Any:
    """Meets the other processes, for ``GPipe(processes=...)``. Returns once all are there.

    By default it reads torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_*), or those of
    ``pipescope launch``. Torchrun's store is used as it is. So is the one that init_process_group() has opened; its
    process group may also be used, for all that is not the pipeline's.

    Lane k of L belongs to rank k * size / L. The first failure of any process ends the group: the others' calls raise
    ProcessError with the same cause.

    Raises UsageError for missing variables, ProcessError where the others do not come within `patience_s`.
    """
    launch = "PIPESCOPE_RANK" in os.environ
    rank = _number(rank, "PIPESCOPE_RANK" if launch else "RANK")
    size = _number(size, "PIPESCOPE_SIZE" if launch else "WORLD_SIZE")
    if rendezvous is None:
        rendezvous = os.environ.get("PIPESCOPE_RENDEZVOUS")
    if rendezvous is None:
        rendezvous = f"{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ.get('MASTER_PORT', '29500')}"
    return engine.join_processes(
        rank=rank,
        size=size,
        rendezvous=rendezvous,
        store_is_hosted=os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or _has_process_group(),
        run=os.environ.get("TORCHELASTIC_RUN_ID", "0"),
        attempt=int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or os.environ.get("PIPESCOPE_ATTEMPT") or 0),
        patience_s=patience_s,
    )


def _number(value: Optional[int], variable: str) -> int:
    if value is not None:
        return value
    text = os.environ.get(variable)
    if text is None:
        raise UsageError(f"{variable} is not set; it says which of the processes this is; start them with torchrun, or give "
                         "rank, size and rendezvous")
    return int(text)


def _has_process_group() -> bool:
    import torch.distributed

    return torch.distributed.is_available() and torch.distributed.is_initialized()
