"""What became of each case: stitch's comparison, and for what differs the freedom of the other implementation that
explains it, if one does. explanations.json has the rules."""
import functools
import json
import pathlib
import re
import subprocess
import tempfile

import elements
from case_file import read_file

HERE = pathlib.Path(__file__).resolve().parent
VERDICTS = ["equal", "within", "explained", "unsupported", "refused", "wrong"]
# Of whole models, over the largest value of a result: bounds of deep graphs say little.
MOST_RELATIVE = {"f64": 1e-9, "f32": 2e-4, "f16": 4e-2, "bf16": 1.5e-1}


@functools.cache
def rules():
    return json.loads((HERE / "explanations.json").read_text())["rules"]


def compare(stitch, cases, template):
    """Rows of cases, in their order. A crash is a row of its own."""
    if not cases:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "cases.json"
        path.write_text(json.dumps(template | {"cases": cases}))
        done = subprocess.run([stitch, "conformance", "differential", path, "--json"], capture_output=True, text=True, check=False)
    if done.returncode in (0, 1):
        return json.loads(done.stdout)["cases"]
    if len(cases) == 1:
        return [{"case": cases[0]["name"], "subject": cases[0]["subject"], "outcome": "wrong", "graph": "none", "elements": 0, "unchecked": 0,
                 "most_relative": 0, "why": f"stitch ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}"}]
    half = len(cases) // 2
    return compare(stitch, cases[:half], template) + compare(stitch, cases[half:], template)


def holds(rule, row, part):
    """Whether a rule covers all that is wrong with a case."""
    wrong = row.get("wrong")
    if rule["part"] != part or not re.fullmatch(rule["cases"], row["case"]):
        return False
    if wrong is None:  # not a difference of numbers: an error of ours, which only a rule that names it may cover
        return "error" in rule and re.search(rule["error"], row.get("why", "")) is not None
    kinds = rule.get("kinds", [])
    if any(count and kind not in kinds for kind, count in wrong.items()):
        return False
    if "shape" in rule and not re.search(rule["shape"], row["why"]):
        return False
    if "most_ulps" not in rule and "most_relative" not in rule:
        return not wrong["number"] or bool(rule.get("any_number"))
    # One of the limits, where both are given: what cancels is far in ulps and near by the largest value.
    return row["most_ulps"] <= rule.get("most_ulps", -1) or row["most_relative"] <= rule.get("most_relative", -1)


def explain(row, part):
    return next((rule["id"] for rule in rules() if "cases" in rule and holds(rule, row, part)), None)


def flushed_agrees(stitch, case, template):
    """Whether the difference is that XLA takes subnormal operands for zeros: with such operands there is none."""
    inputs = [elements.document(elements.flushed(elements.array_of(tensor))) for tensor in case["inputs"]]
    if inputs == case["inputs"]:
        return False
    row = compare(stitch, [case | {"inputs": inputs}], template)[0]
    return row["outcome"] in ("equal", "within")


def onnx_reference_agrees(stitch, case, template):
    """Whether ONNX's own reference implementation gives what ours does."""
    import base64

    import numpy as np
    import onnx
    import onnx.reference
    model = onnx.load_from_string(base64.b64decode(case["model_base64"]))
    feeds = {tensor["name"]: elements.array_of(tensor) for tensor in case["inputs"]}
    try:
        results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        outputs = [elements.document(np.asarray(value)) for value in results]
        row = compare(stitch, [case | {"outputs": outputs}], template)[0]
    except Exception:  # whatever its operators raise: it has no answer then
        return False
    near = row["outcome"] == "wrong" and row.get("wrong", {}).get("number") and not sum(
        count for kind, count in row["wrong"].items() if kind != "number") and row["most_relative"] < 1e-6
    return row["outcome"] in ("equal", "within") or bool(near)


def least_type(case):
    order = ["bf16", "f16", "f32", "f64"]
    kinds = [tensor["type"] for tensor in case["inputs"] + case["outputs"] if tensor["type"] in order]
    return min(kinds, key=order.index, default="f64")


def judge_one(stitch, row, case, part, template):
    if row["outcome"] == "unsupported":
        return "unsupported", None
    if part == "models":
        return judge_model(row, case)
    if row["outcome"] != "wrong":
        return row["outcome"], None
    rule = explain(row, part)
    if rule:
        return "explained", rule
    if part == "hlo" and "wrong" in row and flushed_agrees(stitch, case, template):
        return "explained", "xla-subnormal-operands"
    if part == "onnx" and "wrong" in row and onnx_reference_agrees(stitch, case, template):
        return "explained", "onnx-reference"
    return "wrong", None


def judge_model(row, case):
    """Near by the largest value of each result; beyond the bounds only by what rounding makes of it."""
    if row.get("wrong") is None and row["outcome"] == "wrong":
        return "wrong", None
    special = sum(count for kind, count in row.get("wrong", {}).items() if kind in ("nan", "infinite"))
    if special or row["most_relative"] > MOST_RELATIVE[least_type(case)]:
        return "wrong", None
    return ("explained", "model-rounding") if row["outcome"] == "wrong" else (row["outcome"], None)


def judge_file(stitch, path, part, wanted):
    """Rows of a file's cases with their verdicts, and those that the other implementation refused."""
    document = read_file(path)
    template = {key: value for key, value in document.items() if key not in ("cases", "refused")}
    cases = [case for case in document["cases"] if wanted in case["name"]]
    rows = compare(stitch, cases, template)
    for row, case in zip(rows, cases):
        row["verdict"], row["explanation"] = judge_one(stitch, row, case, part, template)
        row["file"] = path.name
    subject = cases[0]["subject"] if cases else path.name.removesuffix(".json.gz")
    rows += [{"case": one["name"], "subject": subject, "verdict": "refused", "explanation": None, "graph": "none", "why": one["why"],
              "elements": 0, "unchecked": 0, "file": path.name} for one in document["refused"] if wanted in one["name"]]
    return rows
