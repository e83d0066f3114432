"""Trains a small model through torch.distributed.pipelining on gloo, one process per rank, and profiles a few steps.

    python torch_pipeline.py FOLDER --ranks 2 --schedule 1F1B --width 512

Writes FOLDER/rank0.json .. Each rank computes in one thread. A step's loss is part of the last stage's forward. With
--device cuda:0 all stages compute on that GPU; gloo sends tensors of the host, so a stage takes and returns those.
FOLDER/calls-rank0.txt .. say what the stages were really told to do in the profiled steps, a line each: step, kind,
stage, micro-batch.
"""

import argparse
import importlib.util
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.profiler import ProfilerActivity, profile


class Wait(torch.autograd.Function):
    """Takes a time instead of a core: ranks may then outnumber cores."""

    @staticmethod
    def forward(context, tensor, ms):
        context.ms = ms
        time.sleep(ms / 1e3)
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(2 * context.ms / 1e3)
        return gradient.clone(), None


class OnDevice(nn.Module):
    """Computes on a device; its input and output are on the host."""

    def __init__(self, layers, device):
        super().__init__()
        self.layers = layers.to(device)
        self.device = device

    def forward(self, tensor):
        return self.layers(tensor.to(self.device)).cpu()


class Waiting(nn.Module):
    def __init__(self, ms):
        super().__init__()
        self.ms = ms

    def forward(self, tensor):
        return Wait.apply(tensor, self.ms)


def note_calls(stage, calls):
    """Notes each call of the stage's methods, whatever the profiler says."""

    def wrap(method, kind_of):
        original = getattr(stage, method)

        def noted(chunk, *args, **kwargs):
            calls.append((kind_of(kwargs), stage.stage_index, chunk))
            return original(chunk, *args, **kwargs)

        setattr(stage, method, noted)

    wrap("forward_one_chunk", lambda kwargs: "forward")
    wrap("backward_one_chunk", lambda kwargs: "backward")
    wrap("backward_weight_one_chunk", lambda kwargs: "backward_weight")


def train(rank, options, store):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if options.pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks, init_method=f"file://{store}")
    if options.annotate:
        spec = importlib.util.spec_from_file_location("annotate_pipeline", options.annotate)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.annotate()
    schedule_class = get_schedule_class(options.schedule)
    stages_per_rank = options.stages_per_rank
    num_stages = options.ranks * stages_per_rank
    device = torch.device("cpu")
    stages = []
    in_a_v = options.schedule in ("ZBVZeroBubble", "DualPipeV")
    for k in range(stages_per_rank):
        index = num_stages - 1 - rank if in_a_v and k == 1 else rank + k * options.ranks
        depth = options.depth + (options.uneven if index == num_stages - 1 else 0)
        layers = []
        if options.wait_ms:
            depth = 1
            layers.append(nn.Linear(options.width, options.width))  # whose gradient makes the backward of the wait run
            layers.append(Waiting(options.wait_ms * (1 + (options.uneven if index == num_stages - 1 else 0) / 10)))
        for _ in range(depth):
            layers += [nn.Linear(options.width, options.width), nn.ReLU()]
        submodule = nn.Sequential(*layers)
        if options.device != "cpu":
            submodule = OnDevice(submodule, options.device)
        stage = PipelineStage(submodule, index, num_stages, device)
        if in_a_v:  # torch opens the connections by sends, also to the rank itself, which gloo refuses and does not need
            stage._get_init_p2p_neighbors_ops = list
        stages.append(stage)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    loss = nn.MSELoss()
    schedule = schedule_class(stages if stages_per_rank > 1 else stages[0], options.micro_batches, loss_fn=loss)
    batch = options.micro_batches * options.samples
    x = torch.randn(batch, options.width)
    y = torch.randn(batch, options.width)
    has_first = rank == 0
    has_last = any(stage.is_last for stage in stages)

    def step():
        optimizer.zero_grad()
        arguments = (x,) if has_first else ()
        schedule.step(*arguments, **({"target": y} if has_last else {}))
        optimizer.step()

    for _ in range(options.warm_up):
        step()
    calls = []
    for stage in stages:
        note_calls(stage, calls)
    path = os.path.join(options.folder, f"rank{rank}.json")
    lines = []
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if options.device.startswith("cuda") else [])
    with profile(activities=activities, record_shapes=True, acc_events=True,
                 schedule=torch.profiler.schedule(wait=0, warmup=2, active=options.steps, repeat=1),
                 on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
        for number in range(options.steps + 2):
            calls.clear()
            step()
            profiler.step()
            lines += [f"{number} {kind} {stage} {chunk}\n" for kind, stage, chunk in calls if number >= 2]
    pathlib.Path(options.folder, f"calls-rank{rank}.txt").write_text("".join(lines))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--schedule", default="GPipe")
    parser.add_argument("--stages-per-rank", type=int, default=1)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--samples", type=int, default=32, help="of a micro-batch")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4, help="linear layers of a stage")
    parser.add_argument("--uneven", type=int, default=0, help="further linear layers of the last stage")
    parser.add_argument("--wait-ms", type=float, default=0, help="a stage's forward waits, its backward twice as long")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="where all stages compute, such as cuda:0")
    parser.add_argument("--pin", action="store_true", help="each rank to a core")
    parser.add_argument("--annotate", help="path of annotate_pipeline.py, to name the tasks of schedules without ranges")
    options = parser.parse_args()
    pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    store = os.path.join(options.folder, f"store-{os.getpid()}")
    processes.spawn(train, (options, store), nprocs=options.ranks)
    os.path.exists(store) and os.unlink(store)


if __name__ == "__main__":
    main()
