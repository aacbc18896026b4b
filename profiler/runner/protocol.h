#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/frame.h"
#include "base/result.h"
#include "graph/graph.h"
#include "profiler/device/device.h"
#include "profiler/measure/timed_device.h"
#include "profiler/verify/input_source.h"

// What stitch-runner and its parent say to each other over the runner's standard streams (docs/measurement.md): the
// parent sends a request and reads the reply to it, one at a time. A kernel is run by
//
//   {1, 0, HelloRequest{}}                          {1, false, WelcomeReply{…}}
//   {2, 0, OpenRequest{}}                           {2, false, OpenedReply{1, false}}
//   {3, 1, LoadRequest{image}}                      {3, false, LoadedReply{kernel}}
//   {4, 1, AllocateRequest{"x", 4096, Zero{}}}      {4, false, AllocatedReply{buffer}}
//   {5, 1, LaunchRequest{{kernel, shape, {buffer}}, {}}}   {5, false, LaunchedReply{…}}
//
// and a library's call is measured by PrepareRequest{graph} in LoadRequest's place, and a MeasureRequest.
//
// A frame (base/frame.h) holds CBOR. The parent is profiler/runner/device and
// process, the runner profiler/runner/server; fields of the documents are listed in profiler/runner/message_fields.h.
namespace stitch::profiler {

/// Both sides must speak the same; counted up with every change.
inline constexpr int protocol_version = 5;

/// Bytes of a buffer in one message; more go in several.
inline constexpr std::int64_t most_data_bytes = std::int64_t{32} << 20;

struct HelloRequest {
  int protocol = protocol_version;
  std::string tool;  ///< the parent's version
};
struct OpenRequest {};  ///< Opens a session.
struct CloseRequest {};
struct LoadRequest {
  KernelImage image;
};
/// Makes a library's call ready.
struct PrepareRequest {
  graph::Graph call;  ///< what it computes
};
/// Contents that travel: a pattern, values that the runner makes itself, or the bytes.
using SentFill = std::variant<Poison, Zero, InputSource, std::string>;
struct AllocateRequest {
  std::string name;
  std::int64_t bytes = 0;
  SentFill fill;
  Access access = Access::read_write;
};
struct FreeRequest {
  BufferHandle buffer;
};
struct ReadRequest {
  BufferHandle buffer;
  std::int64_t offset = 0, bytes = 0;
};
struct WriteRequest {
  BufferHandle buffer;
  std::int64_t offset = 0;
  std::string data;
};
struct LaunchRequest {
  PlannedLaunch launch;
  std::vector<std::uint64_t> blocks;
};
struct MeasureRequest {
  MeasureTask task;
};
struct ShutdownRequest {};

struct Request {
  std::int64_t id = 0;  ///< repeated by the reply
  int session = 0;      ///< which OpenRequest gave; 0 where none is needed
  std::variant<HelloRequest, OpenRequest, CloseRequest, LoadRequest, AllocateRequest, FreeRequest, ReadRequest,
               WriteRequest, LaunchRequest, MeasureRequest, ShutdownRequest, PrepareRequest>
      body;
};
/// "launch"; what messages and errors call a request.
std::string_view name_of(const Request& request);

struct DoneReply {};
struct WelcomeReply {
  int protocol = 0;
  std::string tool;
  DeviceIdentity identity;
};
struct OpenedReply {
  int session = 0;
  bool samples_blocks = false;
};
struct LoadedReply {
  KernelHandle kernel;
};
struct PreparedReply {
  PreparedCall prepared;
};
struct AllocatedReply {
  BufferHandle buffer;
};
struct DataReply {
  std::string data;
};
struct LaunchedReply {
  LaunchResult result;
  /// What the launch wrote of each buffer among its arguments, by handle; of devices that can tell.
  std::vector<std::pair<int, std::vector<WrittenRange>>> written;
};
struct MeasuredReply {
  Measurement measurement;
};

struct Reply {
  std::int64_t id = 0;
  bool lost = false;  ///< the device is lost, and the runner ends itself after this reply
  std::variant<DoneReply, WelcomeReply, OpenedReply, LoadedReply, AllocatedReply, DataReply, LaunchedReply,
               MeasuredReply, PreparedReply, Error>
      body;
};

std::string encode(const Request& request);
std::string encode(const Reply& reply);
/// Whatever the bytes are: a message or an error that names what is wrong and where (parse, resource_exhausted,
/// invalid_argument).
Result<Request> decode_request(std::string_view bytes);
Result<Reply> decode_reply(std::string_view bytes);

}  // namespace stitch::profiler
