#include "profiler/device/emulated_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler::test {
namespace {

using testing::HasSubstr;

class EmulatedDeviceEmulated : public testing::Test {
 protected:
  EmulatedDevice device_;
  std::unique_ptr<Session> session_ = *device_.session();
};

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "fine" : fmt::format("{}: {}", to_string(result.error().kind), result.error().message);
}

TEST_F(EmulatedDeviceEmulated, SaysWhoItIs) {
  EXPECT_EQ(device_.identity().key, "emulated");
  EXPECT_EQ(device_.identity().kind, "emulated");
  EXPECT_TRUE(session_->samples_blocks());
}

TEST_F(EmulatedDeviceEmulated, BuffersHoldWhatTheyWereFilledWith) {
  const auto zero = *session_->allocate("zero", 64, Zero{}, Access::read_write);
  const auto poison = *session_->allocate("poison", 64, Poison{std::byte{0x5A}}, Access::read_write);
  const auto made = *session_->allocate("made", 10000, Filler([](std::uint64_t offset, std::span<std::byte> bytes) {
                                          for (std::size_t i = 0; i < bytes.size(); ++i)
                                            bytes[i] = static_cast<std::byte>((offset + i) % 251);
                                        }),
                                        Access::read_only);
  std::array<std::byte, 4> got{};
  ASSERT_TRUE(session_->read(zero, 60, got));
  EXPECT_EQ(got, (std::array<std::byte, 4>{}));
  ASSERT_TRUE(session_->read(poison, 8, got));
  EXPECT_EQ(got[0], std::byte{0x5A});
  ASSERT_TRUE(session_->read(made, 8000, got));
  EXPECT_EQ(got[3], static_cast<std::byte>(8003 % 251));
  const std::array<std::byte, 4> put{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ASSERT_TRUE(session_->write(made, 8000, put));
  ASSERT_TRUE(session_->read(made, 8000, got));
  EXPECT_EQ(got, put);
  EXPECT_TRUE(session_->written(made).empty());  // by a launch
}

TEST_F(EmulatedDeviceEmulated, ErrorsNameWhatIsWrong) {
  const auto buffer = *session_->allocate("x", 16, Zero{}, Access::read_write);
  std::array<std::byte, 8> bytes{};
  EXPECT_THAT(error_of(session_->read(buffer, 12, bytes)), HasSubstr("\"x\" (16 bytes)"));
  EXPECT_THAT(error_of(session_->write(buffer, 16, bytes)), HasSubstr("\"x\" (16 bytes)"));
  EXPECT_TRUE(session_->free(buffer));
  EXPECT_THAT(error_of(session_->free(buffer)), HasSubstr("is not allocated"));
  EXPECT_THAT(error_of(session_->read(buffer, 0, bytes)), HasSubstr("is not allocated"));
  EXPECT_THAT(error_of(session_->allocate("huge", std::int64_t{1} << 40, Zero{}, Access::read_write)),
              HasSubstr("resource_exhausted"));
  EXPECT_THAT(error_of(session_->load({"k", "not PTX", "", ""})), HasSubstr("parse"));
  EXPECT_THAT(error_of(session_->launch(KernelHandle{3}, {}, {}, {})), HasSubstr("kernel handle 3 is not loaded"));
}

TEST_F(EmulatedDeviceEmulated, LaunchesRunTheBlocksTheyAreGiven) {
  const KernelCase each = make_case(scaled_sum({1 << 14}), one_phase);
  ASSERT_GT(each.kernel.blocks, 2);
  const auto handle = *session_->load(compile(each.kernel));
  const auto input = [](std::uint64_t, std::span<std::byte> bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{});
  };
  std::vector<LaunchValue> arguments;
  BufferHandle out;
  for (const codegen::Argument& argument : each.kernel.arguments) {
    const bool is_output = argument.buffer.kind == kernel::Buffer::Kind::output;
    const auto buffer = is_output ? *session_->allocate("out", 4 << 14, Poison{}, Access::read_write)
                                  : *session_->allocate("in", 4 << 14, Filler(input), Access::read_only);
    if (is_output) out = buffer;
    arguments.emplace_back(buffer);
  }
  LaunchShape shape{each.kernel.blocks, each.kernel.threads, each.kernel.cluster, each.kernel.shared_bytes, false};
  const std::vector<std::uint64_t> some = {1};
  const auto launched = session_->launch(handle, shape, arguments, some);
  ASSERT_TRUE(launched) << launched.error().message;
  EXPECT_TRUE(launched->findings.empty());
  std::int64_t written = 0;
  for (const WrittenRange& range : session_->written(out)) written += range.bytes;
  EXPECT_EQ(written, (std::int64_t{4} << 14) / each.kernel.blocks);

  shape.threads = 4096;
  EXPECT_THAT(error_of(session_->launch(handle, shape, arguments, {})), HasSubstr("constraint"));
  shape.threads = each.kernel.threads;
  arguments.pop_back();
  EXPECT_THAT(error_of(session_->launch(handle, shape, arguments, {})), HasSubstr("invalid_argument"));
}

TEST_F(EmulatedDeviceEmulated, WritesToReadOnlyBuffersAreFoundAndChangeNothing) {
  KernelCase each = make_case(scaled_sum({1 << 12}), one_phase);
  each.kernel.source = "extern \"C\" __global__ void stitch_kernel(int* p, int* q) { q[0] = p[0]; p[1] = 7; }";
  const auto handle = *session_->load(compile(each.kernel));
  const auto in = *session_->allocate("in", 8, Zero{}, Access::read_only);
  const auto out = *session_->allocate("out", 4, Poison{}, Access::read_write);
  const std::vector<LaunchValue> arguments = {in, out};
  const auto launched = session_->launch(handle, {1, 1, 1, 0, false}, arguments, {});
  ASSERT_TRUE(launched) << launched.error().message;
  ASSERT_EQ(launched->findings.size(), 1U);
  EXPECT_THAT(launched->findings.front(), HasSubstr("write of 4 bytes at offset 4 of buffer \"in\" (8 bytes), which is "
                                                    "read only"));
  std::array<std::byte, 4> got{};
  ASSERT_TRUE(session_->read(in, 4, got));
  EXPECT_EQ(got, (std::array<std::byte, 4>{}));
  EXPECT_EQ(launched->counters->global_loads.unique_sectors, 1U);
  EXPECT_THAT(error_of(session_->allocate("holes", 8, Poison{}, Access::read_only)), HasSubstr("is read only and not"));
}

TEST_F(EmulatedDeviceEmulated, EndlessKernelsRunIntoTheirBudget) {
  KernelCase each = make_case(scaled_sum({1 << 12}), one_phase);
  each.kernel.source =
      "extern \"C\" __global__ void stitch_kernel(volatile int* p) { for (int i = 0; i >= 0; ++i) *p = i; }";
  EmulatedDevice limited(EmulatedOptions{1, 100000});
  const auto session = *limited.session();
  const auto handle = *session->load(compile(each.kernel));
  const std::vector<LaunchValue> arguments = {*session->allocate("p", 4, Zero{}, Access::read_write)};
  EXPECT_THAT(error_of(session->launch(handle, {1, 1, 1, 0, false}, arguments, {})), HasSubstr("timeout"));
}

}  // namespace
}  // namespace stitch::profiler::test
