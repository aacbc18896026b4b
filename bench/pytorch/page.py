"""bench/results/pytorch.md out of the log of run.py."""

import math

import provenance
import torch
from zoo import MODELS

PRECISIONS = {
    "float32": "float32",
    "bfloat16": "parameters and inputs in bfloat16",
    "autocast": "parameters in float32 under `torch.autocast(dtype=torch.bfloat16)`",
}

INTRODUCTION = """# PyTorch models through the back end

Made by `{command}` ([docs/pytorch.md](../../docs/pytorch.md)): the models
of `bench/pytorch/zoo`, real code from PyPI with random weights at small sizes, {precision}, PyTorch {version}, on
the emulated device.

* Operators are those of core ATen after decomposition, without views; *library* are products, convolutions and
  attention, {library}. *Ours* is the share of the others that ran in our kernels.
* *Launches* and *bytes* are those of our kernels, ours / Inductor's: what one call launches, and what it moves to and
  from global memory. With ours are the bytes of optimizers' updates, which are copied into PyTorch's tensors. Inductor's
  are counted where it has scheduled the same program for an H100 (`bench/pytorch/inductor.py`), with what it fuses and
  estimates of its own{without}.
* *Peak* is the most memory that PyTorch's allocator held at once in a second call (of a training step: forward and
  backward), in KiB, ours / eager's; the workspace of our plans is not PyTorch's and not in it.
* *Errors* are ours / eager's: the largest difference from eager in float64, relative to the largest value of its tensor;
  of a training step of results, gradients, and updated parameters, these from an exact step by the same gradients.
  Beyond 8 × eager's + 1e-5 they are **wrong**.
"""

HEAD = [
    "| model | what | operators | library | ours | launches | bytes | peak | errors, ours / eager's | fell back |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def others(row) -> int:
    return sum(entry["count"] for entry in row["fell_back"])


def share(row) -> float:
    return row["operators_ours"] / max(1, row["operators_ours"] + others(row))


def wrong(row) -> bool:
    return any(not ours <= 8 * eager + 1e-5 for ours, eager in row["errors"])


def verdict(row) -> str:
    """A row in a few words."""
    if "error" in row:
        return row["error"]
    words = f"{100 * share(row):.1f} % ours, {row['seconds']:.0f} s, errors {errors(row)}"
    if row["eager_calls"] or row["failed"]:
        words += f", {row['eager_calls']} pieces ran eagerly: {[entry['message'] for entry in row['failed']]}"
    return words + (", WRONG" if wrong(row) else "")


def errors(row) -> str:
    text = ", ".join(f"{ours:.0e} / {eager:.0e}" for ours, eager in row["errors"])
    return f"**wrong: {text}**" if wrong(row) else text


def reasons(row) -> str:
    parts = [f"`{e['op'].removeprefix('aten.')}` {e['count']}: {e['reason']}" for e in row["fell_back"]]
    parts += [f"**{entry['message']}**".replace("|", "\\|") for entry in row["failed"]]
    return "; ".join(parts) or "nothing"


def with_products(row) -> bool:
    return row.get("products_ours", 0) > 0


def inductors(row, what: str) -> int | None:
    """What Inductor launches or moves; beside programs of ours with the library's calls, one launch each, whose bytes
    nobody counts."""
    if not with_products(row):
        return row["inductor"][what]
    return row["inductor"][what] + row["operators_library"] if what == "launches" else None


def moved(row, what: str) -> int:
    return row[what] + (2 * row["updated_bytes"] if what == "bytes" else 0)


def has_inductors(row) -> bool:
    return not row["inductor"]["errors"]


def beside(row, what: str) -> str:
    """Ours / Inductor's; a dash where it could not be counted."""
    theirs = inductors(row, what) if has_inductors(row) else None
    return f"{moved(row, what):,} / " + (f"{theirs:,}" if theirs is not None else "–")


def ratio(rows: list, what: str) -> str:
    """The geometric mean of ours ÷ Inductor's, of what both have."""
    pairs = [(moved(row, what), inductors(row, what)) for row in rows if has_inductors(row)]
    logs = [math.log(ours / theirs) for ours, theirs in pairs if ours and theirs]
    return f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else "–"


def library_of(row) -> str:
    """Products, convolutions and attentions, and how many of them are ours."""
    own = f", {row['products_ours']} ours" if with_products(row) else ""
    return f"{row['operators_library']}{own}"


def line(name: str, what: str, row) -> str:
    if "error" in row:
        return f"| {name} | {what} | | | | | | | | **{row['error']}** |"
    peak = " / ".join(f"{bytes / 1024:.0f}" for bytes in row["peak"])
    title = f"{what}, {row['optimizer']}" if "optimizer" in row else what
    return (
        f"| {name} | {title} | {row['operators']} | {library_of(row)} | {100 * share(row):.1f} % |"
        f" {beside(row, 'launches')} | {beside(row, 'bytes')} | {peak} | {errors(row)} | {reasons(row)} |"
    )


def totals(rows: list) -> str:
    """How many models were tried, and what share of their operators together is ours."""
    parts = []
    for what in ("forward", "training step"):
        tried = [row for of, row in rows if of == what and "error" not in row]
        known = sum(what == "forward" or of.optimizer is not None for of in MODELS.values())
        ours, rest = sum(row["operators_ours"] for row in tried), sum(map(others, tried))
        right = sum(not wrong(row) for row in tried)
        parts.append(
            f"{what}: {len(tried)} of {known} models, {right} within the bound, {100 * ours / max(1, ours + rest):.1f} % of"
            f" {ours + rest:,} operators ours, {sum(share(row) >= 0.98 for row in tried)} models with 98 % or more;"
            f" launches {ratio(tried, 'launches')} and bytes {ratio(tried, 'bytes')} of Inductor's"
        )
    failed = sum("error" in row for _, row in rows)
    return "**" + "; ".join(parts) + f"; {failed} rows failed.**"


def products_of(rows: list) -> str:
    """What share of products, convolutions and attentions is ours, where that was asked for."""
    ours, all_of_them = (
        sum(row[what] for *_, row in rows if "error" not in row) for what in ("products_ours", "operators_library")
    )
    return f"**{ours:,} of {all_of_them:,} products, convolutions and attentions are ours.**"


def text(log: dict, precision: str, products: str) -> str:
    rows = [(name, what, row) for name in MODELS if name in log for what, row in log[name]["rows"].items()]
    commits = ", ".join(sorted({entry["commit"] for entry in log.values()}))
    option = "" if precision == "float32" else f" --precision {precision}"
    option += "" if products == "torch" else f" --products {products}"
    library, without = "which stay PyTorch's calls", ", and without what it calls a library for"
    if products != "torch":
        library = "which are kernels of ours within programs (`products=\"ours\"`), as far as the column says so"
        without = "; its launches with what it calls a library for, one each, its bytes without, so that none are beside ours"
    command = f"scripts/test-python --run bench/pytorch/run.py{option} --write"
    about = provenance.about(command) | {"commit": commits}
    introduction = INTRODUCTION.format(command=command, precision=PRECISIONS[precision], library=library, without=without, version=torch.__version__)
    lines = [introduction, "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in about.items())]
    lines += ["", totals([(what, row) for _, what, row in rows]), ""]
    lines += [products_of(rows), ""] if products != "torch" else []
    lines += HEAD
    lines += [line(*row) for row in rows]
    return "\n".join(lines) + "\n"
