#include "daemon/jobs/planners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/running_service.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DeviceTraits traits_of(std::string_view device) {
  for (const ListedTraits& entry : listed_traits()) {
    if (entry.device == device) return entry.traits;
  }
  return {};
}

class PlannersDaemonTest : public testing::Test {
 protected:
  RunningService& start(RunningOptions options) { return running_.emplace(folder_ / "stitch.db", options); }
  static Result<api::LookupAnswer> ask(Service& service, const graph::Graph& fragment, const DeviceTraits& device) {
    return service.lookup({fragment, "test", 120'000, true, device});
  }

  const TestFolder folder_;
  std::optional<RunningService> running_;
};

TEST_F(PlannersDaemonTest, AServerWithoutAMakerSaysWhatItPlansFor) {
  RunningService& running = start({.work = false});
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  EXPECT_EQ(ask(*running.service, fragment, traits_of("h100"))->target.device, "h100");
  const auto refused = ask(*running.service, fragment, traits_of("a100"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(refused.error().message, "this server plans for h100 sm_90a only, not for a100");
  EXPECT_EQ(ask(*running.service, fragment, {}).error().kind, ErrorKind::invalid_argument);
}

TEST_F(PlannersDaemonTest, AClientsGpuHasItsOwnPlansAndJobs) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  std::optional<std::int64_t> job;
  {
    RunningService& running = start({.work = false, .other_gpus = true});
    const auto own = running.service->lookup({fragment, "test", 120'000, true});
    ASSERT_TRUE(own.ok()) << own.error().message;
    const auto first = ask(*running.service, fragment, traits_of("h100-pcie"));
    ASSERT_TRUE(first.ok()) << first.error().message;
    EXPECT_EQ(first->source, api::LookupAnswer::Source::predicted);
    EXPECT_EQ(first->target.device, "h100-pcie");
    EXPECT_THAT(first->differed, ElementsAre("device")) << "the plan of the h100 is close, and is not it";
    EXPECT_EQ(first->plan->target.device, "h100-pcie");
    EXPECT_NE(first->plan->id, own->plan->id);
    ASSERT_TRUE(first->job.has_value());
    EXPECT_NE(first->job, own->job);
    job = first->job;
    EXPECT_EQ(ask(*running.service, fragment, traits_of("h100-pcie"))->source, api::LookupAnswer::Source::store);
  }
  // The job says what it is for: a server that starts anew works it off for the same GPU.
  running_.reset();
  RunningService& again = start({.work = true, .other_gpus = true});
  EXPECT_EQ(again.wait_for(*job).state, "done") << again.wait_for(*job).message;
  const auto tuned = ask(*again.service, fragment, traits_of("h100-pcie"));
  ASSERT_TRUE(tuned.ok());
  EXPECT_GT(tuned->plan->verified_share, 0);
  EXPECT_EQ(tuned->plan->target.device, "h100-pcie");
}

TEST_F(PlannersDaemonTest, ClassesAreBounded) {
  RunningService& running = start({.work = false, .other_gpus = true});
  DeviceTraits device = traits_of("h100");
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  for (std::size_t i = 0; i < Planners::most_others; ++i) {
    device.sm_count = 100 + static_cast<int>(i);
    ASSERT_TRUE(running.service->begin_lookup({fragment, "test", 0, false, device}).ok());
  }
  device.sm_count = 99;
  const auto refused = running.service->begin_lookup({fragment, "test", 0, false, device});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::resource_exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("plans for 16 classes of GPUs beside its own already"));
  device.sm_count = 100;
  EXPECT_TRUE(running.service->begin_lookup({fragment, "test", 0, false, device}).ok()) << "those it has are served";
}

}  // namespace
}  // namespace stitch::daemon
