"""Files that others see whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write under a name of this thread's own, then rename. Raises OSError; makes the folder."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text(text)
    temporary.replace(path)
