#!/usr/bin/env python3
"""Trains Python modules on the engine's lanes of a device: gradients against the plain model, a recorded training, and what
torch's profiler sees of it.

    gpipe_on_device.py --device cuda:0 -o FOLDER       writes run.sqlite and profiler.json.gz
"""
import argparse
import copy
import pathlib
import sys

import pipescope
import torch
from torch import nn

CHUNKS = 4


def blocks(width):
    return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))],
                         nn.Linear(width, 16))


def gradients(model):
    return [parameter.grad.detach().cpu().double() for parameter in model.parameters()]


def off_by(found, expected):
    """The distance of two lists of tensors, as a share of the second one's norm."""
    difference = sum(float((a - b).square().sum()) for a, b in zip(found, expected)) ** 0.5
    return difference / sum(float(b.square().sum()) for b in expected) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"-o is '{folder}', which cannot be made ({error.strerror}); name a folder that can")
    is_cuda = options.device.startswith("cuda")
    width, batch = (1024, 512) if is_cuda else (32, 16)
    lanes = [options.device, options.device]
    torch.manual_seed(0)
    layers = blocks(width).double()
    x = torch.randn(batch, width, dtype=torch.float64)
    y = torch.randint(16, (batch,))

    plain = copy.deepcopy(layers)
    nn.functional.cross_entropy(plain(x), y).backward()
    expected = gradients(plain)
    for schedule in ("gpipe", "1f1b", "zero-bubble-h1"):
        for checkpoint in ("always", "except_last", "never"):
            for from_the_device in (False, True):
                model = pipescope.GPipe(copy.deepcopy(layers), balance=[6, 7], devices=lanes, chunks=CHUNKS, schedule=schedule,
                                        checkpoint=checkpoint)
                at = options.device if from_the_device else "cpu"
                model.step(x.to(at), y.to(options.device), nn.functional.cross_entropy)
                error = off_by(gradients(model), expected)
                if not error < 1e-9:
                    sys.exit(f"{schedule}, {checkpoint}, input on {at}: gradients are off by {error:.1e} of their norm")
    print("gradients of 18 pipelines equal the plain model's")

    model = pipescope.GPipe(copy.deepcopy(layers).float(), balance=[6, 7], devices=lanes, chunks=CHUNKS)
    x = x.float().to(options.device)
    y = y.to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=is_cuda)

    def step():
        optimizer.zero_grad()
        loss = model.step(x, y, nn.functional.cross_entropy)
        optimizer.step()
        return loss

    first = step().item()
    profile, fault = None, None
    try:
        profile = pipescope.profile(copy.deepcopy(layers).float(), x, y, nn.functional.cross_entropy, samples=[batch // CHUNKS],
                                    device=options.device, time_limit_s=10)
    except Exception as error:  # the rest can still be tried
        fault = f"pipescope.profile on {options.device}: {type(error).__name__}: {error}"
    with model.record(str(folder / "run.sqlite"), profile=profile, force=True):
        losses = [step().item() for _ in range(5)]
    if not losses[-1] < first:
        sys.exit(f"the loss does not fall: {first} and then {losses}")
    with torch.profiler.profile(record_shapes=True) as profiler:
        for _ in range(3):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(folder / "profiler.json.gz"))
    if fault:
        sys.exit(fault)
    print(f"gradients of 18 pipelines equal the plain model's; loss {first:.4f} to {losses[-1]:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
