"""Kernels of XLA's own GPU compiler, compiled for an H100 without one, as bench/models/generate/xla_figures.py does it: modules of
the kinds of bench/models, small enough for an emulated device. Each kernel that XLA launches is a corpus entry of its own; what it
must compute is its HLO on XLA's CPU backend."""
import glob
import importlib.metadata
import os
import re
import sys
import tempfile

os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"--xla_gpu_cuda_data_dir={os.environ.get('CUDA_HOME', '/usr/local/cuda')} --xla_gpu_autotune_level=0"
import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

import corpus as corpora
import xla_cases
from xla_module import DTYPES, Buffers, Module, Reference, leaves, xla_figures

MOST_BYTES = 1 << 20  # of a kernel's buffers together; larger ones would take the emulated device long
MOST_DATA = 256       # elements of an input that is kept as it was instead of made anew
TOLERANCE = {"f64": (1e-10, 1e-12), "f32": (1e-4, 2e-5), "f16": (4e-3, 2e-3), "bf16": (3e-2, 1e-2)}


class Input:
    """Contents that anybody can make again, within the range of the values that the module itself has there."""

    def __init__(self, leaf, seed, seen):
        low, high = -2.0, 2.0
        self.whole = np.dtype(DTYPES[leaf.dtype]).kind in "iub"
        if self.whole:
            low, high = 0, 8
        flat = None if seen is None else leaf.to_buffer(seen)
        kept = flat is not None and flat.size <= MOST_DATA and self.whole
        if flat is not None and flat.size and not kept:
            wide = flat.astype(np.float64)
            finite = wide[np.isfinite(wide)] if not self.whole else wide
            low, high = (float(finite.min()), float(finite.max())) if finite.size else (low, high)
            low, high = (int(low), int(high) + 1) if self.whole else (low, max(high, low + 2.0 ** -6))
        if kept:
            self.flat = flat
            self.text = f"data:{leaf.dtype}[{flat.size}]:{corpora.encode(flat.tobytes())}"
            return
        self.text = f"random:{leaf.dtype}[{leaf.count}]:seed={seed}"
        if leaf.dtype == "pred":
            self.flat = (corpora.mix(seed, np.arange(leaf.count)) >> np.uint64(40) & np.uint64(1)).astype(np.bool_)
            return
        self.text += f":low={low}:high={high}"
        if self.whole:
            self.flat = corpora.random_integers(leaf.count, seed, low, high, DTYPES[leaf.dtype])
        elif leaf.dtype == "f64":
            unit = (corpora.mix(seed, np.arange(leaf.count)) >> np.uint64(40)).astype(np.float64) / (1 << 24)
            self.flat = low + (high - low) * unit
        else:
            self.flat = corpora.random(leaf.count, seed, low, high).astype(DTYPES[leaf.dtype])


class Compiled:
    """One module, with what the compiler dumped of it."""

    def __init__(self, name, function, arguments, place):
        self.name = name
        with tempfile.TemporaryDirectory() as folder:
            placed = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place), arguments)
            lowered = jax.jit(function).trace(*placed).lower(lowering_platforms=("cuda",))
            lowered.compile(compiler_options={"xla_dump_to": folder, "xla_dump_hlo_as_text": True, "xla_dump_large_constants": True})
            read = lambda end: "".join(open(f).read() for f in sorted(glob.glob(f"{folder}/*{end}")))
            self.module = Module(read("gpu_after_optimizations.txt"))
            self.buffers = Buffers(read("after_optimizations-buffer-assignment.txt"), self.module)
            self.thunks = read("thunk_sequence.txt")
            self.ptx = [open(f).read() for f in sorted(glob.glob(f"{folder}/*.ptx"))]
        self.values = {}

    def launches(self):
        """Entry, grid, block, bytes of shared memory."""
        pattern = r"\] ([\w.\-]+) grid: \[([\d, ]+)\] threads: \[([\d, ]+)\]\s+shared_memory: (\d+) bytes(?:.*?cluster[^\[]*\[([\d, ]+)\])?"
        sizes = lambda text: [int(x) for x in text.split(",")] if text else None
        return [(m[0], sizes(m[1]), sizes(m[2]), int(m[3]), sizes(m[4])) for m in re.findall(pattern, self.thunks)]

    def seen(self, owner, name):
        """What an instruction of the entry computes in the reference, for inputs of range [-2, 2]; None: not known."""
        if (owner, name) not in self.values:
            self.values[owner, name] = self.evaluate(owner, self.module.computations[owner][name])
        return self.values[owner, name]

    def evaluate(self, owner, i):
        shapes = leaves(i.shape)
        if any(s.dtype not in DTYPES for s in shapes) or owner != self.module.entry:
            return None
        if i.op == "parameter":
            return [shapes[0].from_buffer(Input(shapes[0], 1000 + len(self.values), None).flat)]
        if i.op == "get-tuple-element":
            whole = self.seen(owner, i.operands[0])
            return whole and [whole[int(re.search(r"index=(\d+)", i.rest)[1])]]
        operands = [self.seen(owner, o) for o in dict.fromkeys(i.operands)]
        if i.op in ("while", "conditional", "custom-call", "call") or any(o is None for o in operands):
            return None
        if i.op == "tuple":
            return [self.seen(owner, o)[0] for o in i.operands]
        if i.op == "bitcast":
            source = leaves(self.module.computations[owner][i.operands[0]].shape)[0]
            flat = source.to_buffer(operands[0][0])
            return [shapes[0].from_buffer(flat.view(DTYPES[shapes[0].dtype]))]
        try:
            return Reference(self.module.isolated(owner, i))([o[0] for o in operands])
        except Exception:
            return None

    def add_to(self, corpus, most, known):
        by_kernel = {}
        for owner in self.module.launching():
            for i in self.module.computations[owner].values():
                by_kernel.setdefault(re.sub(r"[.\-]", "_", i.name), (owner, i))
        launched, added, left = [l[0] for l in self.launches()], 0, []
        for entry, grid, block, shared, cluster in self.launches():
            why = None
            if entry not in by_kernel:
                why = "no instruction of its name"
            elif launched.count(entry) != 1:
                why = "launched more than once"
            else:
                why = self.add_kernel(corpus, *by_kernel[entry], entry, grid, block, shared, cluster, known)
            added += why is None
            if why:
                left.append(f"{entry} ({why})")
            if added == most:
                break
        print(f"{self.name}: {added} kernels{'; left out: ' if left else ''}{', '.join(left)}", flush=True)

    def add_kernel(self, corpus, owner, i, entry, grid, block, shared, cluster, known):
        """Files one kernel; or says why not."""
        text = next((p for p in self.ptx if re.search(rf"\.entry {entry}\(", p)), None)
        if text is None:
            return "no PTX"
        plain = re.sub(r"%?\b\w*" + re.escape(entry) + r"\w*", "kernel", text.split(".visible .entry", 1)[1])
        if plain in known:
            return "the same PTX as an earlier kernel's"
        operands, results = list(dict.fromkeys(i.operands)), leaves(i.shape)
        shapes = [leaves(self.module.computations[owner][o].shape) for o in operands]
        if any(len(s) != 1 for s in shapes):
            return "an operand is a tuple"
        shapes = [s[0] for s in shapes]
        if any(s.dtype not in DTYPES for s in shapes + results):
            return "an element type that the corpus does not have"
        if sum(s.count * corpora.BYTES[s.dtype] for s in shapes + results) > MOST_BYTES:
            return "large"
        values = [self.seen(owner, o) for o in operands]
        inputs = [Input(s, 11 * k + 1, v and v[0]) for k, (s, v) in enumerate(zip(shapes, values))]
        # One parameter for each operand and result; a result may lie where an operand did, and is then the same address.
        places = [self.buffers.place(owner, o) for o in operands]
        places += [self.buffers.place(owner, i.name, "{}" if not i.shape.startswith("(") else f"{{{k}}}") for k in range(len(results))]
        texts = [g.text for g in inputs] + [f"out:{leaf.dtype}[{leaf.count}]" for leaf in results]
        arguments = [t if places.index(p) == k else f"&{places.index(p)}" for k, (p, t) in enumerate(zip(places, texts))]
        parameters = text.split(f".entry {entry}(", 1)[1].split(")", 1)[0].count(".param")
        if parameters != len(arguments):
            return f"{parameters} parameters, {len(operands)} operands and {len(results)} results"
        try:
            computed = Reference(self.module.isolated(owner, i))([s.from_buffer(g.flat) for s, g in zip(shapes, inputs)])
        except Exception as error:
            return f"no reference: {str(error).splitlines()[0][:100]}"
        types = {s.dtype for s in shapes + results}
        relative, absolute = max((TOLERANCE[t] for t in types if t in TOLERANCE), default=(0, 0))
        if "dot(" in "".join(self.module.bodies.get(i.attr("calls") or "", {}).values()):
            relative, absolute = max((relative, absolute), (5e-3, 4e-3))
        expect = []
        for place, leaf, value in zip(places[len(operands):], results, computed):
            flat = leaf.to_buffer(value)
            exact = np.dtype(DTYPES[leaf.dtype]).kind in "iub"
            finite = np.abs(flat.astype(np.float64))
            largest = float(finite[np.isfinite(finite)].max(initial=0.0))
            expect.append(corpora.expectation(str(places.index(place)), leaf.dtype, flat.tobytes(), 0 if exact else relative,
                                              0 if exact else absolute * largest))
        known.add(plain)
        corpus.add(f"{self.name}.{entry}", text, grid, block, arguments, expect, entry=entry, shared=shared,
                   cluster=cluster, reference="XLA's CPU backend")
        return None


def main(path, wanted):
    version = importlib.metadata.version("jax-cuda13-plugin")
    corpus = corpora.Corpus("XLA", f"XLA's GPU compiler in PyPI's jax-cuda13-plugin {version}, for an H100 without one, autotuning "
                            "off; modules of bench/foreign/xla_cases.py", "Apache-2.0")
    topology = topologies.get_topology_desc(platform="cuda", topology_name="h100", target_config=xla_figures.H100, topology="1x1x1")
    place, known = SingleDeviceSharding(topology.devices[0]), set()
    for name, (function, arguments, most) in xla_cases.CASES.items():
        if not wanted or any(w in name for w in wanted):
            Compiled(name, function, arguments, place).add_to(corpus, most, known)
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
