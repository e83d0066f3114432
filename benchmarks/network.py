"""Network namespaces of this machine as the hosts of a group of processes. Needs root."""
import contextlib
import os
import subprocess
import sys

SKIPPED = 77


def command(*words):
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=30)


class Network:
    """Namespaces on one bridge; namespace k has the address 10.77.0.(k + 1). `rate` limits what each sends and receives. Ends the
    program with exit code 77 and a message where namespaces cannot be made."""

    def __init__(self, size, rate=None):
        self.tag = f"ps{os.getpid() % 10000}"
        self.size = size
        self.rate = rate

    def name(self, rank):
        return f"{self.tag}n{rank}"

    def outside(self, rank):
        """The bridge's end of a namespace's cable."""
        return f"{self.tag}v{rank}"

    def __enter__(self):
        try:
            command("ip", "link", "add", f"{self.tag}b", "type", "bridge")
            command("ip", "link", "set", f"{self.tag}b", "up")
            for rank in range(self.size):
                name, outside, inside = self.name(rank), self.outside(rank), "eth0"
                command("ip", "netns", "add", name)
                command("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
                command("ip", "link", "set", outside, "master", f"{self.tag}b", "up")
                command("ip", "-n", name, "addr", "add", f"10.77.0.{rank + 1}/24", "dev", inside)
                command("ip", "-n", name, "link", "set", inside, "up")
                command("ip", "-n", name, "link", "set", "lo", "up")
                if self.rate:
                    for key, value in (("slow_start_after_idle", 0), ("congestion_control", "reno")):
                        command("ip", "netns", "exec", name, "sysctl", "-w", f"net.ipv4.tcp_{key}={value}")
                    self.shape(["-n", name], inside, "dst")
                    self.shape([], outside, "src")
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            print(f"skipped: network namespaces cannot be made here ({getattr(error, 'stderr', None) or error})".strip())
            sys.exit(SKIPPED)
        return self

    def shape(self, where, device, end):
        """Token buckets on a device: one for all packets, and one in it for each peer, found by an end of the packet."""
        command("ip", *where, "link", "set", "dev", device, "gso_max_segs", "1")  # packets as a cable carries them
        bucket = ["ceil", self.rate, "burst", "5kb", "cburst", "5kb"]
        command("tc", *where, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
        command("tc", *where, "class", "add", "dev", device, "parent", "1:", "classid", "1:ff", "htb", "rate", self.rate, *bucket)
        for peer in range(1, self.size + 1):
            command("tc", *where, "class", "add", "dev", device, "parent", "1:ff", "classid", f"1:{peer}", "htb", "rate", "1mbit",
                    *bucket, "quantum", "1514")
            command("tc", *where, "filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "prio", "1", "u32", "match",
                    "ip", end, f"10.77.0.{peer}/32", "flowid", f"1:{peer}")

    def cut(self, rank):
        command("ip", "link", "set", self.outside(rank), "down")

    def mend(self, rank):
        command("ip", "link", "set", self.outside(rank), "up")

    def __exit__(self, *_):
        with contextlib.suppress(FileNotFoundError):  # no `ip`, so nothing was made
            for rank in range(self.size):
                subprocess.run(["ip", "link", "del", self.outside(rank)], capture_output=True, check=False)
                subprocess.run(["ip", "netns", "del", self.name(rank)], capture_output=True, check=False)
            subprocess.run(["ip", "link", "del", f"{self.tag}b"], capture_output=True, check=False)

    def start(self, rank, words, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.name(rank), *map(str, words)], text=True, **options)
