"""JAX's side of the measurement: the float64 reference, and XLA (jax.jit)."""
import argparse
import functools
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import case_table, comparison, hlo_texts, timing, worker  # noqa: E402
from harness.recorders import RECORDERS  # noqa: E402

WARM = 3


@functools.partial(jax.jit, donate_argnums=0)
def flush_cache(buffer):
    return jax.lax.population_count(buffer)


class Peer:
    """One case at a time."""

    def __init__(self, options):
        self.cases = case_table.load(options.cases)
        self.checked, self.recorders = options.checked, options.recorders.split(",")
        self.device = jax.devices("cpu" if options.device == "cpu" else "cuda")[0]
        self.buffer, self.failures = None, []
        if options.l2_bytes:
            self.buffer = jax.device_put(np.zeros(2 * options.l2_bytes // 4, np.int32), self.device)
        self.release({})

    def open(self, request):
        """Makes the inputs, and the reference where its folder has none yet."""
        self.release({})
        self.case = self.cases.by_name(request["case"])
        self.reference = pathlib.Path(request["reference"])
        arrays = self.case.arrays(self.checked)
        start = time.monotonic()
        if not (self.reference / "complete.json").exists():
            comparison.save(self.reference, self.in_float64(arrays))
        self.tensors = self.cases.tree(arrays, lambda array: jax.device_put(array, self.device))
        return {"reference_s": round(time.monotonic() - start, 2), "ideal_bytes": self.case.ideal_bytes(self.checked)}

    def in_float64(self, arrays):
        """The case's own JAX function on inputs raised to float64."""
        def raised(array):
            tensor = jax.device_put(array, self.device)
            return tensor.astype(jnp.float64) if jnp.issubdtype(tensor.dtype, jnp.floating) else tensor
        with jax.enable_x64(True):
            results = jax.jit(self.case.jax_function())(*self.cases.tree(arrays, raised))
            return [np.asarray(result, np.float64) for result in jax.tree_util.tree_leaves(results)]

    def prepare(self, request):
        start = time.monotonic()
        function = jax.jit(self.case.jax_function())
        results = jax.block_until_ready(function(*self.tensors))
        answer = {"compile_s": round(time.monotonic() - start, 2)}
        answer.update(self.compared(jax.tree_util.tree_leaves(results)))
        del results
        self.run = lambda: function(*self.tensors)
        for _ in range(WARM):
            jax.block_until_ready(self.run())
        if self.buffer is not None:
            self.buffer = jax.block_until_ready(flush_cache(self.buffer))
        return answer

    def compared(self, results):
        references = comparison.load(self.reference)
        with jax.enable_x64(True):
            pairs = ((result.astype(jnp.float64), jax.device_put(np.array(reference), self.device))
                     for result, reference in zip(results, references, strict=True))
            return comparison.verdict(comparison.worst(pairs, self.case.tolerances(self.checked), jnp))

    def measure(self, request):
        """By the first recorder that shows the iterations apart; else by the host's clock, and says so."""
        count = request["iterations"]
        for _ in range(WARM):
            jax.block_until_ready(self.run())
        for name in list(self.recorders):
            try:
                parts = timing.iterations(RECORDERS[name](lambda: self.repeat(count)), count)
                return {**timing.summed(parts), "method": f"{name}.profiler"}
            except Exception as error:  # a profiler that does not work here is no reason to have no time at all
                self.failures.append(f"{name}: {error}")
                self.recorders.remove(name)
        return {**self.by_clock(count), "method": f"host clock ({'; '.join(self.failures)})"[:300]}

    def repeat(self, count):
        jax.block_until_ready(self.buffer)
        for _ in range(count):
            self.buffer = flush_cache(self.buffer)
            results = self.run()
        jax.block_until_ready(results)

    def by_clock(self, count):
        samples = []
        for _ in range(count):
            self.buffer = jax.block_until_ready(flush_cache(self.buffer))
            start = time.perf_counter()
            jax.block_until_ready(self.run())
            samples.append(round((time.perf_counter() - start) * 1e6, 3))
        return {"busy_us": samples, "span_us": samples, "kernels": None}

    def describe(self, request):
        """What whoever runs the case by its HLO text has to know: the text, and what results may be off."""
        case = self.cases.by_name(request["case"])
        return {"text": hlo_texts.hlo_text(case, self.checked), "tolerances": case.tolerances(self.checked),
                "dtypes": [self.cases.dtype_name(result.dtype) for result in case.results(self.checked)]}

    def about(self, request):
        return {"jax": jax.__version__}

    def release(self, request):
        self.case, self.tensors, self.run = None, None, None
        jax.clear_caches()
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--checked", action="store_true", help="the smaller shapes")
    parser.add_argument("--cases", default=case_table.OWN, help="the table of cases: a folder with a Python package")
    parser.add_argument("--l2-bytes", type=int, default=0)
    parser.add_argument("--recorders", default="jax,torch", help="profilers to try, in this order")
    peer = Peer(parser.parse_args())
    worker.serve({name: getattr(peer, name) for name in ("about", "open", "describe", "prepare", "measure", "release")})


if __name__ == "__main__":
    main()
