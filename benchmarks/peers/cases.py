"""The two cases of pipescope_peer.cpp, as numbers and torch models: keep both files in step."""

import statistics
import time

import torch
from torch import nn

OVERHEAD_PARTITIONS, OVERHEAD_MICRO_BATCHES = 8, 32
WIDTH, LAYERS, MICRO_BATCHES, SAMPLES = 512, 8, 8, 2048


def overhead_layers():
    return nn.Sequential(*(nn.Linear(8, 8) for _ in range(OVERHEAD_PARTITIONS)))


def compute_bound_layers():
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)))


def train(model, batch):
    model(batch).mean().backward()


def train_by_micro_batches(model, batch, chunks):
    torch.cat([model(part) for part in batch.chunk(chunks)]).mean().backward()


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved_medians(rounds, **works):
    """Runs the works in turn, once for warming up and then `rounds` times; returns each one's median seconds."""
    times = {name: [] for name in works}
    for turn in range(-1, rounds):
        for name, work in works.items():
            took = seconds(work)
            if turn >= 0:
                times[name].append(took)
    return {name: statistics.median(values) for name, values in times.items()}
