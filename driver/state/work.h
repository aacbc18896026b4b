#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "driver/state/library_work.h"
#include "driver/state/module.h"
#include "emulator/run/launch_config.h"

/// What streams and graphs are made of: each is a value that says what to do, so that a call on a stream that is being
/// captured becomes a node, and a node that is launched becomes an operation, without either knowing of the other.
namespace stitch::driver {

struct KernelWork {
  std::shared_ptr<Kernel> kernel;  ///< outlives its module, as long as something is going to launch it
  emulator::LaunchConfig config;
  std::vector<std::byte> parameters;  ///< the parameter block
  std::vector<CUlaunchAttribute> attributes;
  bool overlaps = false;  ///< programmatic stream serialisation was asked for: may begin before the one before it ends
};

/// Any copy; one-dimensional ones have a height and a depth of 1, and lie in unified memory.
struct CopyWork {
  CUDA_MEMCPY3D shape{};
  std::shared_ptr<const std::vector<std::byte>> staged;  ///< a pageable source as it was when the call was made
};

struct FillWork {
  CUDA_MEMSET_NODE_PARAMS shape{};
};

struct HostWork {
  CUhostFn function = nullptr;
  void* data = nullptr;
  std::function<void()> callback;  ///< instead of `function`: of cuStreamAddCallback
};

/// An allocation that begins or ends with the stream's order; the memory itself is there from the call on.
struct AllocateWork {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};  ///< of a node
};
struct FreeWork {
  CUdeviceptr address = 0;
  bool of_graph = false;  ///< the address comes back with the next launch: the memory stays
};

/// Waits for, or writes, words of memory, in order.
struct WordsWork {
  std::vector<CUstreamBatchMemOpParams> words;
};

struct EmptyWork {};
/// In graphs only: on streams they are no operation, but change what the next ones wait for.
struct RecordWork {
  CUevent event = nullptr;
};
struct WaitWork {
  CUevent event = nullptr;
};
struct ChildWork {
  CUgraph graph = nullptr;  ///< the node's own
};

using Work = std::variant<EmptyWork, KernelWork, LibraryWork, CopyWork, FillWork, HostWork, AllocateWork, FreeWork,
                          WordsWork, RecordWork, WaitWork, ChildWork>;

CUgraphNodeType node_type(const Work& work);
/// "kernel saxpy", "copy of 4096 bytes".
std::string describe(const Work& work);

}  // namespace stitch::driver
