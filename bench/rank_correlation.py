"""Spearman's rank correlation, as costmodel/ranking_quality.h has it, for those who compare predictions in Python."""
import math


def ranks(values):
    """Places from the least on; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    places, first = [0.0] * len(values), 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for at in order[first:last + 1]:
            places[at] = (first + last) / 2
        first = last + 1
    return places


def spearman(a, b):
    """Correlation of the ranks; not a number where one of both has no order."""
    x, y = ranks(a), ranks(b)
    middle = (len(x) - 1) / 2
    squares = sum((p - middle) ** 2 for p in x) * sum((q - middle) ** 2 for q in y)
    return sum((p - middle) * (q - middle) for p, q in zip(x, y)) / math.sqrt(squares) if squares else math.nan
