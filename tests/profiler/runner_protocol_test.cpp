#include "profiler/runner/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/codec/codec.h"
#include "profiler/measure/counted_device.h"
#include "profiler/runner/server.h"

namespace stitch::profiler {
namespace {

using testing::HasSubstr;

BufferHandle buffer(int id) { return {id, 4096, 0x100000000ULL * static_cast<unsigned>(id)}; }

PlannedLaunch launch() { return {{3}, {64, 256, 2, 1024, true}, {buffer(1), std::int64_t{-5}, buffer(2)}}; }

graph::Graph product() {
  graph::Builder builder;
  const graph::Value a = builder.parameter(graph::DType::f16, {4, 8}), b = builder.parameter(graph::DType::f16, {8, 4});
  return *builder.finish({builder.dot(a, b, {{}, {}, {1}, {0}, graph::DType::f16})});
}

/// One of every request.
std::vector<Request> requests() {
  MeasureTask plan;
  plan.rotations = {{launch(), PlannedCopy{buffer(1), buffer(2), 64}},
                    {launch(), PlannedCopy{buffer(3), buffer(4), 64}}};
  plan.cuda_graph = true;
  plan.options.stopping.max_samples = 17;
  MeasureTask call;
  call.rotations = {{PlannedCall{{2}, {buffer(1), buffer(2)}, buffer(3)}}};
  MeasureTask kernel;
  kernel.rotations = {{launch()}};
  const InputSource indices({graph::DType::s32, {32, 32}}, Distribution::large, 99, InputSource::Range{-3, 12});
  const InputSource floats({graph::DType::bf16, {7}}, Distribution::denormal, ~std::uint64_t{0}, std::nullopt);
  return {{1, 0, HelloRequest{1, "0.1.0"}},
          {2, 0, OpenRequest{}},
          {3, 1, LoadRequest{{"k", "ptx", std::string("cu\0bin", 6), "sm_90a"}}},
          {4, 1, AllocateRequest{"a", 16, Poison{std::byte{0xEE}}, Access::read_write}},
          {5, 1, AllocateRequest{"b", 16, Zero{}, Access::read_only}},
          {6, 1, AllocateRequest{"c", 4096, indices, Access::read_only}},
          {7, 1, AllocateRequest{"d", 14, floats, Access::read_only}},
          {8, 1, AllocateRequest{"e", 3, std::string("\xFF\0x", 3), Access::read_write}},
          {9, 1, ReadRequest{buffer(1), 8, 16}},
          {10, 1, WriteRequest{buffer(1), 8, "data"}},
          {11, 1, LaunchRequest{launch(), {0, 2, 63}}},
          {12, 1, MeasureRequest{kernel}},
          {13, 1, MeasureRequest{plan}},
          {14, 1, FreeRequest{buffer(2)}},
          {15, 1, CloseRequest{}},
          {16, 0, ShutdownRequest{}},
          {17, 1, PrepareRequest{product()}},
          {18, 1, MeasureRequest{call}}};
}

std::vector<Reply> replies() {
  LaunchedReply launched;
  launched.result.findings = {"out_of_bounds", "race"};
  emulator::Counters counters;
  counters.instructions[3] = {7, 200};
  counters.global_loads = {1, 2, 3};
  counters.global_stores = {4, 5, 6};
  counters.shared_extra_wavefronts = 8;
  counters.blocks = ~std::uint64_t{0};
  launched.result.counters = counters;
  launched.written = {{4, {{0, 16}, {64, 32}}}, {5, {}}};
  MeasuredReply measured;
  measured.measurement.samples = {1.5, 2.5};
  return {{1, false, WelcomeReply{1, "0.1.0", {"GPU-1", "gpu", "H100", "sm_90a", "580", 132, 85899345920}}},
          {2, false, OpenedReply{4, true}},
          {3, false, LoadedReply{{5}}},
          {4, false, AllocatedReply{buffer(6)}},
          {5, false, DataReply{std::string("\0\xFF", 2)}},
          {6, false, launched},
          {7, false, measured},
          {8, false, DoneReply{}},
          {9, false, PreparedReply{{{3}, "cuBLASLt 13.0.0", 1}}},
          {10, true, Error{ErrorKind::runtime, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"}}};
}

TEST(RunnerProtocol, RequestsRoundTrip) {
  for (const Request& request : requests()) {
    const std::string bytes = encode(request);
    const auto back = decode_request(bytes);
    ASSERT_TRUE(back) << name_of(request) << ": " << back.error().message;
    EXPECT_EQ(back->id, request.id);
    EXPECT_EQ(back->session, request.session);
    EXPECT_EQ(back->body.index(), request.body.index());
    EXPECT_EQ(encode(*back), bytes) << name_of(request);
  }
  const auto measured = decode_request(encode(requests()[12]));
  const MeasureTask& task = std::get<MeasureRequest>(measured->body).task;
  EXPECT_TRUE(task.cuda_graph);
  EXPECT_EQ(task.options.stopping.max_samples, 17);
  const auto& first = std::get<PlannedLaunch>(task.rotations[1][0]);
  EXPECT_EQ(first.shape, launch().shape);
  EXPECT_EQ(std::get<BufferHandle>(first.arguments[0]).address, buffer(1).address);
  EXPECT_EQ(std::get<std::int64_t>(first.arguments[1]), -5);
  const auto prepare = decode_request(encode(requests()[16]));
  EXPECT_EQ(graph::encode(std::get<PrepareRequest>(prepare->body).call, graph::Encoding::cbor),
            graph::encode(product(), graph::Encoding::cbor));
  const auto called = decode_request(encode(requests()[17]));
  const auto& step = std::get<PlannedCall>(std::get<MeasureRequest>(called->body).task.rotations[0][0]);
  EXPECT_EQ(step.call.id, 2);
  EXPECT_EQ(step.parameters[1].id, 2);
  EXPECT_EQ(step.result.id, 3);
}

TEST(RunnerProtocol, RepliesRoundTrip) {
  for (const Reply& reply : replies()) {
    const std::string bytes = encode(reply);
    const auto back = decode_reply(bytes);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->id, reply.id);
    EXPECT_EQ(back->lost, reply.lost);
    EXPECT_EQ(encode(*back), bytes);
  }
  const auto launched = decode_reply(encode(replies()[5]));
  const auto& result = std::get<LaunchedReply>(launched->body);
  EXPECT_EQ(result.result.counters, std::get<LaunchedReply>(replies()[5].body).result.counters);
  EXPECT_EQ(result.written[0].second[1].offset, 64);
  const auto prepared = decode_reply(encode(replies()[8]));
  EXPECT_EQ(std::get<PreparedReply>(prepared->body).prepared.library, "cuBLASLt 13.0.0");
  const auto error = decode_reply(encode(replies()[9]));
  EXPECT_EQ(std::get<Error>(error->body).kind, ErrorKind::runtime);
}

/// A change of these bytes is a new protocol_version.
TEST(RunnerProtocol, BytesAreThoseOfItsVersion) {
  std::string all;
  for (const Request& request : requests()) all += encode(request);
  EXPECT_EQ(hash_bytes(all).hex(), "7b02f9f76b41546bb9b69cafb8ed48a2") << "requests of version " << protocol_version;
  all.clear();
  for (const Reply& reply : replies()) all += encode(reply);
  EXPECT_EQ(hash_bytes(all).hex(), "aebc509ec7aae3731991c89355d6883a") << "replies of version " << protocol_version;
}

TEST(RunnerProtocol, ValuesAreMadeAlikeOnBothSides) {
  const auto sent = decode_request(encode(requests()[5]));
  const auto& source = std::get<InputSource>(std::get<AllocateRequest>(sent->body).fill);
  const InputSource original = std::get<InputSource>(std::get<AllocateRequest>(requests()[5].body).fill);
  std::vector<std::byte> here(4096), there(4096);
  original(0, here);
  source(0, there);
  EXPECT_EQ(here, there);
}

TEST(RunnerProtocol, ErrorsSayWhatAndWhere) {
  using Json = nlohmann::json;
  const auto changed = [](std::size_t which, const char* pointer, const Json& value) {
    Json document = Json::from_cbor(encode(requests()[which]));
    document[Json::json_pointer(pointer)] = value;
    std::string bytes;
    Json::to_cbor(document, bytes);
    const auto decoded = decode_request(bytes);
    return decoded ? std::string("fine") : decoded.error().message;
  };
  const struct {
    std::size_t which;
    const char* pointer;
    Json value;
    const char* message;
  } cases[] = {
      {1, "/request", "dance", "request 'dance': no such request"},
      {1, "/id", "x", "request 'open': "},
      {3, "/bytes", -1, "request 'allocate': buffer 'a' of -1 bytes"},
      {5, "/fill/values/type", "s32[32,33]", "buffer 'c' of 4096 bytes, filled with 4224"},
      {5, "/fill/values/type", "s99[1]", "request 'allocate': "},
      {5, "/fill/values/distribution", "even", "no distribution 'even'"},
      {5, "/fill/values/range", {5, 4}, "an empty range"},
      {7, "/bytes", 4, "buffer 'e' of 4 bytes, filled with 3"},
      {8, "/bytes", most_data_bytes + 1, "at most 33554432 in one message"},
      {8, "/bytes", -1, "-1 bytes to read"},
      {10, "/launch/shape/threads", 2048, "request 'launch': 2048 threads a block"},
      {10, "/launch/shape/blocks", 0, "request 'launch': 0 blocks"},
      {10, "/launch/shape/cluster", 3, "clusters of 3 blocks in a grid of 64"},
      {11, "/rotations", Json::array(), "request 'measure': nothing to measure"},
      {12, "/cuda_graph", false, "without a CUDA graph a sample is exactly one launch"},
      {16, "/graph/nodes/0/attributes/type", "f99[4]", "request 'prepare': "},
      {16, "/graph/results", Json::array(), "a call with 0 results"},
      {16, "/graph/results", {2, 2}, "a call with 2 results"},
      {17, "/rotations/0/0/call/parameters", "x", "request 'measure': "},
      {12, "/rotations/1/0/launch/kernel", 8, "rotation 1: step 0 is another one than in rotation 0"},
  };
  for (const auto& each : cases) {
    EXPECT_THAT(changed(each.which, each.pointer, each.value), HasSubstr(each.message)) << each.pointer;
  }
  EXPECT_THAT(decode_request("").error().message, HasSubstr("message: byte"));
  EXPECT_THAT(decode_request("\x80").error().message, HasSubstr("message: not an object"));
  EXPECT_THAT(decode_request(std::string(100000, '\x81')).error().message, HasSubstr("levels deep"));
  EXPECT_THAT(decode_reply("\xA0").error().message, HasSubstr("reply 'unnamed': "));
}

/// Every message cut off anywhere, and with bytes changed at random: an error or another message, never more.
TEST(RunnerProtocol, DamagedMessagesAreErrors) {
  std::vector<std::string> messages;
  for (const Request& request : requests()) messages.push_back(encode(request));
  for (const Reply& reply : replies()) messages.push_back(encode(reply));
  for (const std::string& message : messages) {
    for (std::size_t length = 0; length < message.size(); ++length) {
      EXPECT_FALSE(decode_request(message.substr(0, length)));
      EXPECT_FALSE(decode_reply(message.substr(0, length)));
    }
  }
  const std::uint64_t seed = 20;
  Random random(seed);
  int refused = 0;
  CountedDevice device;
  RunnerServer server(device);
  for (int i = 0; i < 20000; ++i) {
    std::string message = messages[random.below(messages.size())];
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      message[random.below(message.size())] = static_cast<char>(random.below(256));
    }
    const auto request = decode_request(message);
    const auto reply = decode_reply(message);
    if (!request) {
      EXPECT_FALSE(request.error().message.empty());
      ++refused;
    } else {
      // What can still be read is served like any request.
      const Reply answer = server.handle(*request);
      EXPECT_EQ(answer.id, request->id) << "seed " << seed << ", message " << i;
    }
    EXPECT_TRUE(reply || !reply.error().message.empty());
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace stitch::profiler
