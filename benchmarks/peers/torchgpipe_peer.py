"""torchgpipe's side of benchmarks/peers/compare; prints one JSON object.

    torchgpipe_peer.py overhead never|always
    torchgpipe_peer.py throughput
"""

import json
import sys

import torch
from torchgpipe import GPipe

import cases


def overhead(mode):
    plain = cases.overhead_layers()
    pipeline = GPipe(cases.overhead_layers(), balance=[1] * cases.OVERHEAD_PARTITIONS,
                     devices=["cpu"] * cases.OVERHEAD_PARTITIONS, chunks=cases.OVERHEAD_MICRO_BATCHES, checkpoint=mode)
    batch = torch.randn(cases.OVERHEAD_MICRO_BATCHES, 8)
    took = cases.interleaved_medians(
        10,
        plain=lambda: cases.train_by_micro_batches(plain, batch, cases.OVERHEAD_MICRO_BATCHES),
        pipeline=lambda: cases.train(pipeline, batch))
    tasks = cases.OVERHEAD_PARTITIONS * cases.OVERHEAD_MICRO_BATCHES
    return {"plain_ns": took["plain"] * 1e9 / tasks, "pipeline_ns": took["pipeline"] * 1e9 / tasks,
            "overhead_ns": (took["pipeline"] - took["plain"]) * 1e9 / tasks}


def throughput():
    plain = cases.compute_bound_layers()
    pipeline = GPipe(cases.compute_bound_layers(), balance=[cases.LAYERS // 2] * 2, devices=["cpu", "cpu"],
                     chunks=cases.MICRO_BATCHES, checkpoint="never")
    batch = torch.randn(cases.SAMPLES, cases.WIDTH)
    took = cases.interleaved_medians(5, plain=lambda: cases.train(plain, batch),
                                     pipeline=lambda: cases.train(pipeline, batch))
    return {"plain_samples_per_second": cases.SAMPLES / took["plain"],
            "pipeline_samples_per_second": cases.SAMPLES / took["pipeline"],
            "pipeline_over_plain": took["plain"] / took["pipeline"]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(overhead(sys.argv[2]) if sys.argv[1] == "overhead" else throughput()))
