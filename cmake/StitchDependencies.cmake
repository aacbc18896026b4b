# Everything outside the repository. scripts/dependencies installs it on Debian bookworm.
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(TBB REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)  # SHA-256, by which artifacts are named
find_package(SQLite3 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
# Debian's configuration file of XGBoost names a program that no package has.
find_path(STITCH_XGBOOST_INCLUDE xgboost/c_api.h REQUIRED)
find_library(STITCH_XGBOOST_LIBRARY xgboost REQUIRED)
add_library(stitch_xgboost INTERFACE)
add_library(stitch::xgboost ALIAS stitch_xgboost)
target_include_directories(stitch_xgboost SYSTEM INTERFACE ${STITCH_XGBOOST_INCLUDE})
target_link_libraries(stitch_xgboost INTERFACE ${STITCH_XGBOOST_LIBRARY})
find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED CONFIG)

# The CUDA toolkit: a system one, or the pieces that scripts/dependencies fetches from PyPI into .cuda/.
set(STITCH_CUDA_ROOT "" CACHE PATH "CUDA toolkit (or the folder that scripts/dependencies filled)")
find_path(STITCH_CUDA_INCLUDE nvrtc.h
  HINTS ${STITCH_CUDA_ROOT} ${CMAKE_SOURCE_DIR}/.cuda /usr/local/cuda $ENV{CUDA_HOME} PATH_SUFFIXES include REQUIRED)
find_file(STITCH_NVRTC_LIBRARY NAMES libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so
  HINTS ${STITCH_CUDA_ROOT} ${CMAKE_SOURCE_DIR}/.cuda /usr/local/cuda $ENV{CUDA_HOME} PATH_SUFFIXES lib64 lib REQUIRED)
# NVRTC and the driver are loaded at run time, so that a machine without them gets an error that says so.
add_library(stitch_cuda_headers INTERFACE)
add_library(stitch::cuda_headers ALIAS stitch_cuda_headers)
target_include_directories(stitch_cuda_headers SYSTEM INTERFACE ${STITCH_CUDA_INCLUDE})
target_link_libraries(stitch_cuda_headers INTERFACE ${CMAKE_DL_LIBS})
get_filename_component(STITCH_NVRTC_DIRECTORY ${STITCH_NVRTC_LIBRARY} DIRECTORY)

# CUPTI, by which stitch-runner times kernels: part of a toolkit (beside its other headers, or in extras/CUPTI). Its
# library is not linked either; where it was found is where the runner looks first.
find_path(STITCH_CUPTI_INCLUDE cupti_range_profiler.h
  HINTS ${STITCH_CUDA_ROOT} ${CMAKE_SOURCE_DIR}/.cuda ${STITCH_CUDA_INCLUDE}/.. /usr/local/cuda $ENV{CUDA_HOME}
  PATH_SUFFIXES include extras/CUPTI/include REQUIRED)
find_file(STITCH_CUPTI_LIBRARY NAMES libcupti.so.13 libcupti.so.12 libcupti.so
  HINTS ${STITCH_CUDA_ROOT} ${CMAKE_SOURCE_DIR}/.cuda ${STITCH_CUDA_INCLUDE}/.. /usr/local/cuda $ENV{CUDA_HOME}
  PATH_SUFFIXES lib64 lib extras/CUPTI/lib64)
get_filename_component(STITCH_CUPTI_DIRECTORY "${STITCH_CUPTI_LIBRARY}" DIRECTORY)
add_library(stitch_cupti_headers INTERFACE)
add_library(stitch::cupti_headers ALIAS stitch_cupti_headers)
target_include_directories(stitch_cupti_headers SYSTEM INTERFACE ${STITCH_CUPTI_INCLUDE})
target_link_libraries(stitch_cupti_headers INTERFACE stitch::cuda_headers)
