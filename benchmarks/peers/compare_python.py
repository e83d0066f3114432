"""pipescope.GPipe beside the plain model and torchgpipe, all from Python, in one process, in turn. Prints Markdown tables.

    PYTHONPATH=build/python/python:TORCHGPIPE .venv/bin/python benchmarks/peers/compare_python.py [ROUNDS]

TORCHGPIPE is a folder that holds the package torchgpipe 0.0.7; without one its columns are empty. Throughput: two lanes, eight
micro-batches, times of the plain model with one intra-op thread over those of the pipeline. Overhead: 8 partitions x 32
micro-batches of Linear(8, 8), time beyond the plain model's per (partition, micro-batch).
"""

import sys

import cases
import pipescope
import torch
from torch import nn

try:
    from torchgpipe import GPipe as TheirGPipe
except ImportError:
    TheirGPipe = None

TWO = {"devices": ["cpu", "cpu"], "chunks": 8}


def mlp():
    return nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU()))), torch.randn(2048, 512)


def transformer():
    def block():
        return nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)

    return nn.Sequential(*(block() for _ in range(4))), torch.randn(32, 64, 256)


def tiny():
    class Many(nn.Module):
        def forward(self, x):
            for _ in range(60):
                x = x * 1.001 + 0.1
            return x

    return nn.Sequential(Many(), Many()), torch.randn(64, 8).requires_grad_()


def mean_of_squares(output, _target):
    return output.square().mean()


def throughput(rounds):
    print("| model, checkpoint | plain, ms | torchgpipe | ours, backward() | ours, step() | ours, 1f1b |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for make, mode in ((mlp, "never"), (transformer, "never"), (tiny, "always")):
        layers, batch = make()
        balance = [len(layers) // 2] * 2
        ours = pipescope.GPipe(layers, balance, checkpoint=mode, **TWO)
        one_f_one_b = pipescope.GPipe(layers, balance, checkpoint=mode, schedule="1f1b", **TWO)

        def by_backward(model, x=batch):
            mean_of_squares(model(x), None).backward()

        works = {
            "plain": lambda: by_backward(layers),
            "backward": lambda: by_backward(ours),
            "step": lambda: ours.step(batch, batch.detach(), mean_of_squares),
            "1f1b": lambda: one_f_one_b.step(batch, batch.detach(), mean_of_squares),
        }
        if TheirGPipe:
            theirs = TheirGPipe(layers, balance, checkpoint=mode, **TWO)
            works["torchgpipe"] = lambda: by_backward(theirs)
        took = cases.interleaved_medians(rounds, **works)
        columns = [f"×{took['plain'] / took[name]:.2f}" if name in took else ""
                   for name in ("torchgpipe", "backward", "step", "1f1b")]
        print(f"| {make.__name__}, {mode} | {took['plain'] * 1e3:.1f} | {' | '.join(columns)} |", flush=True)


def overhead(rounds):
    print("\n| checkpoint | plain, µs | overhead of torchgpipe, µs | of ours, µs | ratio | of ours with 8 host cores, µs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    partitions, micro_batches = cases.OVERHEAD_PARTITIONS, cases.OVERHEAD_MICRO_BATCHES
    batch = torch.randn(micro_batches, 8)
    for mode in ("never", "always"):
        layers = cases.overhead_layers()
        options = {"devices": ["cpu"] * partitions, "chunks": micro_batches, "checkpoint": mode}
        ours = pipescope.GPipe(layers, [1] * partitions, **options)
        unshared = pipescope.GPipe(layers, [1] * partitions, host_cores=partitions, **options)
        works = {
            "plain": lambda: cases.train_by_micro_batches(layers, batch, micro_batches),
            "ours": lambda: cases.train(ours, batch),
            "unshared": lambda: cases.train(unshared, batch),
        }
        if TheirGPipe:
            theirs = TheirGPipe(layers, [1] * partitions, **options)
            works["theirs"] = lambda: cases.train(theirs, batch)
        took = {name: seconds * 1e6 / (partitions * micro_batches)
                for name, seconds in cases.interleaved_medians(rounds, **works).items()}
        beyond = {name: us - took["plain"] for name, us in took.items()}
        their_us = f"{beyond['theirs']:.0f}" if TheirGPipe else ""
        ratio = f"{beyond['theirs'] / max(beyond['ours'], 1):.1f}×" if TheirGPipe else ""
        print(f"| {mode} | {took['plain']:.0f} | {their_us} | {beyond['ours']:.0f} | {ratio} | {beyond['unshared']:.0f} |",
              flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    throughput(rounds)
    overhead(2 * rounds)
