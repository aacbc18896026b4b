"""Tunes one model of bench/models as a user would, and fails when any kernel that was generated for it is wrong.

    tune_model.py hlo/llama_decode.hlo.txt.gz --stitch build/release/bin/stitch --cache build/release/model-kernels

Half of the models and fragments, drawn by the commit's hash, are tuned in one test run (bench/models/tuned.py); the others
are only planned (exit status 77) unless STITCH_MODELS=all is set. A plan that is predicted to take more than three
times what its launches and bytes would fails, and so does a kernel that spills registers in a loop, unless
bench/models/tuned.py says why. The inputs' seed follows from the commit (STITCH_MODELS_SEED: another one).
"""
import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/models"))
import tuned
SKIPPED = 77


def commit():
    """Empty where there is no repository: then always the same half."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--stitch", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--threads", default=1, type=int)
    parser.add_argument("--timeout", default=1500, type=float)
    options = parser.parse_args()
    path = tuned.HERE / options.model
    kind, name, at = path.parent.name, tuned.name_of(path), commit()
    if os.environ.get("STITCH_MODELS") != "all" and not tuned.is_drawn(at, kind, name):
        if why := tuned.slow_plan(kind, name, tuned.run(options.stitch, "plan", path, [], options.timeout)):
            print(f"{kind}/{name}: {why}")
            return 1
        print(f"{kind}/{name} is not drawn at commit {at[:12]}: only planned; STITCH_MODELS=all tunes every model")
        return SKIPPED
    seed = int(os.environ.get("STITCH_MODELS_SEED") or tuned.seed_of(at))
    faults = pathlib.Path(options.cache) / "faults"
    result = tuned.run(options.stitch, "tune", path, ["--cache", options.cache, "--seed", str(seed), "--faults", str(faults),
                                                      "--threads", str(options.threads)], options.timeout)
    why = tuned.problem(result, tuned=True) or tuned.slow_plan(kind, name, result) or tuned.spilling(kind, name, result)
    if why:
        print(f"{kind}/{name}, seed {seed}: {why}")
        for line in result.get("wrong_candidates", []) + result.get("failures", []):
            print(f"  {line}")
        for key in result.get("fault_fragments", []):
            print(f"  {faults / key}.json")
        return 1
    print(f"{kind}/{name}, seed {seed}: {result['verified']['kernels']} kernels right in {result['wall']:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
