#include "profiler/runner/server.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/version.h"

namespace stitch::profiler {
namespace {

Fill fill_of(const SentFill& sent) {
  if (const auto* poison = std::get_if<Poison>(&sent)) return *poison;
  if (std::holds_alternative<Zero>(sent)) return Zero{};
  if (const auto* source = std::get_if<InputSource>(&sent)) return source->filler();
  auto bytes = std::make_shared<const std::string>(std::get<std::string>(sent));
  return Filler([bytes](std::uint64_t offset, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes->data() + offset, into.size());
  });
}

bool send(int output, const Reply& reply) {
  auto frame = make_frame(encode(reply));
  if (!frame) frame = make_frame(encode(Reply{reply.id, reply.lost, frame.error()}));
  return write_frame(output, *frame);
}

/// Waits for a request, or until somebody wants this process to leave, who goes first. Whether it is a request.
bool is_requested(int input, int leave) {
  pollfd both[] = {{input, POLLIN, 0}, {leave, POLLIN, 0}};
  while (::poll(both, std::size(both), -1) < 0 && errno == EINTR) {
  }
  return (both[1].revents & POLLIN) == 0;
}

}  // namespace

Reply RunnerServer::handle(const Request& request) {
  Reply reply;
  reply.id = request.id;
  auto body = std::visit([&](const auto& each) { return answer(each, request.session); }, request.body);
  if (body) {
    reply.body = std::move(*body);
  } else {
    reply.body = body.error();
  }
  reply.lost = device_.lost();
  return reply;
}

Result<RunnerServer::Served*> RunnerServer::find(int session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return make_error(ErrorKind::invalid_argument, "no session {}", session);
  return &found->second;
}

Result<RunnerServer::Body> RunnerServer::answer(const HelloRequest& hello, int) {
  if (hello.protocol != protocol_version) {
    return make_error(ErrorKind::version_mismatch, "the parent ({}) speaks protocol {}, this runner ({}) speaks {}",
                      hello.tool, hello.protocol, tool_version, protocol_version);
  }
  return Body(WelcomeReply{protocol_version, std::string(tool_version), device_.identity()});
}

Result<RunnerServer::Body> RunnerServer::answer(const OpenRequest&, int) {
  STITCH_ASSIGN(auto session, device_.timed_session());
  const bool samples = session->samples_blocks();
  sessions_[next_].session = std::move(session);
  return Body(OpenedReply{next_++, samples});
}

Result<RunnerServer::Body> RunnerServer::answer(const CloseRequest&, int session) {
  STITCH_TRY(find(session));
  sessions_.erase(session);
  return Body(DoneReply{});
}

Result<RunnerServer::Body> RunnerServer::answer(const LoadRequest& load, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  STITCH_ASSIGN(const KernelHandle kernel, served->session->load(load.image));
  return Body(LoadedReply{kernel});
}

Result<RunnerServer::Body> RunnerServer::answer(const PrepareRequest& prepare, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  STITCH_ASSIGN(PreparedCall prepared, served->session->prepare(prepare.call));
  return Body(PreparedReply{std::move(prepared)});
}

Result<RunnerServer::Body> RunnerServer::answer(const AllocateRequest& allocate, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  STITCH_ASSIGN(const BufferHandle buffer,
                served->session->allocate(allocate.name, allocate.bytes, fill_of(allocate.fill), allocate.access));
  if (allocate.access == Access::read_write) served->writable.emplace(buffer.id, buffer);
  return Body(AllocatedReply{buffer});
}

Result<RunnerServer::Body> RunnerServer::answer(const FreeRequest& free, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  STITCH_TRY(served->session->free(free.buffer));
  served->writable.erase(free.buffer.id);
  return Body(DoneReply{});
}

Result<RunnerServer::Body> RunnerServer::answer(const ReadRequest& read, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  DataReply data;
  data.data.resize(read.bytes);
  STITCH_TRY(served->session->read(read.buffer, read.offset,
                                   std::as_writable_bytes(std::span(data.data.data(), data.data.size()))));
  return Body(std::move(data));
}

Result<RunnerServer::Body> RunnerServer::answer(const WriteRequest& write, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  STITCH_TRY(served->session->write(write.buffer, write.offset,
                                    std::as_bytes(std::span(write.data.data(), write.data.size()))));
  return Body(DoneReply{});
}

Result<RunnerServer::Body> RunnerServer::answer(const LaunchRequest& request, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  const PlannedLaunch& launch = request.launch;
  LaunchedReply reply;
  STITCH_ASSIGN(reply.result, served->session->launch(launch.kernel, launch.shape, launch.arguments, request.blocks));
  if (!served->session->samples_blocks()) return Body(std::move(reply));
  for (const LaunchValue& value : launch.arguments) {
    const auto* buffer = std::get_if<BufferHandle>(&value);
    if (buffer == nullptr || !served->writable.contains(buffer->id)) continue;
    reply.written.emplace_back(buffer->id, served->session->written(*buffer));
  }
  return Body(std::move(reply));
}

Result<RunnerServer::Body> RunnerServer::answer(const MeasureRequest& measure, int session) {
  STITCH_ASSIGN(Served * served, find(session));
  STITCH_ASSIGN(auto measurement, served->session->measure(measure.task));
  return Body(MeasuredReply{std::move(measurement)});
}

Result<RunnerServer::Body> RunnerServer::answer(const ShutdownRequest&, int) {
  sessions_.clear();
  return Body(DoneReply{});
}

ServeEnd serve(const Result<std::unique_ptr<TimedDevice>>& device, int input, int output, int leave) {
  std::optional<RunnerServer> server;
  if (device) server.emplace(**device);
  while (true) {
    if (!is_requested(input, leave)) return ServeEnd::finished;
    auto body = read_frame(input);
    if (body && !*body) return ServeEnd::finished;
    const auto request = body ? decode_request(**body) : Result<Request>(body.error());
    if (!request) {
      // Where one frame is damaged nobody knows where the next one begins.
      send(output, {-1, false, request.error().within("stitch-runner")});
      return ServeEnd::broken;
    }
    const Reply reply = server ? server->handle(*request) : Reply{request->id, true, device.error()};
    if (!send(output, reply)) return ServeEnd::broken;
    if (!server) return ServeEnd::no_device;
    if (reply.lost) return ServeEnd::lost;
    if (std::holds_alternative<ShutdownRequest>(request->body)) return ServeEnd::finished;
  }
}

}  // namespace stitch::profiler
