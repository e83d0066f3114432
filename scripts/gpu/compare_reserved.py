#!/usr/bin/env python3
"""Holds the simulated reserved bytes of each accelerator against those of a recorded run.

    compare_reserved.py TRACE SIMULATION [MOST]

TRACE is a recorded run; SIMULATION what `pipescope simulate --json` says of the same pipeline, with its --devices. A device's
lanes share one caching allocator, so that the sum of their simulated peaks stands against the most it reserved. Exits with 1 if
one is further off than MOST (0.25, a share of the measured), or where nothing was measured.
"""
import json
import sqlite3
import sys


def measured(trace):
    """The most that each device's allocator reserved; a device on which nothing was reserved is a host."""
    rows = sqlite3.connect(f"file:{trace}?mode=ro", uri=True).execute(
        """SELECT device, max(reserved)
           FROM PIPESCOPE_MEMORY JOIN (SELECT DISTINCT lane, device FROM PIPESCOPE_TASK) USING (lane) GROUP BY device"""
    )
    return {device: reserved for device, reserved in rows if reserved}


def simulated(path):
    with open(path) as file:
        simulation = json.load(file)
    device_of = {each["lane"]: each["device"] for each in simulation["partitions"]}
    reserved = {}
    for lane, each in enumerate(simulation["lanes"]):
        reserved[device_of[lane]] = reserved.get(device_of[lane], 0) + each["peak_reserved_bytes"]
    return reserved


def main(trace, simulation, most="0.25"):
    try:
        found = measured(trace)
        expected = simulated(simulation)
    except (OSError, sqlite3.Error, ValueError, LookupError, TypeError) as error:
        print(f"{trace} and {simulation} cannot be compared ({type(error).__name__}: {error}); name a recorded run, and "
              "the JSON of its simulation")
        return 1
    if not found:
        print(f"{trace} holds no reserved bytes: no lane ran on an accelerator, or its memory was not recorded")
        return 1
    far_off = 0
    for device, reserved in sorted(found.items()):
        if device not in expected:
            print(f"{device}: {reserved} bytes reserved, but it is not simulated; name it in --devices")
            far_off += 1
            continue
        error = expected[device] / reserved - 1
        print(f"{device}: reserved {reserved} bytes, simulated {expected[device]}, {error:+.1%}")
        far_off += abs(error) > float(most)
    return 1 if far_off else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
