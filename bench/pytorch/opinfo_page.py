"""bench/results/opinfo.md out of the log of opinfo.py."""

import provenance
import torch


def names() -> list[str]:
    from opinfo_trial import operators

    return list(operators())


def introduction(samples: int) -> str:
    return f"""# PyTorch's operators through the back end

Made by `scripts/test-python --run bench/pytorch/opinfo.py --write` ([docs/pytorch.md](../../docs/pytorch.md)): of each
operator of OpInfo's ({torch.__version__}) the first {samples} samples in f32, or s64 or pred where it has no f32, and
the gradients of one, compiled for the emulated device and beside eager. *Wrong*: neither eager's within 1e-4 of the
value, nor within 8 × eager's own distance from float64. *Ours* is the share of operators of core ATen, without views,
products, convolutions and attention (*library*), that became our kernels; *eager* counts pieces whose plan did not come.
Samples that eager itself refuses are left out.
"""


def others(row) -> int:
    return sum(entry["count"] for entry in row["fell_back"])


def share(row) -> float | None:
    counted = row["operators_ours"] + others(row)
    return row["operators_ours"] / counted if counted else None


def verdict(row) -> str:
    """A row in a few words."""
    if "error" in row:
        return "ERROR " + row["error"]
    words = f"{row['samples']} samples" + ("" if share(row) is None else f", {100 * share(row):.0f} % ours")
    for kind in ("wrong", "crashed"):
        if row[kind]:
            words += f", {len(row[kind])} {kind.upper()}: {row[kind][0]}"
    if row["failed"]:
        words += f", failed: {row['failed'][0]['message'][:200]}"
    return words


def reasons(row) -> str:
    parts = [f"**{kind}**: {text}" for kind in ("wrong", "crashed") for text in row[kind][:1]]
    parts += [f"`{e['op'].removeprefix('aten.')}` {e['count']}: {e['reason']}" for e in row["fell_back"]]
    parts += [entry["message"] for entry in row["failed"]]
    return "; ".join(parts).replace("|", "\\|").replace("\n", " ")


def line(name: str, row) -> str:
    if "error" in row:
        return f"| {name} | | | | | | | **{row['error']}** |"
    ours = "" if share(row) is None else f"{100 * share(row):.0f} %"
    return (
        f"| {name} | {row['samples']} | {len(row['wrong'])} | {len(row['crashed'])} | {ours} |"
        f" {row['operators_library']} | {row['eager_calls']} | {reasons(row)} |"
    )


def totals(rows: list, known: int) -> str:
    tried = [row for row in rows if "error" not in row and row["samples"]]
    counted = [row for row in tried if share(row) is not None]
    ours, rest = sum(row["operators_ours"] for row in tried), sum(map(others, tried))
    return (
        f"**Of {known} operators {len(rows)} were tried, {len(tried)} with samples, {sum(row['samples'] for row in tried)}"
        " of them:"
        f" {sum(len(row['wrong']) for row in tried)} wrong, {sum(len(row['crashed']) for row in tried)} crashed;"
        f" {sum('error' in row for row in rows)} operators whose process ended or hung. Of {ours + rest:,} operators of"
        f" core ATen {100 * ours / max(1, ours + rest):.1f} % are ours; {sum(share(row) == 1 for row in counted)} of"
        f" {len(counted)} OpInfo operators run in our kernels altogether, {sum(share(row) == 0 for row in counted)} not"
        " at all.**"
    )


def text(log: dict, samples: int) -> str:
    known = names()
    rows = {name: log[name]["row"] for name in known if name in log}
    commits = ", ".join(sorted({log[name]["commit"] for name in rows}))
    about = provenance.about("scripts/test-python --run bench/pytorch/opinfo.py --write") | {"commit": commits}
    lines = [introduction(samples), "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in about.items())]
    lines += ["", totals(list(rows.values()), len(known)), ""]
    lines += ["| operator | samples | wrong | crashed | ours | library | eager | what stays with PyTorch |"]
    lines += ["|---|---|---|---|---|---|---|---|", *(line(name, row) for name, row in rows.items())]
    return "\n".join(lines) + "\n"
