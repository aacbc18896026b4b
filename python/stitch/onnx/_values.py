"""Arrays as onnxruntime wraps them; all of them lie in the host's memory."""

import numpy

from . import _types
from ._errors import InvalidArgument


def _only_cpu(device_type: str) -> None:
    if device_type != "cpu":
        raise InvalidArgument(f"device '{device_type}': inputs and outputs lie in the host's memory (cpu)")


class OrtValue:
    """A tensor of the host; shares its memory with the array that it was made of."""

    def __init__(self, array: numpy.ndarray):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _only_cpu(device_type)
        return OrtValue(numpy.asarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _only_cpu(device_type)
        return OrtValue(numpy.empty(tuple(shape), element_type))

    @staticmethod
    def from_dlpack(data, is_bool_tensor: bool = False) -> "OrtValue":
        array = numpy.from_dlpack(data)
        return OrtValue(array.view(bool) if is_bool_tensor else array)

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def numpy(self) -> numpy.ndarray:
        return self._array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        """ "tensor(float)" """
        return _types.text_of_array(self._array)

    def data_ptr(self) -> int:
        return self._array.ctypes.data

    def device_name(self) -> str:
        return "cpu"

    def is_tensor(self) -> bool:
        return True

    def has_value(self) -> bool:
        return True

    def update_inplace(self, array) -> None:
        self._array[...] = array


class IOBinding:
    """Inputs and outputs that are named once and run many times, by `InferenceSession.run_with_iobinding`."""

    def __init__(self, session):
        self._session = session
        self._inputs: dict = {}
        self._outputs: dict = {}
        self._results: list = []

    def bind_cpu_input(self, name: str, array) -> None:
        self._inputs[name] = numpy.asarray(array)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value.numpy()

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, **place) -> None:
        """`place` (element_type, shape, buffer_ptr) is refused: bind an OrtValue to have a result written there."""
        _only_cpu(device_type)
        if any(value is not None for value in place.values()):
            raise InvalidArgument(f"output '{name}': memory by its address; use bind_ortvalue_output")
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value

    def synchronize_inputs(self) -> None:
        """Nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for."""

    def get_outputs(self) -> list[OrtValue]:
        return self._results

    def copy_outputs_to_cpu(self) -> list[numpy.ndarray]:
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results = []

    def _run(self, run_options) -> None:
        results = self._session.run(list(self._outputs), self._inputs, run_options)
        self._results = []
        for (name, value), result in zip(self._outputs.items(), results, strict=True):
            if value is None:
                self._results.append(OrtValue(result))
                continue
            if value.shape() != list(result.shape) or value.data_type() != _types.text_of_array(result):
                raise InvalidArgument(
                    f"output '{name}': {_types.text_of_array(result)} {list(result.shape)} does not fit the"
                    f" {value.data_type()} {value.shape()} that is bound"
                )
            value.update_inplace(result)
            self._results.append(value)
