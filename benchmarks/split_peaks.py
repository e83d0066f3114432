#!/usr/bin/env python3
"""Are the peaks of split backwards as predicted? Profiles each model, trains it with schedules that split the backward, in every
checkpoint mode on two and three lanes, and compares each lane's measured peak with the predicted one, and with the memory model at the
measured instants. Prints a Markdown table for docs/evidence/accuracy.md.

    benchmarks/split_peaks.py [--bin build/release/bin] [--models mlp ..] [--cores 1] [--no-tapes] [--all]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT_S = 600
MICRO_BATCHES = 4
# Model and samples of a micro-batch.
MODELS = {"mlp": ("mlp:layers=12,width=512", 32), "transformer": ("transformer:layers=6,width=128,sequence=64", 2),
          "unet": ("unet:B=2,C=8,size=64", 2), "resnet101": ("resnet101:size=64", 2),
          "amoebanetd": ("amoebanetd:L=6,D=32,size=64", 2)}
SCHEDULES = ("zero-bubble-h1", "zero-bubble-v", "v-half", "csv")
CHECKPOINTS = ("never", "except_last", "always")


def call(binaries, *words):
    done = subprocess.run([binaries / "pipescope", *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"pipescope {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout) if "--json" in words else {}


def late_weights(lanes):
    """All first halves before all second ones: the most that a schedule can keep."""
    rows = ["".join(f"{lane}{kind}{i}," for kind in "FIW" for i in range(MICRO_BATCHES)) for lane in range(lanes)]
    return "\n".join(row.rstrip(",") for row in rows) + "\n"


def even_cuts(layers, partitions):
    """Layers of each partition, which take about the same time."""
    times = [layer["forward_ns"][0] + layer["backward_ns"][0] for layer in layers]
    ends = []
    for part in range(1, partitions + 1):
        first = ends[-1] if ends else 0
        end = next(k + 1 for k in range(len(times)) if sum(times[:k + 1]) >= sum(times) * part / partitions * 0.999)
        ends.append(max(first + 1, min(end, len(times) - partitions + part)))
    ends[-1] = len(times)
    return [end - start for start, end in zip([0, *ends], ends)]


def measure(binaries, folder, profile, model, samples, schedule, checkpoint, lanes, cores):
    """Yields each lane's measured, predicted and replayed peak."""
    if schedule == "csv":
        file = folder / f"late{lanes}.csv"
        file.write_text(late_weights(lanes))
    named = schedule if schedule != "csv" else file
    pipeline = ["-m", MICRO_BATCHES, "--batch", MICRO_BATCHES * samples, "--checkpoint", checkpoint, "--schedule", named]
    cuts = even_cuts(json.loads(profile.read_text())["layers"], lanes * (2 if "v" in schedule.split("-") else 1))
    trace = folder / "out.sqlite"
    call(binaries, "run", model, "--balance", ",".join(map(str, cuts)), *pipeline, "--profile", profile, "--steps", 5,
         "--trace", trace, "--force", *(["--cores", cores] if cores else []))
    for lane in call(binaries, "compare", trace, "--json")["lanes"]:
        yield lane["measured_peak_bytes"], lane["simulated_peak_bytes"], lane["replayed_peak_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=list(SCHEDULES))
    parser.add_argument("--lanes", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--cores", type=int, help="that the lanes share; with one, nothing arrives during a task")
    parser.add_argument("--no-tapes", action="store_true", help="predict from the layers' bytes")
    parser.add_argument("--all", action="store_true", help="print each lane to stderr, too")
    flags = parser.parse_args()
    print("| model | schedule | lanes | predicted within 1 % | worst | at the measured instants within 1 % | worst |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for key in flags.models:
            model, samples = MODELS[key]
            profile = folder / f"{key}.json"
            tapes = ["--no-tapes"] if flags.no_tapes else []
            call(flags.bin, "profile", model, "-o", profile, "--micro-batch-sizes", samples, "--time-limit", "3s", *tapes)
            for schedule in flags.schedules:
                predicted, replayed = [], []
                for checkpoint in CHECKPOINTS:
                    for lanes in flags.lanes:
                        peaks = measure(flags.bin, folder, profile, model, samples, schedule, checkpoint, lanes,
                                        flags.cores)
                        for lane, (counted, simulated, again) in enumerate(peaks):
                            predicted.append(simulated / counted - 1)
                            replayed.append(again / counted - 1)
                            if flags.all:
                                print(f"{key} {schedule} {checkpoint} lane {lane} of {lanes}: {counted} B,"
                                      f" predicted {predicted[-1]:+.2%}, replayed {replayed[-1]:+.2%}", file=sys.stderr)
                columns = []
                for errors in (predicted, replayed):
                    columns += [f"{sum(abs(e) <= 0.01 for e in errors)}", f"{max(errors, key=abs):+.2%}"]
                print(f"| {key} | {schedule} | {len(predicted)} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
