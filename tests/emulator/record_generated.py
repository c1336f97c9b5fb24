"""Run every program of generated.py on a GPU and keep what its answers come to.

python tests/emulator/record_generated.py                     writes answers/generated-GPU.json
python tests/emulator/record_generated.py --source 17         one program's CUDA C++
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import generated
import record

KEPT = 8  # of a program's words: where an answer differs they tell more than the checksum


def summary(program: generated.Program, words: Any) -> dict[str, Any]:
    """What is kept of a program's answers."""
    return {
        "digest": program.digest,
        "crc": zlib.crc32(words.tobytes()),
        "first": [int(word) for word in words[:KEPT]],
        "totals": [int(word) for word in words[generated.COUNT :]],
    }


def path_for(gpu: str) -> Path:
    """The file of a GPU's answers."""
    return record.ANSWERS / f"generated-{gpu}.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for the emulator")
    parser.add_argument("--out", type=Path, help="answers/generated-GPU.json by default")
    parser.add_argument("--source", type=int, metavar="NUMBER", help="print a program; run nothing")
    chosen = parser.parse_args()
    if chosen.source is not None:
        print(generated.PRELUDE + generated.Program(chosen.source).source)
        return 0
    modules = generated.compiled()
    kept = {}
    for program in generated.PROGRAMS:
        words = program.run(modules[program.kernel], chosen.device)
        kept[program.kernel] = summary(program, words)
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in kept.items()]
    about = f'"about": {json.dumps(record.header(chosen.device))}'
    out = chosen.out or path_for(record.gpu_name())
    out.write_text("{\n" + ",\n".join([about, *lines]) + "\n}\n")
    print(f"{out}: {len(kept)} programs, {out.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
