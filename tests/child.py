"""Python code in processes of its own, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def start(code: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Run code with its three streams piped; `folder` is its working folder."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code to its end."""
    process = start(code, folder, **environment)
    out, err = process.communicate()
    return subprocess.CompletedProcess(code, process.returncode, out, err)
