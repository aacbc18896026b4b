"""That no model of bench/models needs more memory as a program than operators that run one at a time do.

    program_memory.py --stitch build/release/bin/stitch

Planned, not measured, as bench/programs/measure has it: nothing is compiled or run. The arena and the memory of results
count on our side, all values between and results on the other. Models that need more are named here, with a reason and
with what they need; one that comes to need less than that, or that is named without need, fails too, so that the list
stays true.
"""
import argparse
import importlib.machinery
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Model → (our peak ÷ eager's, rounded up to 0.001; why).
ABOVE: dict = {}
ROUNDING = 0.001


def measure():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("programs_measure", str(ROOT / "bench/programs/measure"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("programs_measure", loader))
    loader.exec_module(module)
    return module


def problem(row):
    """What is wrong with a model's row; nothing: it is as it should be."""
    if "failure" in row:
        return f"no program: {row['failure']}"
    share = (row["arena_bytes"] + row["result_bytes"]) / max(1, row["eager_peak_bytes"])
    most, why = ABOVE.get(row["model"], (1, ""))
    if share > most:
        return f"{share:.4f} of eager's peak, {most} at most{': ' + why if why else ''}"
    if most > 1 and share <= most - 2 * ROUNDING:
        return f"{share:.4f} of eager's peak by now: the list says {most}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", required=True, type=pathlib.Path)
    parser.add_argument("--timeout", default=300, type=float, help="seconds for one model")
    options = parser.parse_args()
    programs = measure()
    paths = programs.models("")
    rows = [programs.outline(options, path) for path in paths]
    problems = [f"{row['model']}: {why}" for row in rows if (why := problem(row))]
    problems += [f"{model}: there is no such model" for model in ABOVE.keys() - {row["model"] for row in rows}]
    print("\n".join(problems) or f"{len(rows)} models, {len(ABOVE)} of them named as above eager's peak")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
