"""A slow pipeline of PyTorch in two processes, for docs/guides/slow-pytorch.md. Needs no GPU.

    python -m torch.distributed.run --nproc-per-node 2 slow_pipeline.py FOLDER [CUT [MICRO_BATCHES]]

Trains eight blocks, the first CUT of them (default: 6) on rank 0, with MICRO_BATCHES (default: 2) per step, and writes a
trace of each rank into FOLDER. Each block also waits 2 ms per sample forward and 4 ms backward, so that it takes the time of a
larger one, and two processes need no two idle cores.
"""

import pathlib
import sys
import time

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.profiler import profile, schedule

SAMPLES, WIDTH = 16, 256


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.002 * len(x))
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.004 * len(gradient))
        return gradient


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return torch.relu(self.linear(Wait.apply(x)))


folder = pathlib.Path(sys.argv[1])
cut = int(sys.argv[2]) if len(sys.argv) > 2 else 6
micro_batches = int(sys.argv[3]) if len(sys.argv) > 3 else 2
folder.mkdir(exist_ok=True)

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
blocks = [Block() for _ in range(cut if rank == 0 else 8 - cut)]
if rank == 0:
    blocks.insert(0, torch.nn.Linear(WIDTH, WIDTH))  # so that the first wait has a gradient to wait for
part = torch.nn.Sequential(*blocks)
stage = PipelineStage(part, rank, 2, torch.device("cpu"))
step = ScheduleGPipe(stage, n_microbatches=micro_batches, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(part.parameters(), lr=0.01)
x, target = torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH)

with profile(record_shapes=True, schedule=schedule(wait=1, warmup=1, active=5),
             on_trace_ready=lambda p: p.export_chrome_trace(str(folder / f"rank{rank}.json"))) as profiler:
    for _ in range(7):
        optimizer.zero_grad()
        step.step(x) if rank == 0 else step.step(target=target)
        optimizer.step()
        profiler.step()
torch.distributed.destroy_process_group()
