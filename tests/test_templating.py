"""Sources rendered from templates, the package's own and a user's."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
import torch

import cudademo

FUSED = {
    "name": "fused",
    "inputs": [("float", "x"), ("float", "y")],
    "outputs": [("float", "z"), ("double", "w")],
    "scalars": [("float", "a")],
    "body": "z = scaled(x, a) + y; w = z * 2.0;",
    "preamble": "__device__ float scaled(float x, float a) { return a * x; }",
}
NORM = {
    "name": "row_norm", "input": "float", "output": "float", "sum": "double", "block": 128,
    "identity": "0", "map": "x * x", "reduce": "a + b", "post": "sqrt(a)",
}  # fmt: skip


def test_an_elementwise_kernel_has_its_arrays_in_order_and_compiles():
    kernel = cudademo.kernel(cudademo.template("elementwise.cu.j2", **FUSED), "fused")
    assert str(kernel.signature()) == (
        "fused(float const* x_array, float const* y_array, float* z_array, double* w_array, "
        "float a, long long n)"
    )


def test_a_reduction_compiles():
    kernel = cudademo.kernel(cudademo.template("reduction.cu.j2", **NORM), "row_norm")
    assert str(kernel.signature()) == (
        "row_norm(float const* x_array, float* y_array, long long columns)"
    )


def test_a_name_that_was_not_given_is_an_error_that_names_it():
    with pytest.raises(jinja2.UndefinedError, match="'body' is undefined"):
        cudademo.template("elementwise.cu.j2", **{k: v for k, v in FUSED.items() if k != "body"})


def test_a_template_that_is_not_there_is_an_error():
    with pytest.raises(jinja2.TemplateNotFound, match=r"nothing\.cu\.j2"):
        cudademo.template("nothing.cu.j2")


def test_a_template_of_the_users_own_includes_its_neighbours_and_the_packages(tmp_path: Path):
    (tmp_path / "neighbour.j2").write_text("// {{ word }}\n")
    (tmp_path / "mine.cu.j2").write_text(
        '{% include "neighbour.j2" %}{% include "elementwise.cu.j2" %}'
    )
    text = cudademo.template(tmp_path / "mine.cu.j2", word="hello", **FUSED)
    assert text.startswith("// hello\n")
    assert "scaled(x, a)" in text


def test_a_fault_of_a_template_is_at_its_own_line(tmp_path: Path):
    (tmp_path / "bad.cu.j2").write_text("line one\n{% for %}\n")
    with pytest.raises(jinja2.TemplateSyntaxError) as caught:
        cudademo.template(tmp_path / "bad.cu.j2")
    assert (caught.value.lineno, Path(caught.value.filename or "").name) == (2, "bad.cu.j2")


def test_a_rendered_elementwise_kernel_computes(kernel_device):
    kernel = cudademo.kernel(cudademo.template("elementwise.cu.j2", **FUSED), "fused")
    x, y = (torch.randn(1000, device=kernel_device) for _ in "xy")
    z, w = torch.empty_like(x), torch.empty(1000, device=kernel_device, dtype=torch.float64)
    kernel[2, 256](x, y, z, w, 3.0, 1000)
    torch.testing.assert_close(z.double(), 3.0 * x.double() + y.double(), rtol=1e-6, atol=1e-6)
    assert torch.equal(w, z.double() * 2)


@pytest.mark.parametrize("columns", [1, 31, 128, 1000])
def test_a_rendered_reduction_computes(kernel_device, columns):
    kernel = cudademo.kernel(cudademo.template("reduction.cu.j2", **NORM), "row_norm")
    x = torch.randn(7, columns, device=kernel_device)
    y = torch.full((7,), float("nan"), device=kernel_device)
    kernel[7, 128](x, y, columns)
    torch.testing.assert_close(y.double(), x.double().norm(dim=1), rtol=1e-6, atol=0.0)
