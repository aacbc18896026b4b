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


def first_block(page: str) -> str:
    """The first block of a page, which is what people copy into a shell."""
    return re.search(r"```(\w+)\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL).expand(r"\2")


def tools(folder: pathlib.Path) -> pathlib.Path:
    """`python` as these tests run on, and a `pip` that installs nothing but notes what it should have."""
    for name, text in {
        "python": f'exec "{sys.executable}" "$@"',
        "pip": f'echo "$*" >> "{folder}/asked"',
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "page, package, shown",
    [
        ("python/README.md", "numpy", r"\[768\. .* 768\.\] \S+ 1\n"),
        ("docs/pytorch.md", "torch", r"'eager_calls': 0,.*'failed': \[\]"),
        ("docs/jax.md", "jax", r"'programs': 2"),
        ("docs/onnx-python.md", "onnx", r"0\.015625"),
    ],
    ids=["python", "pytorch", "jax", "onnx"],
)
def test_a_pages_first_block_runs_as_it_is(page, package, shown, tmp_path):
    pytest.importorskip(package)
    block = first_block(page)
    program = re.search(r"python - <<'(\w+)'\n(.*?)\n\1\n", block, re.DOTALL).group(2)
    assert len(program.splitlines()) <= 5
    output = output_of(["bash", "-e", "-c", block], ROOT, PATH=f"{tools(tmp_path)}:{os.environ['PATH']}")
    assert re.search(shown, output, re.DOTALL), output
    # All that the program imports is installed before: the wheel with what it depends on, and the others by name.
    verb, wheel, *others = (tmp_path / "asked").read_text().split()
    assert (verb, wheel) == ("install", "./python") and (ROOT / wheel / "pyproject.toml").exists()
    words = ",".join(re.findall(r"^import (.*)$", program, re.MULTILINE)).split(",")
    imported = {re.split(r"[ .]", word.strip())[0] for word in words}
    assert imported - {"stitch", "numpy"} == set(others)


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
