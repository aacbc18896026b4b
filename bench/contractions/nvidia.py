#!/usr/bin/env python3
"""Asks NVIDIA's analytical model of matrix products, PyPI's nvidia-matmul-heuristics, about every problem: no GPU is needed.

    pip install nvidia-matmul-heuristics==0.1.0.27    into the Python that runs this: its own licence; nothing of Stitch links it
    bench/contractions/nvidia.py                      writes bench/contractions/nvidia.json (seconds)
    bench/contractions/nvidia.py --only NAMES         problems whose names contain this; prints only

Of every problem, GPU and back end it stores the package's list of configurations in its order, each with its estimate in µs,
and the one of the least estimate. README.md says what discovery is, and how a layout is named. Everything here but the class
Library works without the package.
"""
import argparse
import ctypes
import importlib.metadata
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ASKED = 12
FLAGS = "PERF_MODEL_BASED_AUTO_TUNING"
# Our name: theirs, and its back ends: CUTLASS is version 2 (mma.sync, the instruction of our kernels), CUTLASS3 has wgmma.
GPUS = {
    "a100-80gb": ("A100_SXM_80GB", ("CUTLASS",)),
    "rtx3090": ("RTX_3090", ("CUTLASS",)),
    "l4": ("L4", ("CUTLASS",)),
    "rtx4090": ("RTX_4090", ("CUTLASS",)),
    "h100": ("H100_SXM", ("CUTLASS3", "CUTLASS")),
    "h200": ("H200_SXM", ("CUTLASS3", "CUTLASS")),
}
# Their letters: operands, sums, result. H f16, T bf16, S f32, B s8, I s32; Q f8e4m3, of each of A, B, C, sums and D.
PRECISIONS = {("f16", "f16"): "HSH", ("bf16", "bf16"): "TST", ("f32", "f32"): "SSS", ("s8", "s32"): "BII",
              ("f8e4m3", "f16"): "QQHSH"}
# Asked elsewhere, it answers for CUDA cores, which have no such products.
F8 = {("l4", "CUTLASS"), ("rtx4090", "CUTLASS"), ("h100", "CUTLASS3"), ("h200", "CUTLASS3")}


def precision_of(problem):
    return PRECISIONS[problem["dtype"], problem["result"]]


def layout_of(problem):
    """As NVIDIA's CUTLASS calls it: T for operands that lie row by row, N for those column by column."""
    return "".join("T" if problem[side] == "plain" else "N" for side in ("left", "right")) + "_ROW_MAJOR"


def turned(problem):
    """(m, n, layout) of the same product as one whose result lies column by column: the operands change places."""
    first, second = ("T" if problem["right"] == "turned" else "N"), ("T" if problem["left"] == "turned" else "N")
    return problem["n"], problem["m"], f"{first}{second}_COL_MAJOR"


# Theirs with ctaOrder 0 walks along N, `gridSwizzle` rows of tiles together, as ours does with `group`; with 1 along M.
ALONG_N, ALONG_M = 0, 1


def kernel_of(tile, result="rows"):
    """A tile of ours (`tile` of `stitch contractions --json`) as the fields of their nvmmhKernelConfiguration, but `instr`;
    `result`: "rows" for a problem that they know by layout_of, "columns" for one by `turned`, whose M are our columns. A
    warp multiplies all of a tile's depth."""
    (rows, columns, depth), (warp_rows, warp_columns) = tile["block"], tile["warp"]
    by_rows = result == "rows"
    return {"cta": [rows, columns, depth] if by_rows else [columns, rows, depth],
            "warp": [warp_rows, warp_columns, depth] if by_rows else [warp_columns, warp_rows, depth],
            "cluster": [1, 1], "loadStages": tile["stages"], "splitK": tile["split"], "gridSwizzle": tile["group"],
            "ctaOrder": ALONG_N if by_rows else ALONG_M}


def tile_of(kernel, result="rows"):
    """The tile of ours that is meant by such fields; None where ours have no such kernel: clusters (ours are of tensor copies
    and no part of a tile), warps that share a tile's depth, or a walk along what are rows of ours."""
    cta, warp = kernel["cta"], kernel["warp"]
    walk = ALONG_N if result == "rows" else ALONG_M
    if kernel["cluster"] != [1, 1] or warp[2] != cta[2] or kernel["ctaOrder"] != walk:
        return None
    turn = slice(None) if result == "rows" else slice(None, None, -1)
    return {"block": [*cta[:2][turn], cta[2]], "warp": warp[:2][turn], "stages": kernel["loadStages"],
            "split": kernel["splitK"], "group": kernel["gridSwizzle"]}


def questions(problems):
    """(our GPU, back end, problem) of everything that is asked, in the order of the file."""
    for gpu, (_, backends) in GPUS.items():
        for backend in backends:
            for problem in problems:
                if problem["dtype"] != "f8e4m3" or (gpu, backend) in F8:
                    yield gpu, backend, problem


class Library:
    """The package for one GPU and back end, with its discovery set or without."""

    def __init__(self, gpu, backend, discovery):
        import nvMatmulHeuristics as package  # a user's own: README.md

        self.package, self.discovery, self.loaded = package, discovery, {}
        # Discovery sets are loaded below: what the class does by itself takes any error for success.
        self.handle = package.NvMatmulHeuristicsInterfaceEx(
            backend=package.NvMatmulHeuristicsTarget[backend], flags=package.NvMatmulHeuristicsFlags[FLAGS],
            gpu=package.NvMatmulHeuristicsNvidiaGpu[GPUS[gpu][0]], load_discovery_implicitly=False)

    def has_discovery(self, problem):
        """Loads the set of the problem's types and layout; whether all of it is there."""
        precision, layout = precision_of(problem), layout_of(problem)
        if self.discovery and (precision, layout) not in self.loaded:
            status = self.handle.nvMatmulHeuristicsLoadInternalDiscoverySet(
                self.handle.handle, precision.encode(), ctypes.c_int(self.handle.target),
                ctypes.c_int(self.package.NvMatmulHeuristicsMatmulLayout[layout]), self.handle.hardware_descriptor)
            self.loaded[precision, layout] = status == 1  # NVMMH_STATUS_SUCCESS; 2: some or all of it is missing
        return self.loaded.get((precision, layout), False)

    def theirs(self, problem):
        return self.handle.makeNvMatmulHeuristicsProblem(
            problem["m"], problem["n"], problem["k"], self.package.NvMatmulHeuristicsMatmulLayout[layout_of(problem)],
            problem["batch"])

    def ranked(self, problem, count=ASKED):
        """[(configuration, µs)] in its order, which is not that of its estimates."""
        self.has_discovery(problem)
        answers = self.handle.get(self.theirs(problem), count, precision=precision_of(problem))
        return [(configuration_of(answer["kernel"]), round(answer["runtime"] * 1e6, 2)) for answer in answers
                if answer["runtime"] > 0]

    def estimate(self, problem, tile):
        """Of a tile of ours (`tile` of `stitch contractions --json`) in µs; None where it has no estimate of such a one."""
        self.has_discovery(problem)
        own = self.handle.get(self.theirs(problem), 1, precision=precision_of(problem))
        if not own:
            return None
        kernel = self.handle.nvmmhKernelConfiguration()
        kernel.instr[:] = own[0]["nvmmhKernelConfiguration"].instr[:]
        for field, value in kernel_of(tile).items():
            if isinstance(value, list):
                getattr(kernel, field)[:] = value
            else:
                setattr(kernel, field, value)
        # Not by the class's estimateRuntime, which calls a method that 0.1.0.27 lacks.
        seconds = self.handle.nvMatmulHeuristicsEstimateRuntime(
            self.handle.handle, precision_of(problem).encode(), ctypes.c_int(self.handle.target),
            ctypes.byref(self.theirs(problem)), ctypes.byref(kernel), self.handle.hardware_descriptor)
        return seconds * 1e6 if seconds > 0 else None


def version():
    return importlib.metadata.version("nvidia-matmul-heuristics")


def configuration_of(kernel):
    return {"block": [kernel.cta_tile_m, kernel.cta_tile_n, kernel.cta_tile_k],
            "warp": [kernel.warp_tile_m, kernel.warp_tile_n, kernel.warp_tile_k],
            "instruction": [kernel.instr_tile_m, kernel.instr_tile_n, kernel.instr_tile_k], "stages": kernel.stages,
            "split": kernel.split_k, "cluster": [kernel.cluster_m, kernel.cluster_n], "swizzle": kernel.swizzle_factor,
            "order": kernel.cta_order}


def least(ranked):
    return min(ranked, key=lambda each: each[1])


def answers(problems):
    """A row per question; configurations are spelled out. `bare` only where discovery makes a difference."""
    libraries = {}
    for gpu, backend, problem in questions(problems):
        if (gpu, backend) not in libraries:
            libraries = {(gpu, backend): (Library(gpu, backend, True), Library(gpu, backend, False))}
        informed, bare = libraries[gpu, backend]
        ranked = informed.ranked(problem)
        row = {"name": problem["name"], "gpu": gpu, "backend": backend, "discovery": informed.has_discovery(problem),
               "ranked": ranked, "best": least(ranked)}
        if row["discovery"]:
            row["bare"] = least(bare.ranked(problem))
        yield row


def text_of(rows, about):
    """One line per configuration, which rows call by its place in the list, and one per row."""
    places = {}

    def short(configuration, us):
        return [places.setdefault(json.dumps(configuration, sort_keys=True), len(places)), us]

    lines = []
    for row in rows:
        shortened = row | {"ranked": [short(*each) for each in row["ranked"]]}
        shortened |= {key: short(*row[key]) for key in ("best", "bare") if key in row}
        lines.append(json.dumps(shortened, sort_keys=True, separators=(",", ":")))
    return "{%s,\n\"configurations\": [\n%s\n],\n\"answers\": [\n%s\n]}\n" % (
        json.dumps({"about": about}, sort_keys=True)[1:-1], ",\n".join(places), ",\n".join(lines))


def read(path=HERE / "nvidia.json"):
    """(about, rows) with configurations spelled out again."""
    document = json.loads(path.read_text())
    table = document["configurations"]
    for row in document["answers"]:
        row["ranked"] = [(table[place], us) for place, us in row["ranked"]]
        for key in ("best", "bare"):
            if key in row:
                row[key] = (table[row[key][0]], row[key][1])
    return document["about"], document["answers"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    problems = [p for p in json.loads((HERE / "problems.json").read_text()) if options.only in p["name"]]
    about = {"package": "nvidia-matmul-heuristics " + version(), "flags": FLAGS, "asked": ASKED,
             "gpus": {ours: [theirs, *backends] for ours, (theirs, backends) in GPUS.items()},
             "what": "estimates of NVIDIA's model in us, no measurements; best and bare: [configuration, us] of the least"}
    text = text_of(answers(problems), about)
    if options.only:
        sys.stdout.write(text)
    else:
        (HERE / "nvidia.json").write_text(text)


if __name__ == "__main__":
    main()
