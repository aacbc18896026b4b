"""One case in a process of its own: prepares every way, says so, and measures when it is told to.

    worker.py CASE --device cuda|cpu [--tiny] [--calls N]

Lines of JSON on standard output, which nobody else may write to. A line {"ready": …} ends the preparation, a line on
standard input begins the measuring: then this process is to be alone on the GPU.
"""

import argparse
import contextlib
import copy
import functools
import json
import os
import pathlib
import statistics
import sys
import time
import traceback

lines = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print

import torch  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parents[1] / "peers")]

import cases  # noqa: E402
from harness import kineto  # noqa: E402

import stitch.torch  # noqa: E402

WAYS = ("eager", "stitch", "inductor")
PLANS_MS = 120_000


def say(**line):
    print(json.dumps(line), file=lines, flush=True)


def error(values, exact) -> float:
    """The largest difference, relative to the largest value of the tensor that it is in; of a tensor that is nothing
    but rounding beside the others, relative to a thousandth of their largest."""
    scales = [y.abs().max().item() for y in exact]
    least = max(1e-3 * max(scales, default=0.0), 1e-12)
    worst = 0.0
    for x, y, scale in zip(values, exact, scales, strict=True):
        apart = (x.double() - y).abs().nan_to_num(nan=float("inf")).max().item()
        worst = max(worst, apart / max(scale, least))
    return worst


def stitch_options(device: str) -> dict:
    """Plans as they are predicted, which compilation waits for: no server looks for better ones meanwhile."""
    options = {"deadline_ms": PLANS_MS, "effort": "none"}
    return {**options, "device": "emulated"} if device == "cpu" else options


class Way:
    """A case as one of the ways runs it: a model of its own, equal to the others'."""

    def __init__(self, case, name: str, model, inputs: dict, device: str):
        self.case, self.name, self.device = case, name, device
        self.model, self.inputs = model, inputs
        self.parameters = list(model.parameters())
        self.run = self._compiled(model)
        self.graph = None
        if case.optimizer:
            # A GPU's fastest eager way is one kernel for all tensors; what is compiled is written over lists of them.
            fastest = {"fused": True} if name == "eager" and device == "cuda" else {"foreach": True}
            self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-3, **fastest)
            self.optimizer_step = self._compiled(self.optimizer.step)

    def _compiled(self, what):
        if self.name == "stitch":
            return torch.compile(what, backend="stitch", options=stitch_options(self.device))
        return torch.compile(what) if self.name == "inductor" else what

    def call(self):
        """One call; the results, of training the loss and all gradients, of an optimizer what it has made."""
        case = self.case
        if case.optimizer:
            self.optimizer_step()
            return self.parameters
        computing = torch.autocast(self.device, case.autocast) if case.autocast else contextlib.nullcontext()
        if not case.trains:
            with torch.no_grad(), computing:
                return case.results(self.run(**self.inputs))
        for parameter in self.parameters:
            parameter.grad = None
        with computing:
            results = case.results(self.run(**self.inputs))
        results[0].backward()
        return [results[0].detach(), *(p.grad for p in self.parameters if p.grad is not None)]

    def capture(self):
        """A CUDA graph of a call, its results in `self.captured`; the call has been made before."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.call()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.captured = self.call()


class Work:
    def __init__(self, options):
        self.case = next(case for case in cases.CASES if case.name == options.case)
        self.device, self.tiny, self.calls = options.device, options.tiny, options.calls
        self.ways, self.peaks = {}, {}
        torch.manual_seed(0)
        model = self.case.make(self.tiny)
        self.model = (model if self.case.trains else model.eval()).to(self.device, self.case.dtype)
        self.draws = 0
        self.inputs = self.drawn()

    def drawn(self) -> dict:
        """Other inputs with every call, in the case's type."""
        self.draws += 1
        torch.manual_seed(self.draws)
        drawn = self.case.inputs(self.tiny, self.device)
        return {name: cases.converted(value, self.case.dtype) for name, value in drawn.items()}

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def say(self, way: str, what: str, **values):
        say(case=self.case.name, way=way, what=what, **values)

    def attempt(self, way: str, what: str, work):
        """Whether it went well; the whole of what went wrong is a line."""
        try:
            work()
            return True
        except Exception as failure:
            self.say(way, what, error=f"{type(failure).__name__}: {failure}"[:500], traceback=traceback.format_exc())
            return False

    def with_gradients(self, model):
        """Before an optimizer's step: the same gradients for all ways."""
        if self.case.optimizer:
            generator = torch.Generator(self.device).manual_seed(1)
            for parameter in model.parameters():
                drawn = torch.randn(parameter.shape, generator=generator, device=self.device)
                parameter.grad = drawn.to(parameter.dtype)
        return model

    def way(self, name: str, model=None, inputs=None):
        """Eager and what is compiled have equal parameters; those who train or step have their own."""
        model = copy.deepcopy(self.model) if model is None else model
        return Way(self.case, name, self.with_gradients(model), inputs or self.inputs, self.device)

    def exact(self, inputs: dict) -> list:
        """What eager makes of it in float64."""
        double = {name: cases.converted(value, torch.float64) for name, value in inputs.items()}
        way = self.way("eager", copy.deepcopy(self.model).double(), double)
        way.case = cases.dataclasses.replace(self.case, autocast=None)
        results = [value.detach().double().clone() for value in way.call()]
        self.wait()
        del way
        if self.device == "cuda":
            torch.cuda.empty_cache()  # for the others, and for plans' workspaces, which are not PyTorch's
        return results

    def prepare(self):
        expected = []
        if not self.attempt("float64", "check", lambda: expected.extend(self.exact(self.inputs))):
            return
        for name in WAYS:
            self.attempt(name, "check", lambda: self.check(name, expected))  # noqa: B023
        if self.device == "cuda" and "stitch" in self.ways and not (self.case.trains or self.case.optimizer):
            self.attempt("stitch", "streams", self.check_streams)

    def check(self, name: str, expected: list):
        way = self.way(name)
        began = time.monotonic()
        results = [value.detach() for value in way.call()]
        self.wait()
        first = time.monotonic() - began
        values = {"first_call_s": round(first, 2)}
        if self.case.trains:
            values |= {"error": error(results[:1], expected[:1]), "gradients_error": error(results[1:], expected[1:])}
        else:
            values |= {"error": error(results, expected)}
        del results
        if name == "stitch":
            assert stitch.torch.wait(PLANS_MS / 1000), "not all plans are there"
            values["compiled"] = stitch.torch.report()
        way.call()
        self.wait()
        if name == "stitch":
            stitch.torch.reset()
            way.call()
            self.wait()
            values["a_call"] = stitch.torch.report()
            values["plans"] = self.plans()
        self.ways[name] = way
        self.say(name, "check", **values)

    def plans(self) -> list:
        """What the plans are, as the back end gives it to who reads traces."""
        from stitch.torch import _runtime

        infos = [slot.plan.info for slot in _runtime._slots.values() if slot.plan is not None]
        kept = ("id", "label", "launches", "bytes", "workspace_bytes", "predicted_us")
        return [{name: info[name] for name in kept} for info in infos]

    def check_streams(self):
        """Calls of one model on three streams by turns, none waited for: each has its own inputs' results."""
        way = self.ways["stitch"]
        streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        inputs = [self.drawn() for _ in streams]
        before, expected = way.inputs, []
        for way.inputs in inputs:
            expected.append([y.clone() for y in way.call()])
        self.wait()
        found = []
        for _ in range(4):
            for stream, way.inputs in zip(streams, inputs, strict=True):
                with torch.cuda.stream(stream):
                    found.append([y.clone() for y in way.call()])
        self.wait()
        way.inputs = before
        worst = max(
            error(results, [y.double() for y in expected[i % len(streams)]]) for i, results in enumerate(found)
        )
        self.say("stitch", "streams", calls=len(found), difference=worst)

    def check_graph(self, name: str, expected: list, inputs: dict):
        """A captured call, replayed with other inputs in the same memory, beside float64."""
        way = self.ways[name]
        way.capture()
        for key, value in inputs.items():
            way.inputs[key].copy_(value)
        for _ in range(2):
            way.graph.replay()
        self.wait()
        return {"graph_error": error(way.captured, expected)}

    def measure(self):
        for name in list(self.ways):
            if not self.attempt(name, "time", lambda: self.call_for_memory(name)):  # noqa: B023
                del self.ways[name]
        rows = {name: {} for name in self.ways}
        self.attempt("all", "time", lambda: self.time_calls(rows))
        if self.device == "cuda":
            for name, way in self.ways.items():
                self.attempt(name, "profile", lambda: rows[name].update(self.profiled(way)))  # noqa: B023
            self.attempt("all", "graph", lambda: self.measure_graphs(rows))
        for name, row in rows.items():
            self.say(name, "time", **{**row, "peak_bytes": self.peaks.get(name)})

    def call_for_memory(self, name: str):
        """A call that is not timed; the most that PyTorch's allocator had in it, over what it had before."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        self.ways[name].call()
        self.wait()
        if self.device == "cuda":
            self.peaks[name] = torch.cuda.max_memory_allocated() - before

    def measure_graphs(self, rows: dict):
        if self.case.trains or self.case.optimizer:
            return  # gradients would have to be kept in place for that
        inputs = self.drawn()
        expected = self.exact(inputs)
        for way in self.ways.values():
            way.inputs = {name: value.clone() for name, value in self.inputs.items()}
        # Eager last: a capture that fails (of a model that looks at a mask's values) may spoil those behind it.
        for name in sorted(self.ways, key=lambda name: name == "eager"):
            replayed = functools.partial(self.check_graph, name, expected, inputs)
            self.attempt(name, "graph", lambda: rows[name].update(replayed()))  # noqa: B023
        captured = {name: way.graph.replay for name, way in self.ways.items() if "graph_error" in rows[name]}
        for name, times in self.timed(captured, 1, self.calls).items():
            rows[name]["graph_us"] = statistics.median(times["us"])

    def time_calls(self, rows: dict):
        runs = {name: way.call for name, way in self.ways.items()}
        for name, times in self.timed(runs, 1, self.calls).items():
            rows[name] |= {"call_us": statistics.median(times["us"]), "host_us": statistics.median(times["host_us"])}
            rows[name]["call_us_of_all"] = times["us"]
        # One call behind another: the host may be ahead of the GPU, as in a program that waits for nothing.
        for name, times in self.timed(runs, 4, max(2, self.calls // 3)).items():
            rows[name]["behind_another_us"] = statistics.median(times["us"])

    def timed(self, runs: dict, behind: int, turns: int) -> dict:
        """Interleaved, another way first in each round. `us`: by the GPU's events; `host_us`: until all is enqueued."""
        times = {name: {"us": [], "host_us": []} for name in runs}
        names = list(runs)
        for turn in range(turns):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                us, host_us = self.one(runs[name], behind)
                times[name]["us"].append(us)
                times[name]["host_us"].append(host_us)
        return times

    def one(self, run, behind: int) -> tuple[float, float]:
        self.wait()
        if self.device != "cuda":
            began = time.perf_counter()
            for _ in range(behind):
                run()
            took = round((time.perf_counter() - began) * 1e6 / behind, 1)
            return took, took
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began = time.perf_counter()
        first.record()
        for _ in range(behind):
            run()
        last.record()
        host = time.perf_counter() - began
        last.synchronize()
        return round(first.elapsed_time(last) * 1e3 / behind, 1), round(host * 1e6 / behind, 1)

    def profiled(self, way) -> dict:
        """What runs on the GPU in one call: how often, how long, and the longest by name."""

        def work():
            way.call()
            torch.cuda.synchronize()

        events = kineto.device_events(work)
        by_name = {}
        for event in events:
            count, us = by_name.get(event.name, (0, 0.0))
            by_name[event.name] = (count + 1, us + event.duration)
        longest = sorted(by_name.items(), key=lambda item: -item[1][1])[:40]
        return {
            "kernels": len(events),
            "kernels_us": round(sum(event.duration for event in events), 1),
            "longest": [[name[:100], count, round(us, 1)] for name, (count, us) in longest],
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("--device", required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    began = time.monotonic()
    work = None
    try:
        work = Work(options)
        work.prepare()
    except Exception as failure:
        say(case=options.case, way="all", what="check", error=f"{type(failure).__name__}: {failure}"[:500],
            traceback=traceback.format_exc())  # fmt: skip
    ways = sorted(work.ways) if work else []
    say(ready=bool(ways), case=options.case, ways=ways, prepared_s=round(time.monotonic() - began, 1))
    if ways and sys.stdin.readline():
        work.measure()
    say(done=True, case=options.case)
    lines.flush()
    os._exit(0)  # a lost GPU makes destructors wait


if __name__ == "__main__":
    main()
