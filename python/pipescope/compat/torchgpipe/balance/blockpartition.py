"""Blocks of a sequence of costs, as equal as possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

__all__ = ["solve"]


def solve(sequence: Sequence[int], partitions: int = 1) -> list[list[int]]:
    """Cuts the sequence into that many blocks, none empty, whose largest sum is as small as possible."""
    if partitions < 1:
        raise ValueError(f"partitions must be a positive integer ({partitions} < 1)")
    count = len(sequence)
    if count < partitions:
        raise ValueError(f"sequence is shorter than intended partitions ({count} < {partitions})")
    sums = [0]
    for cost in sequence:
        sums.append(sums[-1] + cost)

    @lru_cache(maxsize=None)
    def best(end: int, blocks: int) -> tuple[int, int, int]:
        """(largest sum, sum of squares, beginning of the last block) of the first `end` costs."""
        if blocks == 1:
            return (sums[end], sums[end] ** 2, 0)
        choices = []
        for begin in range(blocks - 1, end):
            largest, squares, _ = best(begin, blocks - 1)
            own = sums[end] - sums[begin]
            choices.append((max(largest, own), squares + own**2, begin))
        return min(choices)

    found: list[list[int]] = []
    end = count
    for blocks in range(partitions, 0, -1):
        begin = best(end, blocks)[2]
        found.insert(0, list(sequence[begin:end]))
        end = begin
    return found
