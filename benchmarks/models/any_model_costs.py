"""What the layers of a traced model cost, and how well their steps are predicted. Prints the tables of docs/evidence/models.md.

    pip install transformers timm diffusers
    python benchmarks/models/any_model_costs.py [overhead] [lanes] [predicted] [peaks] [meta] [a model's name]

overhead: a step of all layers, one after the other and as a pipeline of one lane, against the model's own forward and backward.
lanes: two lanes against the plain model that runs micro-batch by micro-batch, a thread each.
predicted: steps as simulated, where profiles and trainings take turns in one process.
peaks: profile, balance, train and compare, by the commands: the lanes' peaks of memory.
meta: a model of the size of Llama 7B without values: its layers, an estimate for an H100, and torch's own export.

Times are in turns, medians of pairs. The load of the machine is printed first and last.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import pipescope
import torch
from pipescope.skip import skips_on

import any_model_table as table


def gpt2(layers=6, width=768, heads=12, length=128, rows=8, vocabulary=50257, seed=0):
    from transformers import AutoModelForCausalLM, GPT2Config

    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads, n_positions=max(length, 128), use_cache=False,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    ids = torch.randint(vocabulary, (rows, length))
    return AutoModelForCausalLM.from_config(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def part_of(batch, first, end):
    return {name: each[first:end] if isinstance(each, torch.Tensor) else each for name, each in batch.items()}


def in_turns(calls, rounds, clock):
    """The medians of the calls' times, and of the first one's share of each other."""
    times = {name: [] for name in calls}
    for k in range(rounds + 1):
        for name in list(calls) if k % 2 else list(calls)[::-1]:
            gc.collect()
            start = clock()
            calls[name]()
            if k:  # the first round is a warm-up
                times[name].append(clock() - start)
    first = next(iter(calls))
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratios = {name: statistics.median(b / a for a, b in zip(times[first], times[name])) for name in calls}
    return medians, ratios


# ---- Overhead ----


def overhead(rounds=15):
    """Processor time of one thread, which other programs disturb less than time."""
    torch.set_num_threads(1)
    print("\n| model, batch | plain step | its layers in turn | as one lane | as two lanes, with micro-batches |\n| --- | --- | --- | --- | --- |")
    for name, sizes in (("GPT-2, 6 layers of 256, 4 x 64", {"width": 256, "heads": 4, "length": 64, "rows": 4, "vocabulary": 5000}),
                        ("GPT-2, 6 layers of 768, 2 x 64", {"length": 64, "rows": 2, "vocabulary": 5000})):
        model, batch = gpt2(**sizes)
        layers = pipescope.layers_of(model, batch)
        count, micro = len(layers), 4 if sizes["rows"] >= 4 else 2
        one = pipescope.GPipe(layers, [count], devices=["cpu"], chunks=1, checkpoint="never", schedule="1f1b")
        two = pipescope.GPipe(layers, [count // 2, count - count // 2], devices=["cpu"] * 2, chunks=micro, checkpoint="never",
                              schedule="1f1b", host_cores=1)
        modules, flat = list(layers.values()), layers.flat((), batch)

        def plain():
            model(**batch).loss.backward()

        def plain_in_parts():
            for k in range(micro):
                rows = sizes["rows"] // micro
                (model(**part_of(batch, k * rows, (k + 1) * rows)).loss / micro).backward()

        def in_turn():
            value = flat
            with skips_on({}):
                for each in modules:
                    value = each(value)
            layers.value(value, None).loss.backward()

        calls = {"plain": plain, "layers": in_turn, "one": lambda: one.step(batch)}
        medians, ratios = in_turns(calls, rounds, time.process_time)
        parts, shares = in_turns({"plain": plain_in_parts, "two": lambda: two.step(batch)}, rounds, time.process_time)
        print(f"| {name} | {medians['plain'] * 1e3:.0f} ms | {ratios['layers'] - 1:+.1%} | {ratios['one'] - 1:+.1%} | "
              f"{shares['two'] - 1:+.1%} of {parts['plain'] * 1e3:.0f} ms |", flush=True)


# ---- Two lanes ----


def lanes(rounds=7, shapes=((6, 64, 8, 8), (6, 64, 16, 8), (12, 64, 8, 8))):
    """``shapes``: layers, tokens, samples, micro-batches."""
    torch.set_num_threads(1)
    print("\n| GPT-2 small shapes | plain | two lanes | speedup | balance |\n| --- | --- | --- | --- | --- |")
    for depth, length, rows, chunks in shapes:
        model, batch = gpt2(depth, length=length, rows=rows, vocabulary=5000)
        layers = pipescope.layers_of(model, batch)
        pipe = pipescope.GPipe(layers, devices=["cpu"] * 2, chunks=chunks, checkpoint="never", schedule="1f1b")

        def plain():
            size = rows // chunks
            for k in range(chunks):
                (model(**part_of(batch, k * size, (k + 1) * size)).loss / chunks).backward()

        medians, ratios = in_turns({"plain": plain, "two": lambda: pipe.step(batch)}, rounds, time.perf_counter)
        print(f"| {depth} layers of 768, {rows} x {length}, {chunks} micro-batches | {medians['plain'] * 1e3:.0f} ms | "
              f"{medians['two'] * 1e3:.0f} ms | {1 / ratios['two']:.2f} | {pipe.balance} |", flush=True)


# ---- Predictions ----


def language(kind, rows=8, length=64, **more):
    import transformers

    sizes = {"vocab_size": 500, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128, "pad_token_id": 0, "use_cache": False, **more}
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**sizes))
    return model, text(rows, length)


def text(rows, length, **more):
    ids = torch.randint(3, 500, (rows, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids, **more}


def masked(kind, name, **more):
    import transformers

    config = getattr(transformers, kind)(vocab_size=500, hidden_size=128, num_hidden_layers=6, num_attention_heads=4,
                                         intermediate_size=256, **more)
    return getattr(transformers, name)(config), text(8, 64)


def t5():
    import transformers

    config = transformers.T5Config(vocab_size=500, d_model=128, d_kv=32, d_ff=256, num_layers=3, num_heads=4, decoder_start_token_id=0,
                                   use_cache=False)
    return transformers.T5ForConditionalGeneration(config), text(8, 64)


def vit():
    import transformers

    config = transformers.ViTConfig(hidden_size=128, num_hidden_layers=6, num_attention_heads=4, intermediate_size=256, image_size=64,
                                    patch_size=8, num_labels=5)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(8, 3, 64, 64), "labels": torch.randint(5, (8,))}


def dit():
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=32, in_channels=4, out_channels=8, num_layers=6,
                                  sample_size=16, patch_size=2, num_embeds_ada_norm=10)
    return model, {"hidden_states": torch.randn(8, 4, 16, 16), "timestep": torch.randint(1000, (8,)),
                   "class_labels": torch.randint(10, (8,))}


def unet():
    return table.SmallUNet(32, 8), {"sample": torch.randn(8, 3, 32, 32), "context": torch.randn(8, 8)}


def convnext():
    import timm

    return timm.create_model("convnext_atto", num_classes=5), {"x": torch.randn(8, 3, 64, 64)}


PREDICTED = {
    "GPT-2 (tied)": lambda: gpt2(6, 128, 4, 64, 8, 500),
    "Llama": lambda: language("LlamaConfig"),
    "Qwen3": lambda: language("Qwen3Config"),
    "Mistral (window)": lambda: language("MistralConfig", sliding_window=16),
    "Gemma 2 (tied)": lambda: language("Gemma2Config", sliding_window=16),
    "BERT MLM (tied)": lambda: masked("BertConfig", "BertForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    "ALBERT (repeated, tied)": lambda: masked("AlbertConfig", "AlbertForMaskedLM", embedding_size=64, hidden_dropout_prob=0.0,
                                              attention_probs_dropout_prob=0.0),
    "T5 (tied thrice)": t5,
    "ViT": vit,
    "diffusers DiT": dit,
    "SD-like UNet": unet,
    "timm ConvNeXt": convnext,
}
CONFIGURATIONS = [("1f1b", "never"), ("gpipe", "except_last")]
MADE = """
import sys
sys.path.insert(0, {folder!r})
import torch
import any_model_costs, any_model_table
torch.set_num_threads(1)

def make():
    return any_model_costs.PREDICTED[{name!r}]()

def loss(output, batch):
    return any_model_table.own_or_squares(output)
"""


def predicted(*names, rounds=2, seconds=4.0, steps=22):
    """On two lanes, 8 samples in 4 micro-batches. Each round profiles the layers for ``seconds``, and then trains ``steps`` steps of each
    configuration, of which 2 are warm-up, so that a machine whose speed changes is the same one for both. Means over the rounds."""
    torch.set_num_threads(1)
    print("\n| model | schedule, checkpoints | step | of each round | simulated | error | errors of the rounds |\n| --- | --- | ---: | --- | ---: | ---: | --- |")
    for name in names or PREDICTED:
        model, batch = PREDICTED[name]()
        layers = pipescope.layers_of(model, batch)
        loss = lambda output, batch: table.own_or_squares(output)  # noqa: E731
        balances, found = {}, {configuration: [] for configuration in CONFIGURATIONS}
        for _ in range(rounds):
            profile = pipescope.profile(layers, batch, loss=loss, samples=[2], batches=[8], time_limit_s=seconds)
            for schedule, checkpoint in CONFIGURATIONS:
                options = {"chunks": 4, "schedule": schedule, "checkpoint": checkpoint}
                if (schedule, checkpoint) not in balances:
                    balances[schedule, checkpoint] = profile.balance(2, batch=8, **options).balance
                pipe = pipescope.GPipe(layers, balances[schedule, checkpoint], devices=["cpu"] * 2, **options)
                found[schedule, checkpoint].append(recorded(pipe, profile, lambda: pipe.step(batch, loss=loss), steps))
        for configuration, each in found.items():
            measured, simulated = (statistics.mean(one[k] for one in each) for k in (0, 1))
            shown = ", ".join(f"{one[0] / 1e6:.1f}" for one in each)
            errors = ", ".join(f"{one[1] / one[0] - 1:+.1%}" for one in each)
            print(f"| {name} | {', '.join(configuration)} | {measured / 1e6:.1f} ms | {shown} | {simulated / 1e6:.1f} ms | "
                  f"{simulated / measured - 1:+.1%} | {errors} |", flush=True)


def recorded(pipe, profile, step, steps):
    """(measured, simulated): mean steps in ns, without the first two."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.sqlite")
        with pipe.record(path, profile=profile, warmup=2):
            for _ in range(steps):
                pipe.zero_grad()
                step()
        compared = pipescope.Trace.open(path).compare()
    measured, simulated = compared.measured_step_mean_ns, compared.simulated_step_mean_ns
    return (measured, simulated) if measured and simulated else (compared.measured_step_ns, compared.simulated_step_ns)


def peaks(*names):
    """On two lanes, 8 samples in 4 micro-batches, 12 steps. The highest peaks of the lanes, and the worst error of a lane: as simulated,
    and with the memory model at the measured instants, which leaves out that the tasks ran at other times."""
    print("\n| model | schedule, checkpoints | peak | simulated | worst error | at the measured instants |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in names or PREDICTED:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "model.py"), "w", encoding="utf-8") as file:
                file.write(MADE.format(folder=os.path.dirname(os.path.abspath(__file__)), name=name))

            def command(*words):
                done = subprocess.run([sys.executable, "-m", "pipescope", *words], cwd=folder, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"{name}: pipescope {' '.join(words)}: {done.stderr}")
                return done.stdout

            command("profile", "model.py:make", "-o", "p.json", "--micro-batch-sizes", "2", "--batch", "8", "--time-limit", "10s")
            for schedule, checkpoint in CONFIGURATIONS:
                options = ["-m", "4", "--batch", "8", "--schedule", schedule, "--checkpoint", checkpoint]
                balance = json.loads(command("balance", "p.json", "-n", "2", *options, "--json"))["balance"]
                command("run", "model.py:make", "--balance", ",".join(map(str, balance)), *options, "--steps", "12", "--profile", "p.json",
                        "--trace", f"{schedule}.sqlite")
                lanes = json.loads(command("compare", f"{schedule}.sqlite", "--json"))["lanes"]
                worst = {
                    kind: max((each[f"{kind}_peak_bytes"] / each["measured_peak_bytes"] - 1 for each in lanes), key=abs)
                    for kind in ("simulated", "replayed")
                }
                highest = [max(each[f"{kind}_peak_bytes"] for each in lanes) / 2**20 for kind in ("measured", "simulated")]
                print(f"| {name} | {schedule}, {checkpoint} | {highest[0]:.1f} MiB | {highest[1]:.1f} MiB | {worst['simulated']:+.2%} | "
                      f"{worst['replayed']:+.2%} |", flush=True)


# ---- Without values ----

META = """
import resource, sys, time
start = time.process_time()
import torch, transformers
with torch.device("meta"):
    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(use_cache=False))
    ids = torch.zeros(2, 2048, dtype=torch.long)
batch = {"input_ids": ids, "labels": ids}
imported = time.process_time()
if sys.argv[1] == "torch":
    any_size = {name: {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO} for name in batch}
    torch.export.export(model, (), batch, strict=False)
    fixed = time.process_time()
    torch.export.export(model, (), batch, strict=False, dynamic_shapes=any_size)
    print(fixed - imported, time.process_time() - fixed)
else:
    import pipescope
    layers = pipescope.layers_of(model, batch)
    cut = time.process_time()
    profile = pipescope.profile(layers, batch, estimate_for="H100", samples=[1, 2])
    estimated = time.process_time()
    plan = profile.plan(batch=512, partitions="1..8")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(len(layers), cut - imported, estimated - cut, time.process_time() - estimated, megabytes)
"""


def meta():
    """Processor time, which does not depend on other programs."""
    def ran(what):
        done = subprocess.run([sys.executable, "-c", META, what], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        return [float(each) for each in done.stdout.split()]

    runs = [(ran("torch"), ran("layers")) for _ in range(3)]
    fixed, export = (statistics.median(each[0][k] for each in runs) for k in (0, 1))
    count, cut, estimated, planned, megabytes = [statistics.median(each[1][k] for each in runs) for k in range(5)]
    ratio = statistics.median(each[1][1] / each[0][1] for each in runs)
    print("\n| LlamaConfig(), 2 x 2048 tokens, meta | |\n| --- | --- |")
    print(f"| torch.export.export, of these sizes | {fixed:.1f} s |\n| of any number of samples and tokens | {export:.1f} s |\n| layers_of, {count:.0f} layers | {cut:.1f} s, {ratio:.2f} times that |\n"
          f"| profile(estimate_for=\"H100\") | {estimated:.1f} s |\n| plan(batch=512, partitions=\"1..8\") | {planned:.1f} s |\n"
          f"| memory of the process | {megabytes:.0f} MiB |", flush=True)


def main():
    warnings.simplefilter("ignore")
    measures = {"overhead": overhead, "lanes": lanes, "predicted": predicted, "peaks": peaks, "meta": meta}
    print(f"load {os.getloadavg()}")
    for each in sys.argv[1:] or measures:
        if each in measures:
            measures[each]()
        else:
            predicted(each)  # one model
    print(f"\nload {os.getloadavg()}")


if __name__ == "__main__":
    main()
