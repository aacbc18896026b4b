// What a library takes for a call, stored and found again.
#include "tuning/plans/call_record.h"

#include <gtest/gtest.h>

#include "db/sqlite_store.h"
#include "tests/base/test_folder.h"
#include "tests/db/sample_records.h"
#include "tests/tuning/law_timer.h"
#include "tuning/kernels/kernel_history.h"

namespace stitch::tuning {
namespace {

class CallRecord : public testing::Test {
 protected:
  CallRecord() {
    for (const db::Device& device : {db::samples::gpu(), db::samples::emulated()}) (void)store_->put_device(device);
    EXPECT_TRUE(store_->put_fragment(fragment_).ok());
  }
  void keep(const Result<profiler::MeasuredCall>& measured, const std::string& device) const {
    const TrialRecords records = call_records(key_, measured, device, db::samples::provenance());
    ASSERT_TRUE(store_->record_candidates(records.candidates).ok());
    for (const db::MeasurementRecord& one : records.measurements) {
      const auto recorded = store_->record_measurement(one);
      ASSERT_TRUE(recorded.ok()) << recorded.error().message;
    }
  }
  std::optional<CallTime> stored(const std::string& device) const {
    const auto found = stored_call(*store_, key_, device);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found ? *found : std::nullopt;
  }
  static profiler::MeasuredCall took(double us) { return {"cuBLASLt 13.0.0", series(us, 0.01, 1)}; }

  const TestFolder folder_;
  const SystemClock clock_;
  const std::unique_ptr<db::Store> store_ = db::samples::opened(folder_ / "stitch.db", clock_);
  const db::FragmentRecord fragment_ = db::samples::fragment(1);
  const db::PlanKey key_{fragment_.key, db::samples::target()};
  const std::string gpu_ = db::samples::gpu().key;
};

TEST_F(CallRecord, TheNewestOfADeviceIsFound) {
  EXPECT_FALSE(stored(gpu_));
  keep(took(8), gpu_);
  ASSERT_TRUE(stored(gpu_));
  EXPECT_EQ(stored(gpu_)->library, "cuBLASLt 13.0.0");
  EXPECT_NEAR(stored(gpu_)->us, 8, 0.1);
  EXPECT_GT(stored(gpu_)->noise, 0);
  EXPECT_LT(stored(gpu_)->noise, 0.01);
  keep(took(7), gpu_);
  EXPECT_NEAR(stored(gpu_)->us, 7, 0.1);
  EXPECT_FALSE(stored("GPU-another"));
  EXPECT_NEAR(stored("")->us, 7, 0.1) << "of any device";
}

TEST_F(CallRecord, AFailureIsTheDevicesOwn) {
  keep(make_error(ErrorKind::timeout, "gave no answer"), gpu_);
  ASSERT_TRUE(stored(gpu_) && stored(gpu_)->failure);
  EXPECT_EQ(stored(gpu_)->failure->kind, ErrorKind::timeout);
  EXPECT_EQ(stored(gpu_)->failure->message, "gave no answer");
  EXPECT_FALSE(stored("GPU-another"));
  keep(took(8), gpu_);
  EXPECT_FALSE(stored(gpu_)->failure);
}

/// Details are texts that may come from another machine's file.
TEST_F(CallRecord, OfAnUnknownLibraryHasItsTimeAllTheSame) {
  for (const char* const detail : {R"({"library":5})", R"(["cuBLASLt"])", "not JSON", ""}) {
    TrialRecords records = call_records(key_, took(8), gpu_, db::samples::provenance());
    records.candidates.at(0).detail = detail;
    ASSERT_TRUE(store_->record_candidates(records.candidates).ok());
    for (const db::MeasurementRecord& one : records.measurements) ASSERT_TRUE(store_->record_measurement(one).ok());
    ASSERT_TRUE(stored(gpu_)) << detail;
    EXPECT_EQ(stored(gpu_)->library, "") << detail;
    EXPECT_NEAR(stored(gpu_)->us, 8, 0.1);
  }
}

/// Its own kernels are candidates of the same fragment, and there may be thousands of them.
TEST_F(CallRecord, IsFoundAmongAnyNumberOfCandidates) {
  keep(took(8), gpu_);
  std::vector<db::Candidate> kernels;
  for (int i = 0; i < 1100; ++i) {
    db::Candidate& kernel = kernels.emplace_back();
    kernel.key = key_;
    kernel.scope = db::Candidate::Scope::plan;
    kernel.schedule = fmt::format(R"({{"number":{}}})", i);
    kernel.schedule_hash = hash_bytes(kernel.schedule);
    kernel.outcome = db::Outcome::correct;
    kernel.provenance = db::samples::provenance();
  }
  ASSERT_TRUE(store_->record_candidates(kernels).ok());
  ASSERT_TRUE(stored(gpu_));
  EXPECT_NEAR(stored(gpu_)->us, 8, 0.1);
}

/// A fragment's history is of its kernels: a call among its candidates is none of them.
TEST_F(CallRecord, IsNoKernelOfTheFragment) {
  keep(took(8), gpu_);
  const auto history = FragmentHistory::read(*store_, key_, fragment_.family, gpu_);
  ASSERT_TRUE(history.ok()) << history.error().message;
  EXPECT_TRUE(history->of(fragment_.key, fragment_.family).own.empty());
}

}  // namespace
}  // namespace stitch::tuning
