// Every field of every record goes into documents and tables and comes back.
#include "db/record_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/bundle_codec.h"
#include "db/migrations.h"
#include "db/record_columns.h"
#include "tests/db/sample_records.h"
#include "tests/graph/filled_record.h"

namespace stitch::db {
namespace {

using testing::UnorderedElementsAreArray;

/// A bundle whose records are filled, as far as what they are checked for allows.
FragmentBundle filled_bundle() {
  auto bundle = graph::filled<FragmentBundle>();
  for (Device& device : bundle.devices) device.kind = "recorded";
  for (Artifact& artifact : bundle.artifacts) artifact.hash = sha256(artifact.bytes);
  for (Kernel& kernel : bundle.kernels) kernel.hash = kernel_hash(kernel);
  for (PlanRecord& plan : bundle.plans) {
    plan.key.fragment = bundle.fragment.key;
    plan.label = Label::near;
    plan.id = plan_id(plan);
  }
  for (Candidate& candidate : bundle.candidates) candidate.schedule_hash = hash_bytes(candidate.schedule);
  for (MeasurementRecord& measurement : bundle.measurements) {
    measurement.summary = summarise(measurement.samples);
    measurement.id = measurement_id(measurement);
  }
  return bundle;
}

TEST(RecordFieldsTest, EveryFieldGoesThroughAPortableFile) {
  FragmentBundle bundle = filled_bundle();
  const Result<FragmentBundle> back = decode_bundle(encode_bundle(bundle));
  ASSERT_OK(back);
  EXPECT_EQ(back->fragment, bundle.fragment);
  EXPECT_EQ(back->devices, bundle.devices);
  EXPECT_EQ(back->artifacts, bundle.artifacts);
  EXPECT_EQ(back->kernels, bundle.kernels);
  EXPECT_EQ(back->candidates, bundle.candidates);
  EXPECT_EQ(back->measurements, bundle.measurements);
  for (PlanRecord& plan : bundle.plans) {  // what each store counts for itself
    plan.sequence = 0;
    plan.measured_us.reset();
  }
  EXPECT_EQ(back->plans, bundle.plans);
}

/// Forgets what the table of a record keeps apart or counts.
class Forgetter {
 public:
  template <class T, class... Notes>
  Forgetter& operator()(std::string_view, T& value, const Notes&...) {
    if constexpr (((std::same_as<Notes, Apart> || std::same_as<Notes, Counted>) || ...)) value = T();
    return *this;
  }
  template <graph::fields::Record T, class... Notes>
  Forgetter& operator()(std::string_view, std::vector<T>& parts, const Notes&...) {
    parts.clear();  // a table of their own
    return *this;
  }
  template <class... Notes>
  Forgetter& bytes(std::string_view name, std::string& value, const Notes&... notes) {
    return (*this)(name, value, notes...);
  }
  template <class T>
  Forgetter& stored(std::string_view, T&) {
    return *this;
  }
};

/// Through a table that has exactly the columns of the record.
template <class Record>
void expect_table_round_trip(bool has_target = false) {
  auto record = graph::filled<Record>();
  Forgetter forgetter;
  visit_fields(forgetter, record);
  const auto connection = *sqlite::Connection::open_memory();
  const std::string columns = Columns::of<Record>(Columns::Purpose::insert).list();
  ASSERT_OK(
      connection->run_script("CREATE TABLE target (row INTEGER PRIMARY KEY, device, architecture, toolkit, version)"));
  std::string all = columns;
  for (const std::string_view counted : {"id", "sequence"}) {
    if (columns_of<Record>().starts_with(counted) && !columns.starts_with(counted)) all += fmt::format(", {}", counted);
  }
  ASSERT_OK(connection->run_script(fmt::format("CREATE TABLE record ({})", all)));
  if constexpr (requires { record.key.target; }) ASSERT_OK(insert(*connection, {.table = "target"}, record.key.target));
  ASSERT_OK(insert(*connection, {.table = "record", .target = 1}, record));
  auto rows = connection->query(fmt::format("SELECT {} FROM record r {}", columns_of<Record>("r."),
                                            has_target ? "JOIN target t ON t.row = r.target" : ""));
  ASSERT_OK(rows);
  ASSERT_TRUE(*rows->step());
  const Result<Record> back = read_record<Record>(*rows, "record");
  ASSERT_OK(back);
  if constexpr (requires { record == record; }) {
    EXPECT_EQ(*back, record);
  } else {
    EXPECT_EQ(back->key, record.key);
    EXPECT_EQ(back->provenance, record.provenance);
  }
}

TEST(RecordFieldsTest, EveryFieldGoesThroughATable) {
  expect_table_round_trip<Device>();
  expect_table_round_trip<FragmentRecord>();
  expect_table_round_trip<FragmentSummary>();
  expect_table_round_trip<Workload>();
  expect_table_round_trip<Workload::Part>();
  expect_table_round_trip<Artifact>();
  expect_table_round_trip<Kernel>();
  expect_table_round_trip<PlanRecord>(true);
  expect_table_round_trip<PlanStep>();
  expect_table_round_trip<Promotion>(true);
  expect_table_round_trip<Candidate>(true);
  expect_table_round_trip<MeasurementRecord>();
  expect_table_round_trip<CostModelRecord>();
  expect_table_round_trip<Job>();
  expect_table_round_trip<JobEvent>();
}

/// What the schema has for a record: its fields, and the columns named here.
template <class Record>
void expect_columns(std::string_view table, std::initializer_list<std::string> more = {}) {
  const auto connection = *sqlite::Connection::open_memory();
  ASSERT_OK(migrate(*connection, migrations(), 0));
  std::vector<std::string> expected(more);
  std::string name;
  for (const char c : Columns::of<Record>(Columns::Purpose::insert).list() + ",") {
    if (c == ' ') continue;
    if (c != ',') {
      name += c;
      continue;
    }
    expected.push_back(std::exchange(name, ""));
  }
  std::vector<std::string> there;
  auto rows = connection->query("SELECT name FROM pragma_table_info(?)", table);
  while (*rows->step()) there.emplace_back(rows->bytes(0));
  EXPECT_THAT(there, UnorderedElementsAreArray(expected)) << table;
}

TEST(RecordFieldsTest, EveryColumnIsAField) {
  expect_columns<Device>("device");
  expect_columns<FragmentRecord>("fragment", {"row", "graph"});
  expect_columns<Workload>("workload", {"row"});
  expect_columns<Workload::Part>("workload_part", {"workload", "position"});
  expect_columns<ProgramRecord>("program", {"row", "hash", "raw_bytes", "data"});
  expect_columns<Target>("target", {"row"});
  expect_columns<Artifact>("artifact", {"row", "raw_bytes", "stored_bytes", "data"});
  expect_columns<Kernel>("kernel", {"row"});
  expect_columns<PlanRecord>("plan", {"row"});
  expect_columns<PlanStep>("plan_step", {"plan", "position"});
  expect_columns<Promotion>("promotion", {"sequence"});
  expect_columns<Candidate>("candidate", {"row"});
  expect_columns<MeasurementRecord>("measurement", {"row"});
  expect_columns<CostModelRecord>("model", {"row", "hash", "raw_bytes", "data"});
  expect_columns<Job>("job", {"id"});
  expect_columns<JobEvent>("job_event", {"sequence"});
}

}  // namespace
}  // namespace stitch::db
