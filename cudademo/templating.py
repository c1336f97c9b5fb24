"""Kernel sources generated with Jinja2."""

from __future__ import annotations

import functools
from pathlib import Path

import jinja2

from . import resources


def template(name: str | Path, /, **variables: object) -> str:
    """Render a template to CUDA C++.

    Args:
        name: a file of yours, or one of the package's: `elementwise.cu.j2`, `reduction.cu.j2`,
            whose first comment tells what variables they take.
        **variables: what the template's names stand for.

    Raises:
        jinja2.TemplateNotFound: there is no such file.
        jinja2.UndefinedError: the template uses a name that was not given.
        jinja2.TemplateSyntaxError: with the template's own file and line.

    Example:
        >>> source = template(
        ...     "elementwise.cu.j2",
        ...     name="axpy",
        ...     inputs=[("float", "x"), ("float", "y")],
        ...     outputs=[("float", "z")],
        ...     scalars=[("float", "a")],
        ...     body="z = a * x + y;",
        ... )
        >>> "z = a * x + y;" in source
        True
    """
    path = Path(name)
    if path.is_file():
        folder, file = path.absolute().parent, path.name
    else:
        folder, file = resources.folder("templates"), str(name)
    return _environment(folder).get_template(file).render(**variables)


@functools.cache
def _environment(folder: Path) -> jinja2.Environment:
    """A template may include others of its own folder, then the package's."""
    return jinja2.Environment(  # noqa: S701 - C++ has nothing to escape
        loader=jinja2.FileSystemLoader([folder, resources.folder("templates")]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
