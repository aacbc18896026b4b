#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "client/cuda_context.h"
#include "graph/graph.h"

namespace stitch::python {

/// Memory of a GPU with a type, dense and row-major: its own, or somebody else's, which `owner` keeps.
struct [[gnu::visibility("hidden")]] DeviceArray {  // as nanobind's types are
  std::shared_ptr<const client::CudaContext> context;
  int ordinal = 0;
  graph::TensorType type;
  std::uint64_t address = 0;
  bool is_read_only = false;
  nanobind::object owner;
  std::optional<client::DeviceMemory> memory;  ///< where it is its own

  DeviceArray() = default;
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray();
};

}  // namespace stitch::python
