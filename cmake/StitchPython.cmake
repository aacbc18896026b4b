# Python's headers and nanobind, as pip installs it. Python_EXECUTABLE names the interpreter that the module is for.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE missing)
if(missing)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind: pip install nanobind, or -DSTITCH_PYTHON_MODULE=OFF")
endif()
find_package(nanobind CONFIG REQUIRED)
# Its headers do not compile without warnings.
add_library(stitch_nanobind INTERFACE)
target_include_directories(stitch_nanobind SYSTEM INTERFACE ${NB_DIR}/include ${Python_INCLUDE_DIRS})

# Headers of XLA's foreign-function interface, as jaxlib brings them (they link nothing). Without them stitch.jax leaves
# everything to XLA.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u, os; print(os.path.join(os.path.dirname(u.find_spec('jaxlib').origin), 'include'))"
                OUTPUT_VARIABLE xla_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE missing)
if(NOT missing AND EXISTS ${xla_include}/xla/ffi/api/ffi.h)
  target_include_directories(stitch_nanobind SYSTEM INTERFACE ${xla_include})
  target_compile_definitions(stitch_nanobind INTERFACE STITCH_XLA_FFI)
else()
  message(STATUS "${Python_EXECUTABLE} has no jaxlib: the native module is built without XLA's handler")
endif()
