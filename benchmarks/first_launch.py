"""One first launch, in a process of its own: `python first_launch.py NAME`.

Prints two numbers of seconds: importing the competitor, with torch imported before; and from then
to the first launch finished. Outside of both: importing torch, CUDA's start, the arrays.
"""

from __future__ import annotations

import sys
import time

import peers
import subject
import torch


def main(name: str) -> None:
    """Print both times, the launch's result checked."""
    peer = peers.PEERS[name]
    before = time.perf_counter()
    peer.prepare()
    imported = time.perf_counter()
    arrays = subject.arrays()
    start = time.perf_counter()
    peer.build(arrays)(1)
    torch.cuda.synchronize()
    end = time.perf_counter()
    subject.check(arrays)
    print(imported - before, end - start)


if __name__ == "__main__":
    main(sys.argv[1])
