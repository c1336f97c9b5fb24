"""One first launch, in a process of its own: `python first_launch.py NAME`; prints seconds.

Outside the clock: importing torch and the competitor, CUDA's start, the arrays. Inside: all that
lies between having a source and the finished launch.
"""

from __future__ import annotations

import sys
import time

import peers
import subject
import torch


def main(name: str) -> None:
    """Print the seconds from imports done to the first launch finished, its result checked."""
    arrays = subject.arrays()
    peer = peers.PEERS[name]
    peer.prepare()
    start = time.perf_counter()
    peer.build(arrays)(1)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    subject.check(arrays)
    print(seconds)


if __name__ == "__main__":
    main(sys.argv[1])
