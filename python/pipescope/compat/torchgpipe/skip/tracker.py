"""Where the skips of modules that run outside a pipeline wait, for programs that watch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipescope.skip import _shelf

__all__ = ["SkipTracker", "current_skip_tracker", "use_skip_tracker"]


class SkipTracker:
    """``tensors`` holds what was stashed and not popped."""

    def __init__(self) -> None:
        self.tensors: dict[Any, Any] = {}


def current_skip_tracker() -> SkipTracker:
    """That of this thread."""
    tracker = SkipTracker()
    tracker.tensors = _shelf.tensors
    return tracker


@contextmanager
def use_skip_tracker(skip_tracker: SkipTracker) -> Iterator[None]:
    """Has this thread's skips wait in that tracker."""
    before, _shelf.tensors = _shelf.tensors, skip_tracker.tensors
    try:
        yield
    finally:
        _shelf.tensors = before
