#include "daemon/jobs/planners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/sqlite.h"
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

/// Overwrites an artifact's bytes in the database.
void damage(const std::filesystem::path& database, const Sha256& artifact) {
  auto connection = db::sqlite::Connection::open({database, db::sqlite::OpenOptions::Mode::read_write, 10'000, 0, ""});
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE((*connection)->execute("UPDATE artifact SET data = zeroblob(20) WHERE hash = ?", artifact).ok());
}

/// The job that mending begins.
std::int64_t mending_of(Service& service, const Sha256& artifact) {
  const auto read = service.store().get_artifact(artifact);
  EXPECT_FALSE(read.ok());
  if (read) return 0;
  EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
  const Error answer = service.mend(artifact, read.error());
  EXPECT_EQ(answer.kind, ErrorKind::corrupt) << answer.message;
  const std::size_t job = answer.message.find("; job ");
  EXPECT_NE(job, std::string::npos) << answer.message;
  return job == std::string::npos ? 0 : std::stoll(answer.message.substr(job + 6));
}

TEST_F(PlannersDaemonTest, ADamagedArtifactOfAnotherClassIsMadeAgainForThatClass) {
  RunningService& running = start({.work = true, .other_gpus = true});
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  const auto first = ask(*running.service, fragment, traits_of("a100"));
  ASSERT_TRUE(first.ok()) << first.error().message;
  running.wait_for(*first->job);
  const auto tuned = ask(*running.service, fragment, traits_of("a100"));
  ASSERT_EQ(tuned->plan->target.architecture, "sm_80");
  const Sha256 name = tuned->plan->launches.at(0).cubin;
  const std::string sound = running.store->get_artifact(name)->bytes;
  damage(folder_ / "stitch.db", name);
  const std::int64_t job = mending_of(*running.service, name);
  EXPECT_EQ(running.wait_for(job).state, "done") << running.wait_for(job).message;
  ASSERT_TRUE(running.store->get_artifact(name).ok());
  EXPECT_EQ(running.store->get_artifact(name)->bytes, sound);
  EXPECT_EQ(ask(*running.service, fragment, traits_of("a100"))->plan->launches.at(0).cubin, name);
}

TEST_F(PlannersDaemonTest, ADamagedArtifactThatNobodyHereCanMakeIsServedNoLonger) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  std::optional<api::Plan> plan;
  {
    RunningService& running = start({.work = false, .other_gpus = true});
    const auto made = ask(*running.service, fragment, traits_of("a100"));
    ASSERT_TRUE(made.ok() && made->plan);
    plan = made->plan;
  }
  const Sha256 name = plan->launches.at(0).cubin;
  damage(folder_ / "stitch.db", name);
  running_.reset();
  RunningService& running = start({.work = true});
  const std::int64_t job = mending_of(*running.service, name);
  EXPECT_EQ(running.wait_for(job).state, "done") << running.wait_for(job).message;
  const auto withdrawn = running.store->get_plan(plan->id);
  ASSERT_TRUE(withdrawn.ok());
  EXPECT_NE(withdrawn->status, db::PlanStatus::incumbent);
  const auto left = running.store->get_artifact(name);
  ASSERT_FALSE(left.ok());
  EXPECT_EQ(running.service->mend(name, left.error()).kind, ErrorKind::corrupt) << "nobody is served with it";
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
