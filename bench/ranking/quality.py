"""How well predictions order candidates of one group: the figures of costmodel/ranking_quality.h, and one that leaves out
what a measurement cannot tell apart. A candidate is (predicted, measured, noise of the measured value as a share)."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from rank_correlation import ranks, spearman as rank_correlation  # noqa: E402,F401

# Candidates are apart where their measured times are by more than this, or by twice the noise of both.
APART = 0.02


def spearman(group):
    """0 where one of both has no order."""
    found = rank_correlation([each[0] for each in group], [each[1] for each in group])
    return 0.0 if math.isnan(found) else found


def apart(a, b):
    return abs(a[1] - b[1]) > max(APART * min(a[1], b[1]), 2 * math.hypot(a[2] * a[1], b[2] * b[1]))


def pairs(group):
    """(pairs that are apart, of them those that are predicted in the right order, kendall's tau-b). Pairs that are predicted
    to be equal count as half right."""
    count, right, concordant, ties_a, ties_b = 0, 0.0, 0, 0, 0
    for i, a in enumerate(group):
        for b in group[:i]:
            sign = (a[0] > b[0]) - (a[0] < b[0]), (a[1] > b[1]) - (a[1] < b[1])
            concordant += sign[0] * sign[1]
            ties_a += sign[0] == 0
            ties_b += sign[1] == 0
            if apart(a, b):
                count += 1
                right += (1 + sign[0] * sign[1]) / 2
    every = len(group) * (len(group) - 1) // 2
    both = math.sqrt((every - ties_a) * (every - ties_b))
    return count, right, concordant / both if both else 0.0


def regret(group, trials=1):
    """Best measured of the first predicted over the best of all, less 1."""
    first = sorted(group, key=lambda each: each[0])[:trials]
    return min(each[1] for each in first) / min(each[1] for each in group) - 1


def quality(groups):
    """Means over groups of at least two candidates; pairs are counted over all of them."""
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return None
    counted = [pairs(group) for group in groups]
    count = sum(each[0] for each in counted)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    return {"groups": len(groups), "candidates": sum(map(len, groups)),
            "spearman": mean([spearman(group) for group in groups]), "kendall": mean([each[2] for each in counted]),
            "pairs": count, "pairs_right": sum(each[1] for each in counted) / count if count else None,
            "regret": mean([regret(group) for group in groups]), "regret_5": mean([regret(group, 5) for group in groups]),
            "worst_regret": max(regret(group) for group in groups)}


def better(a, b):
    """Whether evidence `a` is better than `b` of the same candidates: less is lost with the first choice, or as much and more
    pairs are right."""
    if abs(a["regret"] - b["regret"]) > 1e-9:
        return a["regret"] < b["regret"]
    return (a["pairs_right"] or 0) > (b["pairs_right"] or 0)
