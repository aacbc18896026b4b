"""The part of the cases that every test run compares, without jax and onnxruntime: tests/data/differential."""
import case_file

CASES_OF = {"hlo": 8, "onnx": 5, "models": 1}  # of each opcode, operator, model
MOST_LETTERS = {"hlo": 6000, "onnx": 6000, "models": 40000}


def letters(case):
    return sum(len(tensor["data"]) for tensor in case["inputs"] + case["outputs"]) + len(case.get("model", case.get("model_base64", "")))


def chosen(cases, good, part):
    """Some of the right cases of a file, spread over it."""
    small = [case for case in cases if case["name"] in good and letters(case) <= MOST_LETTERS[part]]
    count = min(CASES_OF[part], len(small))
    return [small[i * len(small) // count] for i in range(count)]


def write(work, judged, folder):
    """Files of the implementations' cases: hlo.json.gz, onnx.json.gz, models_hlo.json.gz, models_onnx.json.gz."""
    picked, heads = {}, {}
    for part, rows in judged.items():
        good = {row["case"] for row in rows if row["verdict"] in ("equal", "within")}
        for name in dict.fromkeys(row["file"] for row in rows):
            document = case_file.read_file(work / part / name)
            target = part if part != "models" else f"models_{name.split('.', 1)[0]}"
            heads.setdefault(target, {key: value for key, value in document.items() if key not in ("cases", "refused")})
            picked.setdefault(target, []).extend(chosen(document["cases"], good, part))
    for target, cases in picked.items():
        if cases:
            case_file.write_document(folder / f"{target}.json.gz", heads[target] | {"cases": cases})
