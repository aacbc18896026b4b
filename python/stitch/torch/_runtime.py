"""Plans behind a graph's pieces: fetched aside, run when they are there."""

import atexit
import ctypes
import dataclasses
import hashlib
import json
import os
import threading
import time
import weakref

import torch

from .. import _native, _server, _trace, _tuning, errors
from . import (
    _artifacts,
    _buckets,
    _document,
    _fetchers,
    _inductor,
    _locks,
    _memory,
    _partition,
    _report,
    _rows,
    _shapes,
)

_FETCH_MS = 60_000
_ATTEMPTS = 10
_RETRY_SECONDS = 30.0
_ALIVE_SECONDS = 30.0
_PATIENCE_SECONDS = 0.25

_slots: dict = {}
_dead: dict = {}


def _begin() -> None:
    """What a process has of its own: a child has neither its parent's threads nor the locks that they held."""
    global _pool, _prober, _lock, _unfinished, _probes
    _pool = _fetchers.Fetchers(2)
    _prober = _fetchers.Fetchers(2)  # plans that are on their way for a minute are in nobody's way
    _lock = threading.Lock()
    _unfinished = weakref.WeakSet()
    _probes = {}


_begin()
atexit.register(lambda: (_prober.end(), _pool.end()))


class Slot:
    """The plan of one fragment, once it is there; equal pieces of all graphs share it. Of a piece with products a program
    takes the plan's place (`products`: who computes them; "" where there are none)."""

    def __init__(self, document: str, settings, device: torch.device, constraints: str, products: str = ""):
        self._wanted = (document, settings, device, constraints, products)
        self.target = cuda.target(device) if device.type == "cuda" else "emulated"
        self.key = _artifacts.key_of(document, self.target, ",".join(filter(None, (constraints, products))))
        self._begin()

    def _begin(self) -> None:
        self.plan = None
        self.launches = self.bytes = 0
        self.in_place = frozenset()  # (input, result): what may lie in one place, also of a plan that is swapped in
        self.content = None  # what is saved of the plan
        self.refusal = None  # why there is no plan
        self.recorded = True  # whether PyTorch has that
        self.done = threading.Event()
        self.launching = threading.Lock()  # guards what follows
        self.stream = None  # of its last launch on a GPU
        self.asked = False

    def leave(self) -> None:
        """In a forked child: the parent's plan is neither used nor ever freed, which would wait for a thread that is
        not there. Whoever runs it next asks anew."""
        if self.plan is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.plan))
        self._begin()

    def ask(self) -> None:
        """Has the plan fetched aside, once."""
        if self.asked:
            return
        with _lock:
            if self.asked:
                return
            self.asked = True
            _unfinished.add(self)
            try:
                _pool.submit(self._fill, *self._wanted)
                return
            except RuntimeError as error:  # no thread can be started, or the interpreter ends
                why = error
        _report.failed("plan: internal", f"no plan: {why}")
        self.done.set()

    def _fill(self, document: str, settings, device: torch.device, constraints: str, products: str) -> None:
        try:
            place = _place(device)
            if settings.lock is not None:
                plan = _locked(self.key, document, settings, place, constraints, products)
            else:
                plan = _artifacts.find(self.key, place, settings.max_workspace_bytes)
            saved = plan is not None
            if not saved:
                plan = _fetch(document, settings, place, constraints, products)
            self.content = plan.content if isinstance(plan, _artifacts.SavedPlan) else _saved(plan)
            self.launches, self.bytes = plan.info["launches"], plan.info["bytes"]
            self.in_place = frozenset(map(tuple, plan.info["in_place"]))
            self.recorded = False
            self.plan = plan
            info = plan.info
            _trace.event("ready", plan=info["id"], label=info["label"], source="saved" if saved else "server")
        except Exception as error:  # a fault of ours must not end the thread unheard either
            if not _native.calls_ended():  # by the program's end, which is nobody's fault
                self._note(error, settings)
        finally:
            self.done.set()

    def _note(self, error: Exception, settings) -> None:
        """Why there is no plan, for the report."""
        if isinstance(error, errors.Error):
            self.refusal = error
        if isinstance(error, errors.ServerUnavailable):
            if not is_dead(settings.server):  # what failed for that alone is no news
                _dead[settings.server] = time.monotonic()
            _report.failed("unavailable", str(error))
        elif isinstance(error, errors.DeviceUnavailable):
            _report.failed(f"device: {self.target}", f"no plan: {error}")
        elif isinstance(error, _locks.Differs):
            _report.failed(f"lock: {self.key}", str(error))
        elif isinstance(error, errors.Error):
            _report.failed(f"plan: {error.kind}", f"no plan: {error}")
        else:
            _report.failed("plan: internal", f"no plan: {type(error).__name__}: {error}")

    def record(self) -> None:
        """Gives the plan to PyTorch's cache of artifacts, once; from a thread that may use that."""
        self.recorded = True
        if self.content is not None:
            _artifacts.record(self.key, self.content)


def _place(device: torch.device) -> tuple:
    return ("cuda", device.index or 0) if device.type == "cuda" else ("emulated", 0)


def _saved(plan) -> bytes | None:
    """What is saved of a plan; None where its code cannot be had, which is no reason not to run it."""
    try:
        return _artifacts.content_of(plan)
    except errors.Error as error:
        _report.log.info("plan %s is not saved: %s", plan.info["id"], error)
        return None


def _locked(
    key: str, document: str, settings, place: tuple, constraints: str, products: str
) -> _artifacts.SavedPlan:
    """The plan that the lock names, opened as if it had been saved: no other takes its place. Errors: Differs."""
    lock = settings.lock
    wanted = lock.locked(key, document)
    plan = _artifacts.find(key, place, settings.max_workspace_bytes)
    if plan is None or plan.lock() != wanted.text:
        try:
            plan = _fetch(document, settings, place, constraints, products, wanted.plan)
            if not isinstance(plan, _artifacts.SavedPlan):
                plan = _artifacts.SavedPlan(_artifacts.content_of(plan), *place)
        except errors.PlanMissing as error:
            raise lock.differs(key, document, f"no plan of that id ({error})") from error
        except errors.Unavailable:
            if plan is None:
                raise
    if plan.lock() != wanted.text:
        raise lock.differs(key, document, f"'{plan.lock()}'")
    return plan


def is_dead(server: str | None) -> bool:
    """Whether the server did not answer a moment ago."""
    return time.monotonic() - _dead.get(server, -_RETRY_SECONDS) < _RETRY_SECONDS


class _Probe:
    """Whether there is a server, started where it is the user's own: asked aside, since that may take half a minute."""

    def __init__(self, server: str | None, again: bool):
        self.answers = False
        self.done = threading.Event()
        self._patience = 0.0 if again else _PATIENCE_SECONDS
        self._began = time.monotonic()
        try:
            _prober.submit(self._ask, server)
        except RuntimeError:  # no thread can be started, or the interpreter ends
            self.done.set()

    def _ask(self, server: str | None) -> None:
        try:
            _server.connect(server, timeout_seconds=_ALIVE_SECONDS)
            self.answers = True
        except errors.Error:
            pass  # whoever fetches a plan says why
        finally:
            self.done.set()

    def wait(self, seconds: float) -> bool:
        """Whether it answers, by so many seconds after it was asked, or by the patience that there is with a server."""
        self.done.wait(max(0.0, self._began + max(seconds, self._patience) - time.monotonic()))
        return self.answers


def look_for(server: str | None) -> _Probe:
    """Asks whether there is a server, unless that is known or on its way; where there was none, anew."""
    with _lock:
        probe = _probes.get(server)
        if probe is None or (probe.done.is_set() and not probe.answers):
            _probes[server] = probe = _Probe(server, again=probe is not None)
        return probe


def answers(server: str | None, seconds: float) -> bool:
    """Whether there is a server. Nobody waits longer for that than `seconds`, or a moment where these are fewer: a server
    that has to be started may take longer, one that was stopped has the moment once."""
    return not is_dead(server) and look_for(server).wait(seconds) and not is_dead(server)


def _fetch(document: str, settings, place: tuple, constraints: str, products: str = "", plan_id: str = ""):
    if is_dead(settings.server):
        raise errors.ServerUnavailable("the server did not answer a moment ago")
    with _trace.phase("import"):
        fragment = _native.read_aten(document)
    client = _server.shared(settings.server)
    if products:
        return _program(client, fragment, settings, place, constraints, products)
    # A look-up begins what is tuned in the background; where it is to be more, or to end, that is asked for by itself.
    asks = settings.tuned == "full" or (settings.tuned == "quick" and settings.budget_seconds > 0)
    improve = settings.tuned == "quick" and not asks
    exact = {"max_workspace_bytes": settings.max_workspace_bytes, "plan_id": plan_id}
    for attempt in range(_ATTEMPTS):
        try:
            plan = client.plan(fragment, *place, _FETCH_MS, improve, constraints, **exact)
            break
        except errors.Timeout:
            if attempt + 1 == _ATTEMPTS:
                raise
            _check_alive(settings.server)
    if asks:
        _tuning.begin(client, fragment, constraints, settings.tuned, settings.budget_seconds)
    if settings.tuned != "none":
        plan.watch()
    return plan


def _check_alive(server: str | None) -> None:
    """After a timeout: it has no plan yet, or nobody is there who could say so. A busy server has time to answer, since
    nobody waits here. Errors: ServerUnavailable."""
    _server.connect(server, timeout_seconds=_ALIVE_SECONDS)


def _program(client, fragment, settings, place: tuple, constraints: str, products: str) -> _artifacts.SavedPlan:
    """A piece with products: a program, which is what it is once it is there. On a GPU "ours" also takes what a stream
    has no library's call for. Errors: ConstraintError (more workspace than allowed), those of a look-up."""
    device, ordinal = place
    try:
        document = client.make_program(
            fragment, _FETCH_MS, settings.tuned != "none", products, device, ordinal, constraints
        )
    except errors.Timeout:
        _check_alive(settings.server)
        raise
    plan = _artifacts.SavedPlan.of_program(document, *place)
    needs, most = plan.info["workspace_bytes"], settings.max_workspace_bytes
    if most is not None and needs > most:
        raise errors.ConstraintError(f"the program needs {needs:,} bytes of memory, and max_workspace_bytes is {most:,}")
    return plan


def slot(document: str, settings, device: torch.device, in_place: bool, products: str = "") -> Slot:
    """The slot of a document; whoever asks first has it fetched. Of a plan on a GPU each of them has its own.
    `in_place`: results may lie where inputs do, as far as the plan allows it. `products`: as of `Slot`."""
    # What was asked of PyTorch when it compiled is asked of the plan.
    if torch.are_deterministic_algorithms_enabled():
        settings = dataclasses.replace(settings, deterministic=True)
    constraints = ",".join(filter(None, (settings.constraints, "in_place" if in_place else "")))
    key = (
        settings.server, settings.device, settings.max_workspace_bytes, settings.lock, device, document, constraints,
        products,
    )  # fmt: skip
    with _lock:
        found = _slots.get(key)
        # Where no plan came of it, the next compilation asks again.
        if found is None or (found.done.is_set() and found.plan is None):
            found = _slots[key] = Slot(document, settings, device, constraints, products)
    found.ask()
    if made is not None:
        made.append(found)
    return found


made: list | None = None
"""Where it is a list, all slots that are asked for are added to it."""


def record() -> None:
    """Gives PyTorch the plans that it does not have yet."""
    with _lock:
        slots = [one for one in _slots.values() if not one.recorded]
    for one in slots:
        one.record()


def wait(timeout_seconds: float | None = None) -> bool:
    """Waits until all plans that were asked for are there or have failed; False when that took too long. What is there
    is saved by torch.compiler.save_cache_artifacts."""
    end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    with _lock:  # autograd's threads ask for plans meanwhile
        unfinished = list(_unfinished)
    for one in unfinished:
        if not one.done.wait(None if end is None else max(0.0, end - time.monotonic())):
            return False
        with _lock:
            _unfinished.discard(one)
    record()
    return True


def write_lock(path, timeout_seconds: float | None = None) -> int:
    """Waits until all plans that were asked for are there, and writes to a file which plan, and which code, each piece
    has: text for version control, which the option `lock` takes. How many pieces it has. Errors: Timeout, OSError."""
    plans = {key: plan.lock() for key, (plan, _) in best_plans(path, timeout_seconds).items()}
    _locks.write(path, plans)
    return len(plans)


def best_plans(path, timeout_seconds: float | None) -> dict:
    """For what is written to a file: by their keys the plans that pieces run now, as they are saved, and the targets
    that they are for; of two for equal pieces, such as on two GPUs, the better one. Errors: Timeout."""
    if not wait(timeout_seconds):
        raise errors.Timeout(f"{path} is not written: plans are on their way after {timeout_seconds} s")
    with _lock:
        slots = list(_slots.values())
    plans: dict = {}
    for one in slots:
        if (plan := one.plan) is None:
            continue
        if not isinstance(plan, _artifacts.SavedPlan):  # which may have been swapped since it was saved
            plan = _artifacts.SavedPlan(_artifacts.content_of(plan), *_place(one._wanted[2]))
        plans.setdefault(one.key, []).append((plan.info["predicted_us"], plan.lock(), plan, one.target))
    if missing := len({one.key for one in slots} - plans.keys()):
        _report.log.warning("%s does not have %d pieces, for which there is no plan", path, missing)
    return {key: min(found, key=lambda of: of[:2])[2:] for key, found in plans.items()}


def fingerprint() -> str:
    """A hash of which plan each piece runs now, in whatever order they were compiled: ranks that gather equal ones run
    the same kernels. Pieces that PyTorch still runs count as such; `wait` before."""
    with _lock:
        plans = sorted({(one.key, one.plan.info["id"] if one.plan is not None else "") for one in _slots.values()})
    return hashlib.sha256(json.dumps(plans).encode()).hexdigest()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    # Asked first: each of these makes a tensor, which takes longer than to ask.
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():  # a view that only promises its sign
        tensor = tensor.resolve_neg()
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor if _is_aligned(tensor) else tensor.clone()


def _is_aligned(tensor: torch.Tensor) -> bool:
    return _memory.address(tensor) % _native.buffer_alignment == 0


class cuda:  # noqa: N801: it stands for torch.cuda
    """What is asked of PyTorch about a GPU, in one place: tests have the emulated driver answer it."""

    empty = staticmethod(torch.empty)
    current_stream = staticmethod(torch.cuda.current_stream)

    @staticmethod
    def target(device: torch.device) -> str:
        """What a saved plan's code is for; whether it runs is found when it is opened."""
        of = torch.cuda.get_device_properties(device)
        return f"sm_{of.major}{of.minor}, {of.multi_processor_count} SMs"

    @staticmethod
    def current_handle(device: torch.device) -> int:
        """Of the current stream, whose object takes longer to make."""
        index = device.index if device.index is not None else torch.cuda.current_device()
        return torch._C._cuda_getCurrentRawStream(index)

    @staticmethod
    def is_capturing(device: torch.device) -> bool:
        if device.index in (None, torch.cuda.current_device()):
            return torch.cuda.is_current_stream_capturing()
        with torch.cuda.device(device):
            return torch.cuda.is_current_stream_capturing()


def _run_on_host(slot: Slot, inputs: list, outputs: list, device: torch.device) -> None:
    slot.plan.run(inputs, outputs)


def _launch(slot: Slot, inputs: list, outputs: list, device: torch.device) -> None:
    """Enqueues the plan on the current stream. What it reads and writes is in PyTorch's memory, which is given away in
    the order of that stream, so that nothing has to be kept alive until it has run. Runs of a plan share its workspace:
    one on another stream than the last one's waits for that. In a capture nothing outside can be waited for; whoever
    replays graphs orders them (docs/pytorch.md)."""
    handle = cuda.current_handle(device)
    with slot.launching:
        last = slot.stream
        if (last is None or last.cuda_stream != handle) and not cuda.is_capturing(device):
            slot.stream = cuda.current_stream(device)
            if last is not None:
                slot.stream.wait_event(last.record_event())
        slot.plan.launch([t.data_ptr() for t in inputs], [t.data_ptr() for t in outputs], handle)


class _Kernels:
    """What a piece runs in our kernels where all its extents are known: a plan, and what is made of its results.

    `rows`: where the plan is for more rows than there are, the axes of inputs and results, the extent and the bucket's.
    `parts`: the same where it is for fewer, and runs for the first rows and for the last ones.
    """

    def __init__(self, slot: Slot, results: list, rows: tuple | None = None, parts: tuple | None = None):
        self.slot, self.rows, self.parts = slot, rows, parts
        self.results = [(shape, dtype, stride, stride == _dense_strides(shape)) for shape, dtype, stride in results]
        self.made = [(shape, dtype) for shape, dtype, *_ in self.results]
        self.as_made = rows is None and all(dense for *_, dense in self.results)
        if rows is not None:
            _, axes, extent, bucket = rows
            pairs = zip(self.made, axes, strict=True)
            self.made = [(_grown(shape, axis, extent, bucket), dtype) for (shape, dtype), axis in pairs]

    def grown(self, inputs: list) -> list:
        """With the rows that the plan wants."""
        axes, _, extent, bucket = self.rows
        pairs = zip(inputs, axes, strict=True)
        return [x if axis is None else _dense(_rows.padded(x, axis, extent, bucket)) for x, axis in pairs]

    def run_parts(self, run, inputs: list, outputs: list, device: torch.device) -> None:
        """Rows in the middle are computed twice, to the same result."""
        axes, of_results, extent, count = self.parts
        for begin in (0, extent - count):
            given = [
                x if axis is None else _dense(_rows.part(x, axis, begin, count))
                for x, axis in zip(inputs, axes, strict=True)
            ]
            wanted = [
                y if axis is None else _rows.part(y, axis, begin, count)
                for y, axis in zip(outputs, of_results, strict=True)
            ]
            made = [y if _is_aligned(y) else torch.empty_like(y) for y in wanted]
            run(self.slot, given, made, device)
            for y, part in zip(wanted, made, strict=True):
                if y is not part:
                    y.copy_(part)

    def finished(self, outputs: list) -> list:
        """With the strides that PyTorch traced: views of it downstream count on them."""
        if self.rows is not None:
            _, axes, extent, bucket = self.rows
            pairs = zip(outputs, axes, strict=True)
            outputs = [y if axis is None else _rows.cut(y, axis, extent, bucket) for y, axis in pairs]
        return [_strided(output, *of) for output, of in zip(outputs, self.results, strict=True)]


def _grown(shape: tuple, axis, extent: int, bucket: int) -> tuple:
    if axis is None:
        return shape
    return (*shape[: axis.dim], shape[axis.dim] // extent * bucket, *shape[axis.dim + 1 :])


def _dense_strides(shape: tuple) -> tuple:
    """Of a tensor that lies in the order of its elements."""
    return torch.empty(shape, device="meta").stride()


def _strided(output, shape, dtype, stride, dense):
    if dense:
        return output
    # Along a stride of 0 all elements are one, which is written once.
    written = tuple(slice(0, 1) if step == 0 else slice(None) for step in stride)
    result = torch.empty_strided(shape, stride, dtype=dtype, device=output.device)
    result[written].copy_(output[written])
    return result


class Piece(torch.nn.Module):
    """A piece of a graph: our kernels where their plan is there, the operators themselves until then.

    `updates`: (input, result), what it may write where an input lies (`_updates.in_place`).
    """

    def __init__(self, operators: torch.fx.GraphModule, settings, device: torch.device, updates=()):
        super().__init__()
        self._updates = updates
        self.operators = operators
        self._settings, self._device = settings, device
        nodes = list(operators.graph.nodes)
        output = nodes[-1].args[0]
        self._single = not isinstance(output, (list, tuple))
        self._results = [node.meta["val"] for node in ([output] if self._single else output)]
        self._traced = [node.meta["val"] for node in nodes if node.op == "placeholder"]
        self._tensors = [i for i, value in enumerate(self._traced) if isinstance(value, torch.Tensor)]
        self._broken = False
        self._products = settings.products if any(map(_partition.is_library, nodes)) else ""
        self._strict = settings.lock is not None and settings.fallback == "error"
        # Guards of a graph that one rank compiles for all do not look at the number of the GPU.
        self._roams = device.type == "cuda" and getattr(torch.compiler.config, "compile_on_one_rank", False)
        self._inductor = None
        if settings.fallback == "inductor":
            self._inductor = _inductor.Compiled(operators, self._run_eagerly, device)
        values = [node.meta.get("val") for node in nodes if node.op != "output"]
        if not _shapes.symbols_of(values):
            self._choose = None
            self._first = _Kernels(self._slot_for(None), self._results_with(None))
            self._traced = self._results = None
            return
        self._choose = _Choice(self, _shapes.atoms_of(values))
        self._first = self._choose.kernels_for(_shapes.shapes_of(self._traced))

    def _slot_for(self, extents) -> Slot:
        document = _document.of_module(self.operators, extents)
        return slot(document, self._settings, self._device, bool(self._updates), self._products)

    def _results_with(self, extents) -> list:
        numbers = _shapes.numbers
        return [(numbers(r.shape, extents), r.dtype, numbers(r.stride(), extents)) for r in self._results]

    def describe(self) -> dict:
        """The plan as it is now, or that it is still to come."""
        plan = self._first.slot.plan if self._first else None
        if plan is None:
            return {"plan": None, "operators": len(self.operators.graph.nodes)}
        info = plan.info
        return {name: info[name] for name in ("id", "fragment", "label", "launches", "bytes", "predicted_us")}

    def ready(self, seconds: float | None) -> bool:
        return self._first is None or self._first.slot.done.wait(seconds)

    def check_lock(self) -> None:
        """Waits for the plan. Errors: where it is not what the lock names, and nothing else may run."""
        self.ready(None)
        if self._first is not None and self._first.slot.refusal is not None:
            raise self._first.slot.refusal

    def forward(self, *arguments):
        kernels = self._first if self._choose is None else self._choose(arguments)
        slot = kernels.slot if kernels is not None else None
        if slot is None or slot.plan is None or self._broken:
            if slot is not None:
                slot.ask()
                if self._strict and slot.refusal is not None:
                    raise slot.refusal
            return self._run_elsewhere(arguments)
        if _memory.is_not_all():
            return self._run_eagerly(arguments)
        if self._roams and any(isinstance(a, torch.Tensor) and a.device != self._device for a in arguments):
            _report.failed("roams", f"kernels that were loaded for {self._device} are not run on another GPU")
            return self._run_elsewhere(arguments)
        run, empty, over = _run_on_host, torch.empty, {}
        if self._device.type == "cuda":
            run, empty = _launch, cuda.empty
        try:
            tensors = arguments if self._choose is None else [arguments[i] for i in self._tensors]
            inputs = [_dense(argument) for argument in tensors]
            if kernels.rows is not None:
                inputs = kernels.grown(inputs)
            if self._updates:
                over = self._over(slot, arguments, inputs)
            outputs = [
                over[i] if i in over else empty(shape, dtype=dtype, device=self._device)
                for i, (shape, dtype) in enumerate(kernels.made)
            ]
            if kernels.parts is None:
                run(slot, inputs, outputs, self._device)
            else:
                kernels.run_parts(run, inputs, outputs, self._device)
            if not kernels.as_made:
                outputs = kernels.finished(outputs)
        except torch.OutOfMemoryError:
            raise  # which programs know how to take
        except _memory.Absent:
            _memory.said_absent()
            return self._run_eagerly(arguments)
        except Exception as error:
            if over and not isinstance(error, (errors.Unavailable, errors.InvalidArgument)):
                raise  # some of the inputs may be updated by now: nobody can begin anew
            self._give_up(error)
            return self._run_elsewhere(arguments)
        if not slot.recorded:
            slot.record()
        times = 1 if kernels.parts is None else 2
        _report.ran(times * slot.launches, times * slot.bytes)
        return outputs[0] if self._single else tuple(outputs)

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        ours = isinstance(error, errors.Error)
        what = str(error) if ours else f"{type(error).__name__}: {error}"
        _report.failed(f"run: {error.kind if ours else 'internal'}", f"a plan did not run: {what}")

    def _over(self, slot: Slot, arguments, inputs: list) -> dict:
        """By result, the input that it is written over: where the plan allows it, and the input is the caller's memory."""
        return {
            result: inputs[place]
            for place, result in self._updates
            if (place, result) in slot.in_place and inputs[place].data_ptr() == arguments[place].data_ptr()
        }

    def compile_what_is_dynamic(self) -> None:
        """With Inductor, if that is wanted: calls with other extents will not find a plan."""
        if self._inductor is not None and self._inductor.is_dynamic:
            self._inductor.compile_now()

    def _run_elsewhere(self, arguments: tuple):
        if self._inductor is not None:
            return self._inductor(list(arguments))
        return self._run_eagerly(arguments)

    def _run_eagerly(self, arguments):
        _report.count("eager_calls")
        return self.operators(*arguments)


class _Choice:
    """Which plan a piece runs whose extents change from call to call.

    Extents have plans of their own, of which there are no more than the option `buckets` says. Where the piece treats
    rows by themselves, the plan is a bucket's, which depends on the extent alone. If rows are outermost in all memory,
    it is the bucket of half of them, and runs twice; else, and where inputs are written over, rows are appended up to
    the bucket of all.
    """

    _REMEMBERED = 4096

    def __init__(self, piece: Piece, atoms: set):
        self._piece, self._most = piece, piece._settings.buckets
        self._plans, self._known = {}, {}
        self._axes, self._extent, self._bucket_of, self._lead = None, None, None, False
        if len(atoms) == 1:
            (self._extent,) = atoms
            self._axes = _rows.axes_of(piece.operators.graph, self._extent)
        if self._axes is not None:
            of_a_row = _rows.row_bytes(piece.operators.graph, self._axes)
            largest = _shapes.largest_of(self._extent, piece._traced)
            self._bucket_of = _buckets.Buckets(of_a_row, largest, self._most)
            self._lead = not piece._updates and _rows.lead(piece.operators.graph, self._axes)

    def __call__(self, arguments) -> _Kernels | None:
        shapes = tuple([a.shape if isinstance(a, torch.Tensor) else a for a in arguments])
        known = self._known
        try:
            if shapes in known:
                return known[shapes]
        except TypeError:  # extents that are no numbers: somebody traces the call
            return None
        found = self.kernels_for(shapes)
        if len(known) >= self._REMEMBERED:
            self._known = known = {}  # another thread may be looking into the old one
        known[shapes] = found
        return found

    def kernels_for(self, shapes: tuple) -> _Kernels | None:
        """None: PyTorch runs these, and it was said why."""
        try:
            return self._kernels_for(_shapes.extents_of(self._piece._traced, shapes))
        except _shapes.Cannot as reason:
            _report.failed("extents", f"a part of a graph has {reason}")
        except Exception as error:  # a fault of ours is no reason for a call of the user's to fail
            what = f"{type(error).__name__}: {error}"
            _report.failed("extents: internal", f"a part of a graph has no plan for its extents ({what})")
        return None

    def _kernels_for(self, extents: _shapes.Extents) -> _Kernels:
        wanted, rows, parts = extents, None, None
        if self._axes is not None and (extent := extents.get(self._extent, 0)) > 0:
            bucket, half = self._bucket_of(extent), self._bucket_of(-(-extent // 2))
            if bucket != extent and self._lead and half < extent:
                wanted, parts = {self._extent: half}, (*self._axes, extent, half)
            elif bucket != extent:
                wanted, rows = {self._extent: bucket}, (*self._axes, extent, bucket)
        key = tuple(sorted((str(atom), value) for atom, value in wanted.items()))
        if key not in self._plans:
            if len(self._plans) >= self._most:
                raise _shapes.Cannot(f"plans for {self._most} extents, as many as the option buckets allows")
            self._plans[key] = self._piece._slot_for(wanted)
        return _Kernels(self._plans[key], self._piece._results_with(extents), rows, parts)


def _in_child() -> None:
    _begin()
    for one in _slots.values():
        one.leave()


os.register_at_fork(after_in_child=_in_child)


def counts() -> dict:
    """How many plans are there, on their way, and did not come."""
    with _lock:
        slots = list(_slots.values())
    ready = sum(one.plan is not None for one in slots)
    pending = sum(one.asked and not one.done.is_set() for one in slots)
    missing = sum(one.plan is None and one.done.is_set() for one in slots)
    return {"ready": ready, "pending": pending, "missing": missing}
