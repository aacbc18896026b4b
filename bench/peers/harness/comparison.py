"""How far a result is from the float64 reference, in units of what is allowed (above 1: wrong)."""
import json
import pathlib

import numpy as np


def save(folder, results):
    """Writes a reference; the last file says how many there are, so that a half-written one is none."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for place, result in enumerate(results):
        np.save(folder / f"{place}.npy", result)
    (folder / "complete.json").write_text(json.dumps({"results": len(results)}))


def load(folder):
    folder = pathlib.Path(folder)
    count = json.loads((folder / "complete.json").read_text())["results"]
    return [np.load(folder / f"{place}.npy", mmap_mode="r") for place in range(count)]


def worst(pairs, allowed, library):
    """The largest |result - reference| / (allowed · (|reference| + rms(reference))) over pairs of flat tensors, both
    float64 and of one library (torch, or jax.numpy); infinite where one is not finite and the other is."""
    largest = 0.0
    for (result, reference), share in zip(pairs, allowed, strict=True):
        scale = library.sqrt((reference * reference).mean())
        bound = share * (library.abs(reference) + scale) + 1e-300
        error = library.where(result == reference, 0.0, library.abs(result - reference) / bound)
        value = float(error.max())
        largest = max(largest, value) if value == value else float("inf")
    return largest


def verdict(value):
    # JSON has no infinity.
    return {"correct": value <= 1.0, "worst": round(min(value, 1e30), 4)}
