"""Draws the schedules of docs/guides/choose-a-schedule.md and prints its table: schedule_pictures.py [FOLDER]

Eight equal layers on four lanes, eight micro-batches. A layer takes 1 ms forward and 2 ms backward, one half of which are the
gradients of the weights. Copies are free. All pictures have one scale of time.
"""

import pathlib
import sys

import pipescope

LANES, CHUNKS = 4, 8
SCHEDULES = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "looped-bfs": 2, "zero-bubble-h1": 1, "zero-bubble-2p": 1,
             "interleaved-zero-bubble": 2, "zero-bubble-v": 2, "dualpipe-v": 2, "v-half": 2, "v-min": 2}
PIXELS_PER_NS = 800 / 66e6

layer = {"parameter_bytes": 0, "gradient_bytes": 0, "buffer_bytes": 0, "forward_ns": [1e6], "recompute_ns": [1e6],
         "backward_ns": [2e6], "backward_weight_ns": [1e6], "output_bytes": [1], "saved_bytes": [1 << 20],
         "transient_bytes": [0], "flops": [0]}
profile = pipescope.Profile.from_dict({
    "format": "pipescope.profile", "version": 1, "model": "eight equal layers", "device": "cuda:0", "dtype": "float32",
    "threads": 1, "samples": [1], "input_bytes": [1], "loss_ns": [0],
    "layers": [dict(layer, name=f"layer{i}") for i in range(8)]})
folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")

print("| schedule | step | bubble | memory, lane by lane |\n| --- | ---: | ---: | --- |")
for name, per_lane in SCHEDULES.items():
    step = profile.simulate(schedule=name, balance=[2 // per_lane] * (LANES * per_lane), chunks=CHUNKS, batch=CHUNKS,
                            checkpoint="never", devices=[f"gpu{lane}" for lane in range(LANES)])
    width = 80 + round(step.step_ns * PIXELS_PER_NS)
    picture = step.timeline.to_svg(width).replace("</title>", '</title><rect width="100%" height="100%" fill="#fff"/>', 1)
    (folder / f"schedule-{name}.svg").write_text(picture + "\n", encoding="utf-8")
    memory = ", ".join(f"{lane.peak_bytes / (2 << 20):.3g}" for lane in step.lanes)
    print(f"| `{name}` | {step.step_ns / 1e6:.0f} ms | {step.bubble_fraction:.1%} | {memory} |")
