"""PyTorch's side of the measurement: eager and compiled functions, each also in a CUDA graph, and where cases have them
functions that call a library by name."""
import argparse
import pathlib
import sys
import time

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import case_table, comparison, kineto, timing, worker  # noqa: E402

MODES = {"compile": None, "autotune": "max-autotune-no-cudagraphs"}
DTYPES = {"pred": torch.bool, "s8": torch.int8, "s32": torch.int64, "u32": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16,
          "f32": torch.float32}
WARM = 3


def tensor(array, dtype, device):
    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    if dtype == "f8e4m3fn":
        return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn).to(device)
    # Indices are int64 in PyTorch.
    return torch.from_numpy(np.ascontiguousarray(array)).to(device=device, dtype=DTYPES[dtype])


def flat(value):
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


class Compiled:
    """torch.compile in its default mode, once for each function."""

    def __init__(self):
        self.made = {}

    def __call__(self, function):
        if function not in self.made:
            self.made[function] = torch.compile(function, dynamic=False)
        return self.made[function]


class Peers:
    """One case at a time: its tensors, and each peer as a function without arguments."""

    def __init__(self, options):
        self.cases = case_table.load(options.cases)
        self.device, self.checked = options.device, options.checked
        self.cuda = options.device.startswith("cuda")
        self.release({})
        if self.cuda:
            properties = torch.cuda.get_device_properties(0)
            words = 2 * properties.L2_cache_size // 4
            self.flushed = torch.zeros(words, dtype=torch.int32, device=self.device)

    def open(self, request):
        self.release({})
        self.case = self.cases.by_name(request["case"])
        arrays = self.case.arrays(self.checked)
        specs = self.cases.leaves(self.case.input_tree(self.checked))
        dtypes = iter(spec.dtype for spec in specs)
        self.tensors = self.cases.tree(arrays, lambda array: tensor(array, next(dtypes), self.device))
        self.allowed = self.case.tolerances(self.checked)
        self.reference = request["reference"]
        # As ours compute f32; cuDNN takes the fastest of its kernels.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = getattr(self.case, "tf32", False)
        torch.backends.cudnn.benchmark = True
        return {"bytes": sum(leaf.nbytes for leaf in flat(self.tensors))}

    def function(self, kind):
        """The function of a kind of peer and the tensors that it takes; made once, so that its graph shares them."""
        case = self.case
        forward = case.torch
        if kind in MODES:
            forward = torch.compile(case.compiled or case.torch, mode=MODES[kind], dynamic=False)
        given = self.arranged()
        if kind in getattr(case, "ways", {}):
            way = case.ways[kind]
            # Checked on a CPU it is the functions that matter, not how they are compiled there.
            forward = way.make((lambda of: of) if self.checked else Compiled())
            given = list(way.arrange(*given)) if way.arrange else given
        if not case.gradients:
            return forward, given
        cotangents = given[len(given) - case.cotangents:]
        given = given[:len(given) - case.cotangents]
        for place in case.gradients:
            given[place] = given[place].detach().requires_grad_()
        wanted = [given[place] for place in case.gradients]

        def both(*arguments):
            results = flat(forward(*arguments))
            return [r.detach() for r in results], torch.autograd.grad(results, wanted, cotangents or None)
        return both, given

    def arranged(self):
        """The arguments of the case's functions; copies where those update in place."""
        given = self.cases.tree(self.tensors, lambda t: t.clone()) if self.case.mutates else self.tensors
        return list(self.case.torch_state(*given) if self.case.torch_state else given)

    def prepare(self, request):
        """Builds, compiles and runs a peer for the first time, and compares what it returns."""
        peer, start = request["peer"], time.monotonic()
        kind = peer.split("+")[0]
        if kind not in self.functions:
            self.functions[kind] = self.function(kind)
        function, given = self.functions[kind]
        results = None

        def run():
            nonlocal results
            results = function(*given)
        if peer.endswith("+graph"):
            run, results = self.captured(lambda: function(*given))
        self.set_back(given)
        run()
        self.synchronize()
        answer = {"compile_s": round(time.monotonic() - start, 2), **self.compared(flat(results))}
        results = None
        self.runs[peer] = run if peer.endswith("+graph") else lambda: function(*given)
        for _ in range(WARM):
            self.runs[peer]()
        self.synchronize()
        return answer

    def set_back(self, given):
        """Undoes the updates in place, so that the next run is the first step."""
        if self.case.mutates:
            for changed, original in zip(flat(given), flat(self.arranged()), strict=True):
                changed.copy_(original)

    def captured(self, run):
        """The function as one CUDA graph: a replay, and the results that it writes."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = run()
        return graph.replay, results

    def compared(self, results):
        if self.case.torch_random:
            return {"correct": None, "worst": None}
        references = comparison.load(self.reference)
        shapes = [tuple(result.shape) for result in results]
        if shapes != [reference.shape for reference in references]:
            expected = [reference.shape for reference in references]
            raise RuntimeError(f"results are {shapes}, the reference {expected}"[:400])
        pairs = ((result.detach().double(), torch.from_numpy(np.array(reference)).to(self.device))
                 for result, reference in zip(results, references, strict=True))
        return comparison.verdict(comparison.worst(pairs, self.allowed, torch))

    def measure(self, request):
        run, count = self.runs[request["peer"]], request["iterations"]
        # Clocks and the allocator settle; the other peers ran in between.
        for _ in range(WARM):
            run()
        try:
            events = kineto.device_events(lambda: self.repeat(run, count))
            return {**timing.summed(timing.iterations(events, count)), "method": "torch.profiler"}
        except Exception as reason:  # without a profiler there is still the device's own clock
            return {**self.by_events(run, count), "method": f"CUDA events ({reason})"[:300]}

    def repeat(self, run, count):
        self.synchronize()
        for _ in range(count):
            torch.bitwise_not(self.flushed, out=self.flushed)
            run()
        self.synchronize()

    def by_events(self, run, count):
        """Where the profiler gives nothing: CUDA events around each iteration, launch gaps included."""
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for before, after in marks:
            torch.bitwise_not(self.flushed, out=self.flushed)
            before.record()
            run()
            after.record()
        self.synchronize()
        samples = [round(before.elapsed_time(after) * 1e3, 3) for before, after in marks]
        return {"busy_us": samples, "span_us": samples, "kernels": None}

    def copy(self, request):
        """µs of device-to-device copies of `bytes` bytes."""
        source = torch.zeros(request["bytes"] // 4, dtype=torch.int32, device=self.device)
        target = torch.empty_like(source)
        self.runs["copy"] = lambda: target.copy_(source)
        self.runs["copy"]()
        answer = self.measure({"peer": "copy", "iterations": request["iterations"]})
        self.release({})
        return answer

    def about(self, request):
        return {"torch": torch.__version__, "name": torch.cuda.get_device_name(0) if self.cuda else "cpu",
                "l2_bytes": torch.cuda.get_device_properties(0).L2_cache_size if self.cuda else None}

    def release(self, request):
        self.runs, self.functions, self.tensors, self.case = {}, {}, None, None
        torch._dynamo.reset()
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return {}

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--checked", action="store_true", help="the smaller shapes")
    parser.add_argument("--cases", default=case_table.OWN, help="the table of cases: a folder with a Python package")
    peers = Peers(parser.parse_args())
    worker.serve({name: getattr(peers, name) for name in ("about", "open", "prepare", "measure", "copy", "release")})


if __name__ == "__main__":
    main()
