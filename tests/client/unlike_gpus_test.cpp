// Two unlike GPUs in one process: the stand-in driver says what they are, the daemon is the whole one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/client.h"
#include "client/cuda_executor.h"
#include "client/emulated_executor.h"
#include "client/plan_handle.h"
#include "client/stitch.h"
#include "graph/codec/codec.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;

class UnlikeGpusDaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    ClientOptions options;
    options.server = "unix://" + running_.socket.string();
    options.cache = folder_ / "cache";
    auto opened = Client::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    client_ = *std::move(opened);
  }
  static std::unique_ptr<CudaExecutor> executor(int ordinal) {
    auto created = CudaExecutor::create(ordinal, STITCH_FAKE_DRIVER);
    EXPECT_TRUE(created.ok()) << (created ? "" : created.error().message);
    return created ? *std::move(created) : nullptr;
  }

  const TestFolder folder_;
  daemon::RunningService running_{folder_ / "stitch.db", {.work = true, .serve = true, .other_gpus = true}};
  std::unique_ptr<Client> client_;
};

TEST_F(UnlikeGpusDaemonTest, EachGetsThePlansOfItsOwnClass) {
  const auto silent = executor(0), h100 = executor(1), a100 = executor(2);
  ASSERT_TRUE(silent && h100 && a100);
  EXPECT_FALSE(silent->traits());
  ASSERT_TRUE(h100->traits() && a100->traits());
  EXPECT_EQ(a100->traits()->memory_bandwidth(), 2039.04e9);

  const graph::Graph fragment = tuning::samples::softmax(64, 256);
  constexpr std::int64_t patient_ms = 120'000;
  const auto on_a100 = PlanHandle::fetch(*client_, *a100, fragment, {.deadline_ms = patient_ms});
  const auto on_h100 = PlanHandle::fetch(*client_, *h100, fragment, {.deadline_ms = patient_ms});
  const auto anywhere = PlanHandle::fetch(*client_, *silent, fragment, {.deadline_ms = patient_ms});
  ASSERT_TRUE(on_a100.ok()) << on_a100.error().message;
  ASSERT_TRUE(on_h100.ok()) << on_h100.error().message;
  ASSERT_TRUE(anywhere.ok()) << anywhere.error().message;
  EXPECT_EQ((*on_a100)->plan().target.device, "a100-80gb");
  EXPECT_EQ((*on_a100)->plan().target.architecture, "sm_80");
  EXPECT_EQ((*on_h100)->plan().target.device, "h100");
  EXPECT_EQ((*on_h100)->plan().target.architecture, "sm_90a");
  EXPECT_EQ((*anywhere)->plan().target.device, "h100") << "the server's own target, for who does not say";
  EXPECT_EQ((*on_a100)->plan().fragment, (*on_h100)->plan().fragment);

  // Both are tuned in the background, and each is told of its own only.
  for (const auto* handle : {&on_a100, &on_h100}) {
    while ((*handle)->get()->plan().verified_share == 0) {
      const auto swapped = (*handle)->get()->check_for_update(1000);
      ASSERT_TRUE(swapped.ok()) << swapped.error().message;
      const auto plan = client_->plan((*handle)->get()->plan().id);
      ASSERT_TRUE(plan.ok());
      if (plan->verified_share > 0) break;  // the prediction was right, and the same plan is verified now
    }
  }
  EXPECT_EQ((*on_a100)->plan().target.device, "a100-80gb");
  EXPECT_EQ((*on_h100)->plan().target.device, "h100");

  // What the A100 runs is right: on the emulated device it is the same kernel.
  EmulatedExecutor emulated{tuning::shared_device()};
  FetchOptions for_a100{.deadline_ms = patient_ms};
  for_a100.device = a100->traits();
  const auto emulated_a100 = PlanHandle::fetch(*client_, emulated, fragment, for_a100);
  ASSERT_TRUE(emulated_a100.ok()) << emulated_a100.error().message;
  EXPECT_EQ((*emulated_a100)->plan().target.device, "a100-80gb");
  EXPECT_GT((*emulated_a100)->plan().verified_share, 0);
}

TEST_F(UnlikeGpusDaemonTest, AGpuOfTheServersOwnClassIsNotTold) {
  // So that servers that know nothing of the field serve it.
  const auto h100 = executor(1);
  api::LookupRequest request{tuning::samples::softmax(8, 64), "", 0, false};
  request.device = h100->traits();
  const auto answer = client_->look_up(request);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->target.device, "h100");
  request.device->sm_count = 131;
  const auto other = client_->look_up(request);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->target.device, "h100~sm131-l2.51200-gbs3352");
}

TEST_F(UnlikeGpusDaemonTest, TheCInterfaceTakesGpusByNumber) {
  stitch_client* client = nullptr;
  const std::string server = "unix://" + running_.socket.string();
  ASSERT_EQ(stitch_client_open(server.c_str(), "", &client), STITCH_OK);
  const std::string fragment = graph::encode(tuning::samples::softmax(8, 64), graph::Encoding::cbor);
  stitch_plan* plan = nullptr;
  const auto fetch = [&](stitch_device device, int ordinal) {
    return stitch_plan_fetch_on(client, fragment.data(), fragment.size(), STITCH_CBOR, device, ordinal, 120'000, &plan);
  };
  EXPECT_EQ(fetch(STITCH_DEVICE_EMULATED, 1), STITCH_UNAVAILABLE);
  EXPECT_THAT(stitch_last_error(), HasSubstr("there is one emulated device, and 1 is not its number"));
  ASSERT_EQ(fetch(STITCH_DEVICE_EMULATED, 0), STITCH_OK) << stitch_last_error();
  stitch_plan_release(plan);
  stitch_client_close(client);
}

}  // namespace
}  // namespace stitch::client
