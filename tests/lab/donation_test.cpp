// Caches that a step of decoding updates in place: from the alias in an HLO header to a plan that writes the new row
// only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/clock.h"
#include "base/file.h"
#include "client/emulated_executor.h"
#include "profiler/device/emulated_device.h"
#include "tuning/models/model_tuning.h"
#include "tuning/plans/tuner.h"

namespace stitch::lab {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t cache_bytes = 8 * 256 * 64 * 4, row_bytes = 8 * 64 * 4;

/// A row for each of two caches, turned by an angle for one of them, at the step's place. `reads`: one of the caches is
/// also read as it was before.
std::string decode_step(bool aliased, bool reads = false) {
  return std::string("HloModule decode") +
         (aliased ? ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }" : "") + R"(
ENTRY main {
  keys = f32[8,256,64] parameter(0)
  values = f32[8,256,64] parameter(1)
  key = f32[8,1,64] parameter(2)
  value = f32[8,1,64] parameter(3)
  angle = f32[8,1,64] parameter(4)
  at = s32[] parameter(5)
  zero = s32[] constant(0)
  cosine = f32[8,1,64] cosine(angle)
  turned = f32[8,1,64] multiply(key, cosine)
  new_keys = f32[8,256,64] dynamic-update-slice(keys, turned, zero, at, zero)
  new_values = f32[8,256,64] dynamic-update-slice(values, value, zero, at, zero)
  first = f32[8,1,64] slice(keys), slice={[0:8], [0:1], [0:64]}
  other = f32[8,1,64] add(first, value)
  ROOT all = (f32[8,256,64], f32[8,256,64], f32[8,1,64]) tuple(new_keys, new_values, )" +
         (reads ? "other" : "turned") + ")\n}\n";
}

class DonationEmulated : public testing::Test {
 protected:
  DonationEmulated() {
    auto made = tuning::Tuner::create({}, device_, nullptr, files_, clock_);
    if (!made) {
      throw std::runtime_error(made.error().message);
    }
    tuner_ = std::move(*made);
  }

  tuning::ModelReport report(const std::string& text) {
    const auto planned = tuning::plan_model(text, "decode.hlo.txt", *tuner_, {}, {});
    EXPECT_TRUE(planned.ok()) << (planned ? "" : planned.error().message);
    return planned ? planned->report : tuning::ModelReport{};
  }

  profiler::EmulatedDevice device_;
  RealFileSystem files_;
  SystemClock clock_;
  std::unique_ptr<tuning::Tuner> tuner_;
};

TEST_F(DonationEmulated, OnlyTheNewRowsCount) {
  const tuning::ModelReport whole = report(decode_step(false)), in_place = report(decode_step(true));
  EXPECT_GE(whole.bytes, 4 * cache_bytes) << "both caches are read and written";
  EXPECT_LE(in_place.bytes, 9 * row_bytes);
  EXPECT_LT(in_place.predicted_us, whole.predicted_us);
  EXPECT_TRUE(whole.donations.empty());
  ASSERT_EQ(in_place.donations.size(), 2U);
  EXPECT_TRUE(in_place.donations[0].in_place && in_place.donations[1].in_place);
  EXPECT_EQ(in_place.donations[0].parameter, "keys");
  EXPECT_THAT(to_table(in_place), HasSubstr("keys to new_keys: in place, only the update is written"));
}

TEST_F(DonationEmulated, ACacheThatIsReadAsItWasIsCopied) {
  const tuning::ModelReport one = report(decode_step(true, true));
  ASSERT_EQ(one.donations.size(), 2U);
  EXPECT_FALSE(one.donations[0].in_place);
  EXPECT_THAT(one.donations[0].why, HasSubstr("(slice) reads it as well"));
  EXPECT_TRUE(one.donations[1].in_place);
  EXPECT_GE(one.bytes, 2 * cache_bytes);
  EXPECT_LE(one.bytes, 2 * cache_bytes + 12 * row_bytes);
}

/// Element i of a buffer: no two are alike.
Bytes counted(std::int64_t bytes, float from) {
  Bytes made(bytes);
  for (std::int64_t i = 0; i < bytes / 4; ++i) {
    const float value = from + static_cast<float>(i);
    std::memcpy(&made[i * 4], &value, 4);
  }
  return made;
}

// Tuning verifies that nothing but the update is written; here the plan is run by a client's executor.
TEST_F(DonationEmulated, ThePlanChangesNothingElse) {
  const auto imported = import::import_bytes(decode_step(true), "decode.hlo.txt");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto cut = tuning::cut_model(*imported, *tuner_);
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  ASSERT_EQ(cut->entries.size(), 1U);
  const graph::Graph& fragment = cut->entries[0].graph;
  const auto tuned = tuner_->tune({.fragment = fragment, .name = "decode"});
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(std::ranges::count_if(tuned->plan.copies, [](const api::ResultCopy& copy) { return copy.before; }), 2)
      << "one of each cache, which is left out when both are one buffer";
  client::EmulatedExecutor executor(device_);
  const auto plan = executor.load(tuned->plan, [&](const Sha256& hash) -> Result<std::string> {
    for (const db::Artifact& each : tuned->bundle.artifacts) {
      if (each.hash == hash) return each.bytes;
    }
    return make_error(ErrorKind::internal, "no artifact");
  });
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  std::vector<Bytes> inputs, outputs;
  std::vector<std::span<const std::byte>> parameters;
  std::vector<std::span<std::byte>> results;
  const std::int32_t at = 17;
  for (const graph::TensorType& type : tuned->plan.parameters) {
    Bytes& input = inputs.emplace_back(counted(type.bytes(), 1));
    if (type.bytes() == 4) std::memcpy(input.data(), &at, 4);
  }
  for (const graph::TensorType& type : tuned->plan.results) outputs.emplace_back(type.bytes());
  for (const Bytes& input : inputs) parameters.emplace_back(input);
  for (Bytes& output : outputs) results.emplace_back(output);
  const Status ran = (*plan)->run(parameters, results);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  int caches = 0;
  for (const Bytes& output : outputs) {
    if (std::ssize(output) != cache_bytes) continue;
    ++caches;
    const Bytes before = counted(cache_bytes, 1);
    for (std::int64_t row = 0; row < 8 * 256; ++row) {
      const bool same = std::memcmp(&output[row * 256], &before[row * 256], 256) == 0;
      ASSERT_EQ(same, row % 256 != at) << "row " << row;
    }
  }
  EXPECT_EQ(caches, 2);
}

}  // namespace
}  // namespace stitch::lab
