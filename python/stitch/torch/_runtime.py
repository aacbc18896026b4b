"""Plans behind a graph's pieces: fetched aside, run when they are there."""

import concurrent.futures
import ctypes
import os
import threading
import time
import weakref

import torch

from .. import _native, _server, errors
from . import _document, _report

_FETCH_MS = 60_000
_ATTEMPTS = 10
_RETRY_SECONDS = 30.0

_slots: dict = {}
_dead: dict = {}


def _begin() -> None:
    """What a process has of its own: a child has neither its parent's threads nor the locks that they held."""
    global _pool, _lock, _unfinished
    _pool = concurrent.futures.ThreadPoolExecutor(max_workers=2, thread_name_prefix="stitch-fetch")
    _lock = threading.Lock()
    _unfinished = weakref.WeakSet()


_begin()


class Slot:
    """The plan of one fragment, once it is there; equal pieces of all graphs share it."""

    def __init__(self, document: str, settings, device: torch.device, constraints: str):
        self._wanted = (document, settings, device, constraints)
        self._begin()

    def _begin(self) -> None:
        self.plan = None
        self.launches = self.bytes = 0
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

    def _fill(self, *wanted) -> None:
        settings = wanted[1]
        try:
            self.plan = _fetch(*wanted)
            self.launches, self.bytes = self.plan.info["launches"], self.plan.info["bytes"]
            if settings.improve:
                self.plan.watch()
        except errors.Unavailable as error:
            _dead[settings.server] = time.monotonic()
            _report.failed("unavailable", str(error))
        except errors.Error as error:
            _report.failed(f"plan: {error.kind}", f"no plan: {error}")
        except Exception as error:  # a fault of ours must not end the pool's thread unheard
            _report.failed("plan: internal", f"no plan: {type(error).__name__}: {error}")
        finally:
            self.done.set()


def _fetch(document: str, settings, device: torch.device, constraints: str):
    if time.monotonic() - _dead.get(settings.server, -_RETRY_SECONDS) < _RETRY_SECONDS:
        raise errors.Unavailable("the server did not answer a moment ago")
    fragment = _native.read_aten(document)
    client = _server.shared(settings.server)
    place = ("cuda", device.index or 0) if device.type == "cuda" else (settings.device, 0)
    for attempt in range(_ATTEMPTS):
        try:
            return client.plan(fragment, *place, _FETCH_MS, settings.improve, constraints)
        except errors.Timeout:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def slot(document: str, settings, device: torch.device) -> Slot:
    """The slot of a document; whoever asks first has it fetched. Of a plan on a GPU each of them has its own."""
    # What was asked of PyTorch when it compiled is asked of the plan.
    constraints = "deterministic" if torch.are_deterministic_algorithms_enabled() else ""
    key = (settings.server, settings.device, device, document, constraints)
    with _lock:
        found = _slots.get(key)
        # Where no plan came of it, the next compilation asks again.
        if found is None or (found.done.is_set() and found.plan is None):
            found = _slots[key] = Slot(document, settings, device, constraints)
    found.ask()
    return found


def wait(timeout_seconds: float | None = None) -> bool:
    """Waits until all plans that were asked for are there or have failed; False when that took too long."""
    end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    for one in list(_unfinished):
        if not one.done.wait(None if end is None else max(0.0, end - time.monotonic())):
            return False
        _unfinished.discard(one)
    return True


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    # Asked first: each of these makes a tensor, which takes longer than to ask.
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():  # a view that only promises its sign
        tensor = tensor.resolve_neg()
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % _native.buffer_alignment == 0 else tensor.clone()


class cuda:  # noqa: N801: it stands for torch.cuda
    """What is asked of PyTorch about a GPU, in one place: tests have the emulated driver answer it."""

    empty = staticmethod(torch.empty)
    current_stream = staticmethod(torch.cuda.current_stream)

    @staticmethod
    def is_capturing(device: torch.device) -> bool:
        with torch.cuda.device(device):
            return torch.cuda.is_current_stream_capturing()


def _run_on_host(slot: Slot, inputs: list, outputs: list, device: torch.device) -> None:
    slot.plan.run(inputs, outputs)


def _launch(slot: Slot, inputs: list, outputs: list, device: torch.device) -> None:
    """Enqueues the plan on the current stream. What it reads and writes is in PyTorch's memory, which is given away in
    the order of that stream, so that nothing has to be kept alive until it has run. Runs of a plan share its workspace:
    one on another stream than the last one's waits for that. In a capture nothing outside can be waited for; whoever
    replays graphs orders them (docs/pytorch.md)."""
    stream = cuda.current_stream(device)
    with slot.launching:
        if not cuda.is_capturing(device):
            last, slot.stream = slot.stream, stream
            if last is not None and last.cuda_stream != stream.cuda_stream:
                stream.wait_event(last.record_event())
        slot.plan.launch([t.data_ptr() for t in inputs], [t.data_ptr() for t in outputs], stream.cuda_stream)


class Piece(torch.nn.Module):
    """A piece of a graph: our kernels where their plan is there, the operators themselves until then."""

    def __init__(self, operators: torch.fx.GraphModule, settings, device: torch.device):
        super().__init__()
        self.operators = operators
        self._device = device
        output = next(node for node in operators.graph.nodes if node.op == "output").args[0]
        self._single = not isinstance(output, (list, tuple))
        self._results = [node.meta["val"] for node in ([output] if self._single else output)]
        self._shapes = [(tuple(r.shape), r.dtype, tuple(r.stride()), _is_dense(r)) for r in self._results]
        self._results = None
        self._slot = slot(_document.of_module(operators), settings, device)
        self._broken = False

    def describe(self) -> dict:
        """The plan as it is now, or that it is still to come."""
        plan = self._slot.plan
        if plan is None:
            return {"plan": None, "operators": len(self.operators.graph.nodes)}
        info = plan.info
        return {name: info[name] for name in ("id", "fragment", "label", "launches", "bytes", "predicted_us")}

    def ready(self, seconds: float) -> bool:
        return self._slot.done.wait(seconds)

    def forward(self, *arguments):
        plan = self._slot.plan
        if plan is None or self._broken:
            self._slot.ask()
            _report.count("eager_calls")
            return self.operators(*arguments)
        run, empty = _run_on_host, torch.empty
        if self._device.type == "cuda":
            run, empty = _launch, cuda.empty
        # Memory that there is not is PyTorch's error, which programs know how to take.
        inputs = [_dense(argument) for argument in arguments]
        outputs = [empty(shape, dtype=dtype, device=self._device) for shape, dtype, _, _ in self._shapes]
        try:
            run(self._slot, inputs, outputs, self._device)
        except Exception as error:
            self._broken = True
            ours = isinstance(error, errors.Error)
            what = str(error) if ours else f"{type(error).__name__}: {error}"
            _report.failed(f"run: {error.kind if ours else 'internal'}", f"a plan did not run: {what}")
            return self.operators(*arguments)
        _report.ran(self._slot.launches, self._slot.bytes)
        outputs = [self._strided(output, i) for i, output in enumerate(outputs)]
        return outputs[0] if self._single else tuple(outputs)

    def _strided(self, output, index: int):
        """With the strides that PyTorch traced: views of it downstream count on them."""
        shape, dtype, stride, dense = self._shapes[index]
        if dense:
            return output
        # Along a stride of 0 all elements are one, which is written once.
        written = tuple(slice(0, 1) if step == 0 else slice(None) for step in stride)
        result = torch.empty_strided(shape, stride, dtype=dtype, device=output.device)
        result[written].copy_(output[written])
        return result


def _is_dense(value) -> bool:
    return value.is_contiguous()


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
