"""Arrays as onnxruntime wraps them: in the host's memory, or in a GPU's."""

import ctypes

import numpy

from .. import _native, errors
from . import _types
from ._errors import InvalidArgument, translated

_CPU, _CUDA = "cpu", "cuda"
_DLPACK_CPU = 1


def _place(device_type: str) -> str:
    if device_type not in (_CPU, _CUDA):
        raise InvalidArgument(f"device '{device_type}' is neither cpu nor cuda")
    return device_type


class DeviceTensor:
    """A tensor in a GPU's memory, of its own or somebody else's. What NumPy's arrays tell of themselves it does, too;
    who asks for elements has them copied."""

    def __init__(self, native):
        self.native = native

    @classmethod
    def empty(cls, ours: str, shape, device_id: int) -> "DeviceTensor":
        with translated():
            return cls(_native.DeviceArray.empty(ours, list(shape), device_id))

    @classmethod
    def copy_of(cls, array: numpy.ndarray, device_id: int) -> "DeviceTensor":
        made = cls.empty(_types.ours_of_array(array), array.shape, device_id)
        made.write(array)
        return made

    @classmethod
    def given(cls, data, dtype: str = "") -> "DeviceTensor":
        """What has `__dlpack__`; `dtype`: what its elements are, where they come as others of that width."""
        with translated():
            return cls(_native.DeviceArray.of(data, dtype))

    @classmethod
    def at(cls, address: int, ours: str, shape, device_id: int) -> "DeviceTensor":
        with translated():
            return cls(_native.DeviceArray.at(address, ours, list(shape), device_id))

    @property
    def shape(self) -> tuple:
        return self.native.shape

    @property
    def dtype(self) -> numpy.dtype:
        return _types.numpy_of(self.native.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(numpy.prod(self.shape))

    def write(self, array) -> None:
        array = numpy.ascontiguousarray(array)
        with translated():
            self.native.write(array.reshape(-1).view(numpy.uint8))

    def numpy(self) -> numpy.ndarray:
        """A copy; work on streams that do not wait for the default one must have ended."""
        array = numpy.empty(self.shape, self.dtype)
        with translated():
            self.native.read(array.reshape(-1).view(numpy.uint8))
        return array

    def tobytes(self) -> bytes:
        return self.numpy().tobytes()

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)


def on_host(array) -> numpy.ndarray:
    return array.numpy() if isinstance(array, DeviceTensor) else array


def _numpy_type(element_type) -> numpy.dtype:
    """Of NumPy's type, or ONNX's number of one (TensorProto.DataType)."""
    if isinstance(element_type, int):
        if element_type not in _types.OURS_OF_NUMBER:
            raise InvalidArgument(f"element type {element_type} is none that is handled")
        return _types.numpy_of(_types.OURS_OF_NUMBER[element_type])
    return numpy.dtype(element_type)


def _at(place: str, device_id: int, element_type, shape, pointer: int):
    """A tensor of memory that somebody else has."""
    dtype = _numpy_type(element_type)
    if place == _CUDA:
        return DeviceTensor.at(pointer, _types.ours_of_type(dtype), shape, device_id)
    size = int(numpy.prod(shape)) * dtype.itemsize
    return numpy.frombuffer((ctypes.c_ubyte * size).from_address(pointer), dtype).reshape(shape)


class OrtValue:
    """A tensor; shares its memory with the array that it was made of."""

    def __init__(self, array):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """`device_type` "cuda": a copy in the memory of that GPU."""
        array = numpy.asarray(array)
        return OrtValue(DeviceTensor.copy_of(array, device_id) if _place(device_type) == _CUDA else array)

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        dtype = _numpy_type(element_type)
        if _place(device_type) == _CUDA:
            return OrtValue(DeviceTensor.empty(_types.ours_of_type(dtype), tuple(shape), device_id))
        return OrtValue(numpy.empty(tuple(shape), dtype))

    @staticmethod
    def from_dlpack(data, is_bool_tensor: bool = False) -> "OrtValue":
        """Of the host or of a GPU; what there is to wait for before its memory is used, whoever calls this orders."""
        if data.__dlpack_device__()[0] != _DLPACK_CPU:
            return OrtValue(DeviceTensor.given(data, "pred" if is_bool_tensor else ""))
        array = numpy.from_dlpack(data)
        return OrtValue(array.view(bool) if is_bool_tensor else array)

    def __dlpack__(self, **options):
        return (self._array.native if self._is_on_device else self._array).__dlpack__(**options)

    def __dlpack_device__(self):
        return (self._array.native if self._is_on_device else self._array).__dlpack_device__()

    @property
    def _is_on_device(self) -> bool:
        return isinstance(self._array, DeviceTensor)

    def numpy(self) -> numpy.ndarray:
        """On the host: of a GPU's a copy."""
        return on_host(self._array)

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        """ "tensor(float)" """
        return _types.text_of_array(self._array)

    def data_ptr(self) -> int:
        return self._array.native.address if self._is_on_device else self._array.ctypes.data

    def device_name(self) -> str:
        return _CUDA if self._is_on_device else _CPU

    def is_tensor(self) -> bool:
        return True

    def has_value(self) -> bool:
        return True

    def update_inplace(self, array) -> None:
        """Copies an array of the host (or an OrtValue) into its memory, and waits."""
        array = array.numpy() if isinstance(array, OrtValue) else numpy.asarray(array)
        if not self._is_on_device:
            self._array[...] = array
            return
        if array.shape != self._array.shape or array.dtype != self._array.dtype:
            raise InvalidArgument(
                f"{_types.text_of_array(array)} {list(array.shape)} does not fit {self.data_type()} {self.shape()}"
            )
        self._array.write(array)


class IOBinding:
    """Inputs and outputs that are named once and run many times, by `InferenceSession.run_with_iobinding`.

    Where the session has a GPU (`device` "cuda") and its model can be enqueued there, what is bound in the GPU's memory
    is read and written where it lies; what is not is copied.
    """

    def __init__(self, session):
        self._session = session
        self._inputs: dict = {}
        self._outputs: dict = {}
        self._made: dict = {}
        self._results: list = []

    def bind_cpu_input(self, name: str, array) -> None:
        self._inputs[name] = numpy.asarray(array)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type, shape, buffer_ptr: int) -> None:
        """Memory by its address, which nobody looks into."""
        self._inputs[name] = _at(_place(device_type), device_id, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value._array

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type=None, shape=None, buffer_ptr=None
    ) -> None:
        """Without `buffer_ptr` the run makes the result's memory ("cuda": once for each shape, and every run writes it
        anew); with it, and `element_type` and `shape`, the result is written there."""
        place = _place(device_type)
        if buffer_ptr is None:
            self._outputs[name] = None if place == _CPU else device_id
        elif element_type is None or shape is None:
            raise InvalidArgument(f"output '{name}': memory by its address has element_type and shape")
        else:
            self._outputs[name] = OrtValue(_at(place, device_id, element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value

    def synchronize_inputs(self) -> None:
        """Waits for the stream that the session runs on."""
        self._session._synchronize()

    def synchronize_outputs(self) -> None:
        """The same, after a run that did not (`disable_synchronize_execution_providers`)."""
        self._session._synchronize()

    def get_outputs(self) -> list[OrtValue]:
        return self._results

    def copy_outputs_to_cpu(self) -> list[numpy.ndarray]:
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._made.clear()
        self._results = []

    def _device_result(self, name: str, port, device_id: int) -> OrtValue:
        """Memory for a result that is to stay on the GPU."""
        key = (name, port.dtype, port.shape, device_id)
        if key not in self._made:
            self._made[key] = OrtValue(DeviceTensor.empty(port.dtype, port.shape, device_id))
        return self._made[key]

    def _run(self, run_options) -> None:
        if self._session._run_on_device(self, run_options):
            return
        feeds = {name: on_host(array) for name, array in self._inputs.items()}
        results = self._session.run(list(self._outputs), feeds, run_options)
        self._results = []
        for (name, value), result in zip(self._outputs.items(), results, strict=True):
            if isinstance(value, OrtValue):
                check_fit(name, value, _types.text_of_array(result), result.shape)
                value.update_inplace(result)
                self._results.append(value)
            else:
                self._results.append(OrtValue(result if value is None else DeviceTensor.copy_of(result, value)))


def check_fit(name: str, value: OrtValue, text: str, shape) -> None:
    """Errors: InvalidArgument where a bound output has another type or shape than the result."""
    if value.shape() != list(shape) or value.data_type() != text:
        raise InvalidArgument(
            f"output '{name}': {text} {list(shape)} does not fit the {value.data_type()} {value.shape()} that is bound"
        )
