"""The table of all cases of the matmul class, as bench/peers' table of its own."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "peers"))

from cases import dtype_name, leaves, numpy_dtype, spread, tree  # noqa: E402

from . import attentions, convolutions, layers, low_precision, products  # noqa: E402
from .case import PACKAGES, RivalCase, Way  # noqa: E402

__all__ = ["CASES", "PACKAGES", "RivalCase", "Way", "by_name", "chosen", "dtype_name", "leaves", "numpy_dtype", "spread",
           "tree"]

CASES = [case for family in (products, layers, attentions, convolutions, low_precision) for case in family.CASES]

names = [case.name for case in CASES]
if len(set(names)) != len(names):
    raise ValueError("two cases have one name: " + ", ".join(sorted({n for n in names if names.count(n) > 1})))


def by_name(name):
    return next(case for case in CASES if case.name == name)


def chosen(part=""):
    """The cases whose name contains one of the comma-separated parts."""
    return [case for case in CASES if any(each in case.name for each in part.split(","))]
