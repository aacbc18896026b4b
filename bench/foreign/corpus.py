"""Writes corpora of kernels: PTX, launches, inputs and expected results (tests/data/foreign/README.md has the format)."""
import base64
import gzip
import json
import os

import numpy as np

BYTES = {"pred": 1, "s8": 1, "u8": 1, "f8e4m3": 1, "f8e5m2": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4,
         "f32": 4, "s64": 8, "u64": 8, "f64": 8}
MOST_VALUES = 2048  # expected elements of one buffer that are kept; of larger ones every k-th


def mix(seed, values):
    """base/hash.h's mix, for arrays."""
    with np.errstate(over="ignore"):
        x = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def random(count, seed, low=-2.0, high=2.0):
    """`count` f32 values of the rule that `random:` means (cli/emulate/kernel_argument.h)."""
    unit = (mix(seed, np.arange(count)) >> np.uint64(40)).astype(np.float64) / (1 << 24)
    return (low + (high - low) * unit).astype(np.float32)


def random_integers(count, seed, low, high, dtype=np.int32):
    return (int(low) + (mix(seed, np.arange(count)) % np.uint64(int(high) - int(low))).astype(np.int64)).astype(dtype)


def encode(data):
    return base64.b64encode(bytes(data)).decode()


def stride_for(count):
    """A stride that leaves at most MOST_VALUES elements and visits all columns: odd, no multiple of 3, 5 or 7."""
    stride = -(-count // MOST_VALUES)
    while stride > 1 and any(stride % p == 0 for p in (2, 3, 5, 7)):
        stride += 1
    return stride


def expectation(argument, dtype, data, relative=0.0, absolute=0.0):
    """`data`: the bytes of the whole buffer."""
    size = BYTES[dtype]
    count = len(data) // size
    stride = stride_for(count)
    kept = np.frombuffer(data, dtype=np.uint8).reshape(count, size)[::stride].tobytes()
    row = {"argument": argument, "type": dtype, "values": encode(kept)}
    if stride != 1:
        row["stride"] = stride
    if relative:
        row["relative"] = relative
    if absolute:
        row["absolute"] = absolute
    return row


# What the emulator finds in kernels that are right all the same; findings.json says in which.
REASONS = {
    "redundant_write": "lanes that hold copies of a value all store it, to one address",
    "shared_race": "lanes store copies of a sum of products that all go to one address; the first addition of the butterfly is "
                   "contracted to fma(own factors, other's product), so that the copies may differ in the last bit, and any "
                   "may win",
    "global_race": "warps that hold copies of an element load it again while another warp stores its new value in place; "
                   "what they load is not stored",
    "async_before_wait": "packed f16 accumulators of wgmma are moved to other registers before wgmma.wait_group",
    "uninitialised_read": "merging reads one key past the end, whose value is not used",
    "CUTLASS.uninitialised_read": "fragments of the next stage are loaded before it is known whether there is one, and rows "
                                  "beyond the matrix are neither copied nor cleared; what comes of them is not stored",
    "cluster_lifetime": "not of the kernel: another block's multicast into this one's memory counts as under way until a barrier of "
                        "the cluster, although this block has waited for its bytes",
    "missing_fence": "Triton emits no tcgen05.fence: operations on tensor memory are complete and threads synchronised, but not as the "
                     "ISA's canonical patterns have it",
    "CUTLASS (Blackwell).missing_fence": "no fence.proxy.async stands between threads' copies to shared memory and the products that read "
                                         "them, nor a tcgen05.fence behind waits for these",
    "XLA.global_race": "a loop of compare-and-swap reads its first guess without an atomic; a stale one costs another round",
}


class Corpus:
    def __init__(self, maker, origin, licence):
        self.document = {"maker": maker, "origin": origin, "licence": licence, "modules": {}, "kernels": []}
        self.names = set()
        with open(os.path.join(os.path.dirname(__file__), "findings.json")) as file:
            self.known = json.load(file).get(maker, {})

    def module(self, ptx):
        """Files a PTX text, once, and gives its name."""
        lines = []
        for line in ptx.splitlines():
            # Debugging sections tell nothing that a kernel executes, and would name the machine's folders.
            if line.lstrip().startswith(".section"):
                break
            if line.lstrip().split(None, 1)[:1] in ([".file"], [".loc"]):
                continue
            lines.append(line.split("//")[0].rstrip())
        text = "\n".join(line for line in lines if line) + "\n"
        for name, known in self.document["modules"].items():
            if known == text:
                return name
        name = f"m{len(self.document['modules'])}"
        self.document["modules"][name] = text
        return name

    def add(self, name, ptx, grid, block, arguments, expect, entry="", shared=0, cluster=None, reference="NumPy"):
        base, n = name, 2
        while name in self.names:
            name, n = f"{base}.{n}", n + 1
        self.names.add(name)
        row = {"name": name, "module": self.module(ptx), "entry": entry, "grid": list(grid), "block": list(block),
               "arguments": arguments, "expect": expect, "reference": reference}
        if shared:
            row["shared"] = shared
        if cluster and list(cluster) != [1, 1, 1]:
            row["cluster"] = list(cluster)
        known = self.known.get(name)
        if known:
            row["findings"] = known
            of_maker = self.document["maker"] + "."
            row["why"] = "; ".join(REASONS.get(of_maker + finding) or REASONS[finding] for finding in known)
        self.document["kernels"].append(row)

    def write(self, path):
        text = json.dumps(self.document, indent=0).encode()
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(text)
        print(f"{path}: {len(self.document['kernels'])} kernels, {os.path.getsize(path)} bytes")
