#!/usr/bin/env python3
"""scripts/gpu/compare_reserved.py on a made-up trace of two accelerators and a host."""
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu" / "compare_reserved.py"
MIB = 1 << 20


class CompareReserved(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def compare(self, lanes, samples, simulated, *options):
        """lanes: device of each; samples: (lane, reserved); simulated: peak_reserved_bytes of each lane."""
        trace = sqlite3.connect(self.path("t.sqlite"))
        trace.execute("CREATE TABLE PIPESCOPE_TASK (lane INTEGER, device TEXT)")
        trace.execute("CREATE TABLE PIPESCOPE_MEMORY (lane INTEGER, reserved INTEGER)")
        trace.executemany("INSERT INTO PIPESCOPE_TASK VALUES (?, ?)", list(enumerate(lanes)) * 2)
        trace.executemany("INSERT INTO PIPESCOPE_MEMORY VALUES (?, ?)", samples)
        trace.commit()
        trace.close()
        with open(self.path("s.json"), "w") as file:
            json.dump({"partitions": [{"lane": lane, "device": device} for lane, device in enumerate(lanes)],
                       "lanes": [{"peak_reserved_bytes": bytes} for bytes in simulated]}, file)
        return subprocess.run([sys.executable, str(SCRIPT), self.path("t.sqlite"), self.path("s.json"), *options],
                              capture_output=True, text=True, timeout=60)

    def test_sums_the_lanes_of_a_device_and_takes_its_highest_sample(self):
        result = self.compare(["cuda:0", "cuda:0", "cuda:1", "cpu"],
                              [(0, 20 * MIB), (1, 44 * MIB), (0, 40 * MIB), (2, 10 * MIB), (3, 0)],
                              [22 * MIB, 22 * MIB, 11 * MIB, 0])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout, f"cuda:0: reserved {44 * MIB} bytes, simulated {44 * MIB}, +0.0%\n"
                                        f"cuda:1: reserved {10 * MIB} bytes, simulated {11 * MIB}, +10.0%\n")

    def test_fails_where_one_is_too_far_off(self):
        lanes, samples = ["cuda:0"], [(0, 100 * MIB)]
        self.assertEqual(self.compare(lanes, samples, [70 * MIB]).returncode, 1)

    def test_takes_how_far_may_be_off(self):
        self.assertEqual(self.compare(["cuda:0"], [(0, 100 * MIB)], [70 * MIB], "0.4").returncode, 0)

    def test_fails_where_nothing_was_measured(self):
        result = self.compare(["cpu"], [(0, 0), (0, None)], [0])
        self.assertEqual(result.returncode, 1)
        self.assertIn("no reserved bytes", result.stdout)

    def test_says_what_cannot_be_read(self):
        result = subprocess.run([sys.executable, str(SCRIPT), self.path("none"), self.path("none")], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        self.assertIn("cannot be compared (OperationalError: unable to open database file)", result.stdout)


if __name__ == "__main__":
    unittest.main()
