"""The package's own kernels and templates: files beside the code, in a wheel and in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """The folder `kernels` or `templates`."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name  # an editable install
