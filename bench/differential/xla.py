"""HLO text on XLA's CPU backend."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jaxlib._hlo as hlo
import numpy as np
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)
_device = jax.devices("cpu")[0]
_devices = xla_client._xla.DeviceList((_device,))
_convert = xla_client._xla.mlir.xla_computation_to_mlir_module


class Refused(Exception):
    """XLA does not take the module, or cannot run it."""


def run_text(text, inputs):
    """The results of a module, a list of arrays."""
    try:
        module = hlo.hlo_module_from_text(text)
        computation = hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        program = _device.client.compile_and_load(_convert(computation), _devices, xla_client.CompileOptions())
        # Arrays are copied: a buffer that XLA may alias with NumPy's memory must not be reused for a result.
        arguments = [jax.device_put(np.array(value), _device) for value in inputs]
        return [np.asarray(value) for value in program.execute(arguments)]
    except (RuntimeError, ValueError, TypeError) as error:  # XlaRuntimeError is a RuntimeError
        raise Refused(str(error).splitlines()[0][:300]) from None


def lowered_text(function, arguments):
    """HLO text as jax hands it to XLA."""
    return jax.jit(function, keep_unused=True).lower(*arguments).compiler_ir("hlo").as_hlo_text()
