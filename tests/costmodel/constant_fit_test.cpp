#include "costmodel/constants/constant_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/costmodel/example_kernels.h"

namespace stitch::costmodel::test {
namespace {

using testing::HasSubstr;

/// Candidates of every kind of kernel, timed by the analytical model with other constants.
std::vector<FitSample> samples_by(const AnalyticalConstants& truth) {
  const DeviceSpec device = *find_device("h100");
  std::vector<FitSample> samples;
  for (const NamedGraph& named : kinds_of_kernel()) {
    for (const Kernel& kernel : candidates_of(named.graph(), device, 30)) {
      FitSample sample;
      sample.quantities = kernel_quantities(*kernel.graph, kernel.program, device);
      sample.measured_us = analytical_us(sample.quantities, device, truth);
      sample.kernel = hash_bytes(named.name);
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

TEST(AnalyticalConstants, EachHasItsPlaceWithinItsBounds) {
  std::set<std::string_view> names;
  const AnalyticalConstants defaults;
  for (const ConstantRow& row : constant_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_LT(row.low, row.high) << row.name;
    EXPECT_GE(defaults.*row.field, row.low) << row.name;
    EXPECT_LE(defaults.*row.field, row.high) << row.name;
  }
  const auto back = constants_from(to_document(defaults));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, defaults);
  for (const auto& [text, message] :
       std::vector<std::pair<std::string, std::string>>{{"[]", "not an object"},
                                                        {R"({"overlop": 1})", "there is no 'overlop'"},
                                                        {R"({"overlap": "x"})", "overlap is not a number"},
                                                        {R"({"overlap": 7})", "overlap is 7, not between 0 and 0.6"}}) {
    const auto refused = constants_from(nlohmann::json::parse(text));
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().message, HasSubstr(message));
  }
}

TEST(AnalyticalConstants, EachShowsInSomeKernelsTime) {
  const DeviceSpec device = *find_device("h100");
  std::vector<FitSample> samples = samples_by({});
  // None of these kernels is large enough for slabs.
  FitSample in_slabs = samples.front();
  in_slabs.quantities.slabs = 4;
  in_slabs.quantities.run_bytes = 64;
  in_slabs.measured_us = analytical_us(in_slabs.quantities, device, {});
  samples.push_back(std::move(in_slabs));
  for (const ConstantRow& row : constant_table()) {
    bool shows = false;
    for (const double bound : {row.low, row.high}) {
      AnalyticalConstants moved;
      moved.*row.field = bound;
      shows = shows || std::any_of(samples.begin(), samples.end(), [&](const FitSample& sample) {
                return analytical_us(sample.quantities, device, moved) != sample.measured_us;
              });
    }
    EXPECT_TRUE(shows) << row.name;
  }
}

TEST(ConstantFit, FindsTheConstantsThatMadeTheTimes) {
  AnalyticalConstants truth;
  truth.overlap = 0.3;
  truth.launch = 1.6;
  truth.dram = 1.25;
  truth.barrier = 2;
  const auto fit = fit_constants(samples_by(truth), *find_device("h100"), {100, 1e-6});
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_GT(fit->error_before, 0.15);
  EXPECT_LT(fit->error_after, 0.02);
  EXPECT_NEAR(fit->constants.overlap, 0.3, 0.06);
  EXPECT_NEAR(fit->constants.dram, 1.25, 0.08);
  EXPECT_NEAR(fit->constants.launch * find_device("h100")->launch_us + fit->constants.ramp_latencies *
                                                                           find_device("h100")->dram_latency /
                                                                           find_device("h100")->clock_hz * 1e6,
              1.6 * find_device("h100")->launch_us +
                  2 * find_device("h100")->dram_latency / find_device("h100")->clock_hz * 1e6,
              0.2)
      << "what every kernel takes; launch and ramp-up cannot be told apart";
  EXPECT_EQ(fit->kernels, static_cast<std::int64_t>(kinds_of_kernel().size()));
}

TEST(ConstantFit, ChangesNothingWhereNothingIsWrong) {
  const auto fit = fit_constants(samples_by({}), *find_device("h100"));
  ASSERT_TRUE(fit);
  EXPECT_TRUE(fit->changed.empty());
  EXPECT_EQ(fit->constants, AnalyticalConstants());
  EXPECT_LT(fit->error_after, 1e-9);
}

// Element-wise kernels know nothing of barriers, clusters and special functions.
TEST(ConstantFit, LeavesWhatMeasurementsDoNotTell) {
  AnalyticalConstants truth;
  truth.dram = 1.5;
  truth.barrier = 3;
  truth.special = 3;
  std::vector<FitSample> samples = samples_by(truth);
  std::erase_if(samples, [](const FitSample& sample) {
    return sample.kernel != hash_bytes("element_wise") && sample.kernel != hash_bytes("transpose");
  });
  const auto fit = fit_constants(samples, *find_device("h100"));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->constants.barrier, 1);
  EXPECT_EQ(fit->constants.special, 1);
  EXPECT_EQ(fit->constants.last_block, 0.6);
  EXPECT_GT(fit->constants.dram, 1.2);
}

TEST(ConstantFit, StaysWithinBoundsAndSaysSo) {
  std::vector<FitSample> samples = samples_by({});
  for (FitSample& sample : samples) sample.measured_us *= 50;
  const auto fit = fit_constants(samples, *find_device("h100"));
  ASSERT_TRUE(fit);
  bool any = false;
  for (const FittedConstant& each : fit->changed) any = any || each.at_bound;
  EXPECT_TRUE(any);
  for (const ConstantRow& row : constant_table()) {
    EXPECT_GE(fit->constants.*row.field, row.low);
    EXPECT_LE(fit->constants.*row.field, row.high);
  }
}

TEST(ConstantFit, NeedsTimes) {
  EXPECT_FALSE(fit_constants({}, *find_device("h100")));
  std::vector<FitSample> samples = samples_by({});
  samples[1].measured_us = 0;
  const auto refused = fit_constants(samples, *find_device("h100"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("0 is no time"));
}

}  // namespace
}  // namespace stitch::costmodel::test
