// Streams that are captured into graphs.
#include "driver/api/entry.h"

#include <algorithm>

namespace stitch::driver {
namespace {

bool is_part_of(CUstream stream, const std::shared_ptr<Capture>& capture) { return stream->capture == capture; }

CUresult begin_capture(CUstream handle, CUgraph graph, std::vector<CUgraphNode> tail, CUstreamCaptureMode mode) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (stream == stream->context->legacy) {
      return call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot be captured");
    }
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (graph != nullptr) STITCH_CU_TRY(call.need(call.driver.graphs, graph));
    auto capture = std::make_shared<Capture>();
    capture->id = call.driver.next_serial();
    capture->into_graph = graph != nullptr;
    capture->graph = graph != nullptr ? graph : new CUgraph_st;
    if (graph == nullptr) call.driver.graphs.insert(capture->graph);
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    stream->capture = std::move(capture);
    stream->tail = std::move(tail);
    return CUDA_SUCCESS;
  });
}

/// Nodes that no other node of the graph, nor the origin's next one, would come after: work of streams that were not
/// joined again.
bool has_unjoined(const Driver& driver, const Capture& capture, const std::vector<CUgraphNode>& tail) {
  return std::ranges::any_of(driver.streams, [&](CUstream other) {
    if (other == capture.origin || other->capture.get() != &capture) return false;
    return std::ranges::any_of(other->tail, [&](CUgraphNode node) {
      return node->after.empty() && std::ranges::find(tail, node) == tail.end();
    });
  });
}

}  // namespace

CUgraphNode add_node(Driver& driver, CUgraph graph, std::vector<CUgraphNode> before, Work work) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->graph = graph;
  node->work = std::move(work);
  node->id = graph->next_id++;
  std::ranges::sort(before);
  before.erase(std::unique(before.begin(), before.end()), before.end());
  for (CUgraphNode earlier : before) earlier->after.push_back(node.get());
  node->before = std::move(before);
  driver.nodes.insert(node.get());
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

CUresult add_captured(Call& call, CUstream stream, Work work) {
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->tail = {add_node(call.driver, stream->capture->graph, stream->tail, std::move(work))};
  return CUDA_SUCCESS;
}

CUresult wait_captured(Call& call, CUstream stream, CUevent event) {
  const auto& capture = event->capture;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream == stream->context->legacy) {
    capture->invalidated = true;
    return call.refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream waits for an event of a captured one");
  }
  if (stream->capture == nullptr) {
    stream->capture = capture;
    stream->tail = event->nodes;
    return CUDA_SUCCESS;
  }
  if (!is_part_of(stream, capture)) {
    stream->capture->invalidated = true;
    capture->invalidated = true;
    return call.refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "a captured stream waits for an event of another capture");
  }
  for (CUgraphNode node : event->nodes) {
    if (std::ranges::find(stream->tail, node) == stream->tail.end()) stream->tail.push_back(node);
  }
  return CUDA_SUCCESS;
}

}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return begin_capture(stream, nullptr, {}, mode);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                             const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  if (graph == nullptr || (count > 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return begin_capture(stream, graph, {dependencies, dependencies + count}, mode);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    const auto capture = stream->capture;
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
      capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    const bool unjoined = !capture->invalidated && has_unjoined(call.driver, *capture, stream->tail);
    for (CUstream other : call.driver.streams) {
      if (other->capture != capture) continue;
      other->capture.reset();
      other->tail.clear();
    }
    for (CUevent event : call.driver.events) {
      if (event->capture == capture) event->capture.reset();
    }
    if (capture->invalidated || unjoined) {
      if (!capture->into_graph) {
        call.driver.graphs.erase(capture->graph);
        for (const auto& node : capture->graph->nodes) call.driver.nodes.erase(node.get());
        delete capture->graph;
      }
      return unjoined ? call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                                    "a stream that joined the capture was not joined again")
                      : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *graph = capture->graph;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = stream->capture == nullptr     ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                        size_t* count) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  STITCH_CU_TRY(cuStreamIsCapturing(handle, status));
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (stream->capture == nullptr) return CUDA_SUCCESS;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->graph;
    if (dependencies != nullptr) *dependencies = stream->tail.data();
    if (edges != nullptr) *edges = nullptr;  // all are whole dependencies
    if (count != nullptr) *count = stream->tail.size();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* dependencies, const CUgraphEdgeData*,
                                                   size_t count, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (count > 0 && dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tail.clear();
    stream->tail.insert(stream->tail.end(), dependencies, dependencies + count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_capture_mode());
  return CUDA_SUCCESS;
}
