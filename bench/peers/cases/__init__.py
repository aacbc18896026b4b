"""The table of all cases. A family's file lists its own; the order here is the order of the report."""
from . import (activations, embeddings, losses, models, norms, optimizers, recurrent, residuals, rotary, softmax, sums)
from .case import Case, Input, dtype_name, leaves, numpy_dtype, tree

__all__ = ["CASES", "Case", "Input", "by_name", "chosen", "dtype_name", "leaves", "numpy_dtype", "spread", "tree"]

CASES = [case for family in (norms, softmax, losses, activations, residuals, rotary, optimizers, embeddings, recurrent,
                             sums, models) for case in family.CASES]

names = [case.name for case in CASES]
if len(set(names)) != len(names):
    raise ValueError("two cases have one name: " + ", ".join(sorted({n for n in names if names.count(n) > 1})))


def by_name(name):
    for case in CASES:
        if case.name == name:
            return case
    raise KeyError(f"no case '{name}'")


def chosen(part=""):
    """The cases whose name contains one of the comma-separated parts."""
    return [case for case in CASES if any(each in case.name for each in part.split(","))]


def spread(cases):
    """The first case of every family, then the second, …: a run that is cut short has seen something of everything."""
    families = {}
    for case in cases:
        families.setdefault(case.family, []).append(case)
    longest = max(map(len, families.values()), default=0)
    return [group[n] for n in range(longest) for group in families.values() if n < len(group)]
