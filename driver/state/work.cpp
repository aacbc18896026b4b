#include "driver/state/work.h"

#include <fmt/format.h>

namespace stitch::driver {
namespace {

struct Describer {
  std::string operator()(const EmptyWork&) const { return "empty node"; }
  std::string operator()(const KernelWork& work) const { return fmt::format("kernel {}", work.kernel->name()); }
  std::string operator()(const LibraryWork& work) const { return work.name; }
  std::string operator()(const CopyWork& work) const {
    return fmt::format("copy of {} bytes", work.shape.WidthInBytes * work.shape.Height * work.shape.Depth);
  }
  std::string operator()(const FillWork& work) const {
    return fmt::format("fill of {} bytes", work.shape.width * work.shape.elementSize * work.shape.height);
  }
  std::string operator()(const HostWork&) const { return "host function"; }
  std::string operator()(const AllocateWork& work) const { return fmt::format("allocation of {} bytes", work.bytes); }
  std::string operator()(const FreeWork&) const { return "free"; }
  std::string operator()(const WordsWork&) const { return "memory operation"; }
  std::string operator()(const RecordWork&) const { return "event record"; }
  std::string operator()(const WaitWork&) const { return "event wait"; }
  std::string operator()(const ChildWork&) const { return "child graph"; }
};

struct TypeFinder {
  CUgraphNodeType operator()(const EmptyWork&) const { return CU_GRAPH_NODE_TYPE_EMPTY; }
  CUgraphNodeType operator()(const KernelWork&) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
  CUgraphNodeType operator()(const LibraryWork&) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
  CUgraphNodeType operator()(const CopyWork&) const { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  CUgraphNodeType operator()(const FillWork&) const { return CU_GRAPH_NODE_TYPE_MEMSET; }
  CUgraphNodeType operator()(const HostWork&) const { return CU_GRAPH_NODE_TYPE_HOST; }
  CUgraphNodeType operator()(const AllocateWork&) const { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  CUgraphNodeType operator()(const FreeWork&) const { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUgraphNodeType operator()(const WordsWork&) const { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  CUgraphNodeType operator()(const RecordWork&) const { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUgraphNodeType operator()(const WaitWork&) const { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUgraphNodeType operator()(const ChildWork&) const { return CU_GRAPH_NODE_TYPE_GRAPH; }
};

}  // namespace

CUgraphNodeType node_type(const Work& work) { return std::visit(TypeFinder(), work); }

std::string describe(const Work& work) { return std::visit(Describer(), work); }

}  // namespace stitch::driver
