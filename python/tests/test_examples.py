"""What people are told to try first: examples/, and the snippets at the top of the pages about the package."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from stitch import _programs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(command: list, folder, **environment) -> str:
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def snippet_of(page: str) -> str:
    """The Python program in a page's first block."""
    text = (ROOT / "docs" / page).read_text()
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL).group(1)
    return re.search(r"python - <<'(\w+)'\n(.*?)\n\1\n", block, re.DOTALL).group(2)


@pytest.mark.parametrize(
    "page, package, shown",
    [
        ("pytorch.md", "torch", r"'eager_calls': 0,.*'failed': \[\]"),
        ("jax.md", "jax", r"'programs'"),
        ("onnx-python.md", "onnx", r"0\.015625"),
    ],
    ids=["pytorch", "jax", "onnx"],
)
def test_a_pages_first_snippet_runs(page, package, shown, tmp_path):
    pytest.importorskip(package)
    code = snippet_of(page)
    assert len(code.splitlines()) <= 5
    output = output_of([sys.executable, "-c", code], tmp_path)
    assert re.search(shown, output, re.DOTALL), output


@pytest.mark.parametrize(
    "example, package, shown",
    [
        ("train_transformer.py", "torch", r"step 24: loss 0\.[0-2]\d\d, .*\n100\.0 % of the operators"),
        ("bert_finetune_step.py", "transformers", r"updated weights are \S+ apart"),
        ("onnx_vision.py", "onnx", r"4 pictures are of the classes \[\d, \d, \d, \d\]"),
    ],
    ids=["train_transformer", "bert_finetune_step", "onnx_vision"],
)
def test_an_example_runs(example, package, shown, tmp_path):
    pytest.importorskip(package)
    output = output_of([sys.executable, str(ROOT / "examples" / example)], tmp_path)
    assert re.search(shown, output), output


def test_the_zoo_is_planned_and_found_planned(tmp_path):
    folder = tmp_path / "zoo"
    found = [
        output_of([str(ROOT / "examples" / "zoo.sh"), str(folder)], tmp_path, STITCH=_programs.find("stitch"))
        for _ in range(2)
    ]
    count = int(re.search(r"(\d+) distinct fragments: 0 were tuned before, \1 now, 0 without a plan", found[0]).group(1))
    assert f"{count} distinct fragments: {count} were tuned before, 0 now, 0 without a plan" in found[1]
    assert (folder / "zoo.html").exists()
