"""bench/results/differential.md."""
import collections
import importlib.metadata
import platform
import sys

import judge

sys.path.insert(0, str(judge.HERE.parent))
import provenance

TITLES = {"hlo": "HLO by opcode, against XLA's CPU backend", "onnx": "ONNX by operator, against onnxruntime", "models": "Whole models"}
COLUMNS = ["equal", "within", "explained", "unsupported", "refused", "wrong"]
HEAD = """# Our importers and reference beside XLA and onnxruntime

Written by `bench/differential/run`: cases drawn at random ([README](../differential/README.md)), their results by the other implementation, and what the reference evaluator says of the same model and inputs. Nothing of it is a time, and nothing ran on a GPU.

*Equal*: every element is the reference's, rounded to its type. *Within*: some are not, and those are within the reference's bounds, that is, where a correct kernel may be. *Explained*: beyond that, for a reason that is named below and within the limits that [explanations.json](../differential/explanations.json) gives it. *Unsupported*: stays a boundary here, or is an error that says so. *Refused*: the other implementation does not take it. *Wrong*: none of these. Graphs are compared as imported and, where that is right, again as simplified.
"""


def versions():
    names = ["jax", "jaxlib", "onnx", "onnxruntime", "numpy", "ml_dtypes"]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names) + f"; Python {platform.python_version()}"


def table(rows):
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row["subject"]][row["verdict"]] += 1
        counts[row["subject"]]["elements"] += row["elements"]
        counts[row["subject"]]["unchecked"] += row["unchecked"]
    lines = ["| | cases | " + " | ".join(COLUMNS) + " | elements | not checked |", "|---" * (len(COLUMNS) + 4) + "|"]
    for subject, count in sorted(counts.items(), key=lambda item: item[0].lower()):
        cells = [str(count[verdict] or "") for verdict in COLUMNS]
        total = sum(count[verdict] for verdict in COLUMNS)
        lines.append(f"| {subject} | {total} | " + " | ".join(cells) + f" | {count['elements']} | {count['unchecked'] or ''} |")
    total = collections.Counter(row["verdict"] for row in rows)
    lines.append(f"| **all** | **{len(rows)}** | " + " | ".join(f"**{total[v]}**" if total[v] else "" for v in COLUMNS)
                 + f" | {sum(row['elements'] for row in rows)} | {sum(row['unchecked'] for row in rows) or ''} |")
    return "\n".join(lines)


def reasons(rows, verdict):
    """Why, with how often and one example."""
    groups = collections.defaultdict(list)
    for row in rows:
        if row["verdict"] == verdict:
            words = row.get("why", "").replace("|", "\\|").replace("\n", " ")
            groups[(row["subject"], words[:160])].append(row["case"])
    return "\n".join(f"* {len(cases)} × `{cases[0]}`: {why}" for (_, why), cases in sorted(groups.items()))


def text(judged, lost):
    facts = provenance.about("bench/differential/run")
    parts = [HEAD, f"{facts['machine']}, {facts['date']}, commit {facts['commit']}. {versions()}.\n"]
    every = [row for rows in judged.values() for row in rows]
    for part, rows in judged.items():
        parts.append(f"## {TITLES[part]}\n\n{table(rows)}\n")
    used = collections.Counter(row["explanation"] for row in every if row["explanation"])
    lines = [f"* **{rule['id']}** ({used[rule['id']]} cases): {rule['why']}" for rule in judge.rules() if used[rule["id"]]]
    parts.append("## Explained\n\n" + "\n".join(lines) + "\n")
    for verdict, title in (("wrong", "Wrong"), ("unsupported", "Unsupported")):
        listed = reasons(every, verdict)
        parts.append(f"## {title}\n\n{listed or 'None.'}\n")
    if lost:
        parts.append("## Lost\n\nThe other implementation ended its process.\n\n" + "\n".join(f"* `{one['name']}`: {one['why']}" for one in lost) + "\n")
    return "\n".join(parts)
