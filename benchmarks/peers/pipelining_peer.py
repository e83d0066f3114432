"""torch.distributed.pipelining's side of benchmarks/peers/compare: two processes over Gloo, one thread each, schedule
GPipe. Prints one JSON object.

    pipelining_peer.py throughput
"""

import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import cases

ROUNDS = 5


def run_rank(rank, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29581")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = cases.compute_bound_layers()
    half = cases.LAYERS // 2
    stage = PipelineStage(model[:half] if rank == 0 else model[half:], rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, cases.MICRO_BATCHES, loss_fn=lambda output, _: output.mean())
    batch = torch.randn(cases.SAMPLES, cases.WIDTH)
    plain = cases.compute_bound_layers()

    def step():
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=batch, losses=[])
        dist.barrier()

    times = {"plain": [], "pipeline": []}
    for turn in range(-1, ROUNDS):
        dist.barrier()
        alone = cases.seconds(lambda: cases.train(plain, batch)) if rank == 0 else 0.0
        dist.barrier()
        together = cases.seconds(step)
        if turn >= 0:
            times["plain"].append(alone)
            times["pipeline"].append(together)
    if rank == 0:
        results.put({name: statistics.median(values) for name, values in times.items()})
    dist.destroy_process_group()


if __name__ == "__main__":
    context = processes.get_context("spawn")
    results = context.SimpleQueue()
    processes.start_processes(run_rank, args=(results,), nprocs=2, start_method="spawn")
    took = results.get()
    print(json.dumps({"plain_samples_per_second": cases.SAMPLES / took["plain"],
                      "pipeline_samples_per_second": cases.SAMPLES / took["pipeline"],
                      "pipeline_over_plain": took["plain"] / took["pipeline"]}))
