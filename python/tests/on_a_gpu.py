"""A GPU by cuda.core, for programs that tests run on the emulated driver: a stream, arrays, and what was asked of the
driver."""

import ctypes
import dataclasses

import numpy
from cuda.bindings import driver
from cuda.core import Device
from cuda.core.utils import StridedMemoryView

device = Device()
device.set_current()
stream = device.create_stream()

_library = ctypes.CDLL("libcuda.so.1")


def check(answer):
    """What a function of cuda.bindings returns behind its result."""
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]


class Array:
    """A Buffer of cuda.core with a shape and a type, which it gives by `__dlpack__`."""

    def __init__(self, contents, on=None, **options):
        contents = numpy.asarray(contents)
        self.shape, self.dtype = contents.shape, contents.dtype
        self.buffer = (on or device).allocate(max(1, contents.nbytes), stream=stream)
        self.view = StridedMemoryView.from_buffer(self.buffer, self.shape, dtype=self.dtype, **options)
        self.write(contents)

    @property
    def address(self) -> int:
        return int(self.buffer.handle)

    def write(self, contents) -> None:
        stream.sync()
        contents = numpy.ascontiguousarray(contents, self.dtype)
        check(driver.cuMemcpyHtoD(self.address, contents.ctypes.data, contents.nbytes))

    def read(self) -> numpy.ndarray:
        stream.sync()
        contents = numpy.empty(self.shape, self.dtype)
        check(driver.cuMemcpyDtoH(contents.ctypes.data, self.address, contents.nbytes))
        return contents

    def __dlpack__(self, **options):
        return self.view.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.view.__dlpack_device__()


@dataclasses.dataclass(frozen=True)
class Asked:
    """How often the driver was called, how often that waited for the device, and what was allocated and loaded."""

    calls: int
    waits: int
    allocations: int
    images: int


def _asked() -> Asked:
    images, *numbers = (ctypes.c_uint64() for _ in range(4))
    _library.stitch_emulated_totals(ctypes.byref(images), None)
    _library.stitch_emulated_calls(*map(ctypes.byref, numbers))
    return Asked(*(number.value for number in numbers), images.value)


def asked(function) -> Asked:
    """What a function asks of the driver."""
    before = _asked()
    function()
    after = _asked()
    own = 2  # those of _asked
    return Asked(
        after.calls - before.calls - own,
        after.waits - before.waits,
        after.allocations - before.allocations,
        after.images - before.images,
    )


def captured(function):
    """A CUDA graph of what a function enqueues on a graph builder's stream, in the mode in which whatever allocates or
    waits is an error. Returns the graph, and what was asked of the driver meanwhile."""
    builder = stream.create_graph_builder().begin_building("global")
    counts = asked(lambda: function(builder))
    return builder.end_building().complete(), counts
