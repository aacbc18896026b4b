"""Plans the HLO models of bench/models and fails where the predictions are worse beside XLA's launches and bytes than
bench/models/tuned.py allows: for one model, or in the geometric mean. Nothing is compiled.

    beside_xla.py --stitch build/release/bin/stitch
"""
import argparse
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/models"))
import tuned


def verdict(results, figures):
    """What is wrong, a line each, and the geometric mean."""
    lines = [f"{name}: {result['error']}" for name, result in results.items() if "error" in result]
    lines += [f"{name}: {why}" for name, result in results.items()
              if (why := tuned.slower_than_xla(name, result, figures.get(name, {})))]
    ratios = [ratio for name, result in results.items() if (ratio := tuned.beside_xla(result, figures.get(name, {})))]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    if not round(mean, 2) <= tuned.MEAN_BESIDE_XLA:
        lines.append(f"{mean:.3f} in the geometric mean of {len(ratios)} models, more than {tuned.MEAN_BESIDE_XLA}")
    return lines, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", required=True)
    parser.add_argument("--timeout", default=300, type=float)
    options = parser.parse_args()
    results = {tuned.name_of(path): tuned.run(options.stitch, "plan", path, [], options.timeout)
               for kind, path in tuned.paths() if kind == "hlo"}
    lines, mean = verdict(results, tuned.xla_figures())
    print("\n".join([*lines, f"{mean:.3f} of XLA's rough time in the geometric mean of {len(results)} models"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
