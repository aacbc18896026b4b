#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "driver/state/launch_order.h"
#include "driver/state/memory_file.h"
#include "driver/state/stream_clock.h"
#include "driver/state/work.h"

namespace stitch::driver {

/// A capture under way: where it began, what it has made.
struct Capture {
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool invalidated = false;
  bool into_graph = false;  ///< cuStreamBeginCaptureToGraph: the graph is the caller's
};

}  // namespace stitch::driver

struct CUctx_st {
  CUdevice device = 0;
  unsigned flags = 0;
  bool primary = false;
  int retained = 0;  ///< of a primary context
  unsigned long long id = 0;
  std::atomic<int> fault = CUDA_SUCCESS;  ///< the error that lost it: every call gets it from then on
  std::map<CUlimit, std::size_t> limits;
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  CUstream legacy = nullptr;  ///< the default stream, which waits for the blocking ones
  std::map<std::thread::id, CUstream> per_thread;
  std::set<CUstream> streams;  ///< all, those included
};

struct CUstream_st {
  CUcontext context = nullptr;
  std::uint32_t queue = 0;
  bool blocking = true;  ///< ordered with the default stream
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  stitch::driver::StreamClock known;  ///< what its next operation comes after
  stitch::driver::LaunchOrder order;  ///< of its last operation, for a kernel that depends on it
  std::shared_ptr<stitch::driver::Capture> capture;
  std::vector<CUgraphNode> tail;  ///< while captured: what the next node depends on
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes;

  /// All that is to come knows this, too.
  void learn(const stitch::driver::StreamClock& clock) {
    known.join(clock);
    order.join(clock);
  }
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  stitch::driver::StreamClock at;
  std::shared_ptr<stitch::driver::Capture> capture;  ///< set while it was recorded by a captured stream last
  std::vector<CUgraphNode> nodes;
};

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  stitch::driver::Work work;
  std::vector<CUgraphNode> before, after;
  unsigned id = 0;
  CUgraphNode cloned_from = nullptr;
  std::vector<void*> parameter_pointers;  ///< into the work's parameters, as cuGraphKernelNodeGetParams hands them out
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  ///< in order of creation
  unsigned next_id = 1;
  CUgraph parent = nullptr;  ///< of a child node's graph
  std::vector<std::unique_ptr<CUgraph_st>> children;
  std::map<CUuserObject, unsigned> retained;
};

struct CUgraphExec_st {
  std::unique_ptr<CUgraph_st> graph;               ///< a copy
  std::map<CUgraphNode, CUgraphNode> of_original;  ///< the node of the graph that was instantiated, and its copy
  std::set<CUgraphNode> disabled;
  unsigned long long flags = 0;
  std::vector<std::uint32_t> queues;  ///< of its branches
  stitch::driver::StreamClock last;   ///< the end of its last launch
};

struct CUmemPoolHandle_st {
  CUmemPoolProps properties{};
  CUdevice device = 0;
  bool is_default = false;
  std::uint64_t threshold = 0;
  int reuse[3] = {1, 1, 1};
  std::uint64_t highest = 0;
  std::map<std::pair<int, int>, CUmemAccess_flags> access;  ///< by location's type and id
  std::shared_ptr<stitch::driver::MemoryFile> file;         ///< of a pool that other processes can see
  bool imported = false;                                    ///< of another process, which alone allocates
};

struct CUuserObject_st {
  void* object = nullptr;
  CUhostFn destroy = nullptr;
  unsigned references = 0;
};
