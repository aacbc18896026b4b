// Damaged files: found, named, and never a crash (the asan preset watches).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/blob.h"
#include "db/database_file.h"
#include "db/sqlite.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

namespace fs = std::filesystem;
using samples::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;

/// A store in which a change can be made behind its back.
class CorruptionTest : public testing::Test {
 protected:
  void SetUp() override {
    path = folder / "stitch.db";
    store = samples::opened(path, clock);
    id = samples::put(*store, 1);
    bundle = samples::bundle(samples::fragment(1), 1);
  }

  template <class... Arguments>
  void change(std::string_view sql, const Arguments&... arguments) {
    auto connection = sqlite::Connection::open({path, sqlite::OpenOptions::Mode::read_write, 1000, 0, ""});
    ASSERT_OK(connection);
    const auto changed = (*connection)->execute(sql, arguments...);
    ASSERT_OK(changed);
    ASSERT_EQ(*changed, 1);
  }

  TestFolder folder;
  ManualClock clock;
  fs::path path;
  std::unique_ptr<Store> store;
  Hash128 id;
  PlanBundle bundle;
};

TEST_F(CorruptionTest, AnArtifactThatIsNotItsHashIsFoundOnReading) {
  const Artifact& cubin = bundle.artifacts[2];
  std::string other = cubin.bytes;
  other[7] = 'X';
  const std::string frame = *compress(other);
  change("UPDATE artifact SET data = ? WHERE hash = ?", sqlite::Blob{frame}, cubin.hash);
  expect_error(store->get_artifact(cubin.hash), ErrorKind::corrupt, "artifact " + cubin.hash.hex());
  expect_error(store->get_plan_bundle(id), ErrorKind::corrupt, cubin.hash.hex());
  EXPECT_OK(store->get_plan(id));
  EXPECT_THAT(store->integrity_check(false)->problems, testing::IsEmpty());
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre(HasSubstr(cubin.hash.hex())));
}

TEST_F(CorruptionTest, WhatIsPutAgainIsMended) {
  for (const Artifact& artifact : bundle.artifacts) {
    change("UPDATE artifact SET data = zeroblob(20) WHERE hash = ?", artifact.hash);
    expect_error(store->get_artifact(artifact.hash), ErrorKind::corrupt, artifact.hash.hex());
  }
  ASSERT_OK(store->put_plan(bundle, Admission::if_vacant));
  for (const Artifact& artifact : bundle.artifacts) EXPECT_EQ(*store->get_artifact(artifact.hash), artifact);

  const FragmentRecord fragment = samples::fragment(1);
  change("UPDATE artifact SET data = zeroblob(20) WHERE hash = ?", sha256(fragment.graph));
  expect_error(store->get_fragment(fragment.key), ErrorKind::corrupt, "fragment ");
  ASSERT_OK(store->put_fragment(fragment));
  EXPECT_EQ(*store->get_fragment(fragment.key), fragment);

  const Upload upload{sha256("a model"), "a model", samples::provenance()};
  ASSERT_OK(store->put_upload(upload));
  change("UPDATE upload SET data = zeroblob(20)");
  expect_error(store->get_upload(upload.hash), ErrorKind::corrupt, "upload " + upload.hash.hex());
  ASSERT_OK(store->put_upload(upload));
  EXPECT_EQ(*store->get_upload(upload.hash), upload);
  EXPECT_THAT(store->integrity_check(true)->problems, testing::IsEmpty());
}

TEST_F(CorruptionTest, ABrokenFrameIsFoundOnReading) {
  const Artifact& source = bundle.artifacts[0];
  change("UPDATE artifact SET data = substr(data, 1, length(data) - 4) WHERE hash = ?", source.hash);
  expect_error(store->get_artifact(source.hash), ErrorKind::corrupt, "artifact " + source.hash.hex());
  change("UPDATE artifact SET raw_bytes = 1000000000000 WHERE hash = ?", source.hash);
  expect_error(store->get_artifact(source.hash), ErrorKind::corrupt, "is impossible");
}

TEST_F(CorruptionTest, APlanThatIsNotItsIdIsNeverServed) {
  change("UPDATE plan_step SET arguments = '[{\"parameter\":1}]'");
  expect_error(store->find_plan(bundle.plan.key, {}), ErrorKind::corrupt, "plan " + id.hex());
  expect_error(store->get_plan(id), ErrorKind::corrupt, id.hex());
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre(HasSubstr(id.hex())));
}

TEST_F(CorruptionTest, EveryRecordWithAnIdentityIsChecked) {
  ASSERT_OK(store->put_device(samples::gpu()));
  ASSERT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, id, {1, 2})));
  change("UPDATE measurement SET samples = zeroblob(16)");
  expect_error(store->list_measurements(id), ErrorKind::corrupt, "measurement ");

  change("UPDATE kernel SET launch = '{}'");
  expect_error(store->get_kernel(bundle.kernels[0].hash), ErrorKind::corrupt, bundle.kernels[0].hash.hex());

  const Candidate candidate = samples::candidate(samples::fragment(1), 1, Outcome::correct);
  ASSERT_OK(store->record_candidates({&candidate, 1}));
  change("UPDATE candidate SET schedule = '{}'");
  expect_error(store->list_candidates({}, {}), ErrorKind::corrupt, candidate.schedule_hash.hex());

  CostModelRecord model;
  model.name = "residual";
  model.bytes = "trees";
  model.provenance = samples::provenance();
  ASSERT_OK(store->put_model(model));
  const std::string frame = *compress("treez");
  change("UPDATE model SET data = ?", sqlite::Blob{frame});
  expect_error(store->get_model("residual", "", {}), ErrorKind::corrupt, "model \"residual\"");

  const Sha256 graph = sha256(samples::fragment(1).graph);
  change("UPDATE artifact SET data = zeroblob(20) WHERE hash = ?", graph);
  expect_error(store->get_fragment(samples::hash(1)), ErrorKind::corrupt, "fragment " + samples::hash(1).hex());
}

TEST_F(CorruptionTest, FalseClaimsAreFoundByTheIntegrityCheck) {
  change("UPDATE plan SET label = 'measured', measured_us = 1.0");
  EXPECT_THAT(store->integrity_check(false)->problems, ElementsAre(HasSubstr("labelled measured without")));
  change("UPDATE plan SET label = 'predicted', measured_us = NULL, sequence = 77");
  EXPECT_THAT(store->integrity_check(false)->problems, ElementsAre(HasSubstr("is served without a promotion")));
}

TEST_F(CorruptionTest, ConstraintsHoldAgainstOtherWriters) {
  auto connection = sqlite::Connection::open({path, sqlite::OpenOptions::Mode::read_write, 1000, 0, ""});
  struct Case {
    const char* sql;
    ErrorKind kind;
    const char* message = "constraint";
  };
  const Case cases[] = {
      {"UPDATE plan SET label = 'superb'", ErrorKind::invalid_argument},
      {"UPDATE plan SET label = 'measured'", ErrorKind::invalid_argument},
      {"UPDATE plan SET label = 'near'", ErrorKind::invalid_argument},
      {"UPDATE plan SET status = 'incumbent', sequence = 0", ErrorKind::invalid_argument},
      {"UPDATE plan SET verified_share = 1.5", ErrorKind::invalid_argument},
      {"UPDATE plan SET id = x'00'", ErrorKind::invalid_argument},
      {"UPDATE plan SET fragment = zeroblob(16)", ErrorKind::invalid_argument},
      {"DELETE FROM kernel", ErrorKind::invalid_argument},
      {"DELETE FROM artifact", ErrorKind::invalid_argument},
      {"UPDATE artifact SET raw_bytes = 'many'", ErrorKind::invalid_argument, "cannot store TEXT value"},
      {"INSERT INTO plan SELECT row + 1, randomblob(16), fragment, target, document, bytes, label, status, "
       "predicted_us, "
       "measured_us, verified_share, sequence, tool, toolkit, judged_on, wall_us, judged, neighbour FROM plan",
       ErrorKind::already_exists},
  };
  for (const Case& c : cases) expect_error((*connection)->execute(c.sql), c.kind, c.message);
}

/// Asks a store everything, and changes something. Whatever it answers is fine, as long as it answers.
void exercise(Store& store) {
  const PlanKey key{samples::hash(1), samples::target()};
  (void)store.find_plan(key, {});
  (void)store.find_plan({samples::hash(2), {"a100", "sm_80", "12", "c"}}, samples::fragment(1).family);
  (void)store.get_fragment_bundle(samples::hash(1));
  (void)store.list_devices();
  (void)store.list_fragments({});
  (void)store.list_workloads({});
  (void)store.list_plans({}, {});
  (void)store.list_promotions({});
  (void)store.list_candidates({}, {});
  (void)store.list_models();
  (void)store.get_model("residual", "", {});
  (void)store.list_jobs({}, {});
  (void)store.list_job_events(0, {});
  (void)store.statistics();
  (void)store.integrity_check(true);
  (void)store.requeue_orphans({.everyone = true});
  (void)store.claim_job("fuzz", 1000, {});
  (void)store.put_fragment(samples::fragment(9));
  (void)store.put_plan(samples::bundle(samples::fragment(1), 9), Admission::replace);
  (void)store.prune({1LL << 60, 1LL << 60});
}

/// Makes a database with something in every table.
void make_full_database(const fs::path& path, const Clock& clock) {
  const auto store = samples::opened(path, clock);
  EXPECT_OK(store->put_device(samples::gpu()));
  for (int i = 0; i < 5; ++i) {
    const Hash128 id = samples::put(*store, i);
    EXPECT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, id, {1.0 * i, 2})));
    const Candidate candidate = samples::candidate(samples::fragment(i), i, Outcome::correct);
    EXPECT_OK(store->record_candidates({&candidate, 1}));
    EXPECT_OK(store->enqueue_job(samples::job(std::to_string(i))));
  }
  EXPECT_OK(store->claim_job("a daemon", 1000, {}));
  CostModelRecord model;
  model.name = "residual";
  model.bytes = "trees";
  model.provenance = samples::provenance();
  EXPECT_OK(store->put_model(model));
  Workload workload;
  workload.format = "onnx";
  workload.parts = {{samples::hash(1), 2}, {samples::hash(2), 1}};
  workload.provenance = samples::provenance();
  EXPECT_OK(store->put_workload(workload));
}

void spoil(std::string& bytes, Random& random, std::size_t from) {
  const std::uint64_t flips = 1 + random.below(20);
  for (std::uint64_t i = 0; i < flips && bytes.size() > from; ++i)
    bytes[from + random.below(bytes.size() - from)] ^= static_cast<char>(1 << random.below(8));
}

TEST(FuzzTest, FlippedBitsNeverCrash) {
  const TestFolder folder;
  const ManualClock clock;
  make_full_database(folder / "good.db", clock);
  const std::string good = samples::read_file(folder / "good.db");
  ASSERT_GT(good.size(), 100'000U);
  Random random(1);
  int opened = 0, refused = 0;
  for (int round = 0; round < 150; ++round) {
    SqliteOptions options;
    options.path = folder / fmt::format("round{}.db", round);
    options.check_on_open = round % 3 == 0;
    std::string damaged = good;
    spoil(damaged, random, round % 2 == 0 ? 0 : 100);
    samples::write_file(options.path, damaged);
    {
      const auto store = open_sqlite_store(options, clock);
      ++(store ? opened : refused);
      if (store) exercise(**store);
    }
    fs::remove(options.path);
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

TEST(FuzzTest, AFlippedLogNeverCrashesAndLosesOnlyItsEnd) {
  const TestFolder folder;
  const ManualClock clock;
  samples::put(*samples::opened(folder / "good.db", clock), 100);
  const std::string good = samples::read_file(folder / "good.db");
  // The log as a crash leaves it: copied while the store is open.
  const auto store = samples::opened(folder / "good.db", clock);
  for (int i = 0; i < 5; ++i) samples::put(*store, i);
  const std::string log = samples::read_file(log_path(folder / "good.db"));
  ASSERT_GT(log.size(), 50'000U);
  Random random(2);
  for (int round = 0; round < 80; ++round) {
    const fs::path path = folder / fmt::format("round{}.db", round);
    std::string damaged = log;
    spoil(damaged, random, 0);
    samples::write_file(path, good);
    samples::write_file(log_path(path), damaged);
    const auto recovered = samples::opened(path, clock);
    ASSERT_TRUE(recovered) << "a log is read as far as its checksums hold";
    EXPECT_OK(recovered->get_plan_bundle(plan_id(samples::bundle(samples::fragment(100), 100).plan)));
    EXPECT_THAT(recovered->integrity_check(true)->problems, testing::IsEmpty());
    exercise(*recovered);
  }
}

}  // namespace
}  // namespace stitch::db
