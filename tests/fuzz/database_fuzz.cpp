#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "db/sqlite_store.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {
namespace {

namespace fs = std::filesystem;

/// A file in memory, where there is such a folder: one is written for every input.
const fs::path& database_path() {
  static const fs::path path = [] {
    const fs::path memory = "/dev/shm";
    const fs::path folder = fs::is_directory(memory) ? memory : fs::temp_directory_path();
    return folder / ("stitch-fuzz-" + std::to_string(::getpid()) + ".db");
  }();
  return path;
}

void write(std::string_view bytes) {
  std::FILE* file = std::fopen(database_path().c_str(), "wb");
  promise(file != nullptr, "the database's file can be written");
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

template <class T>
void expect_reason(const Result<T>& result) {
  promise(result.ok() || !result.error().message.empty(), "a refusal says why");
}

/// Everything that serving reads.
void read_all(const db::Store& store) {
  const db::Page page;
  if (const auto plans = store.list_plans({}, page); plans) {
    for (const db::PlanRecord& plan : plans->items) {
      expect_reason(store.get_plan_bundle(plan.id));
      expect_reason(store.find_plan(plan.key, std::nullopt));
    }
  }
  if (const auto fragments = store.list_fragments(page); fragments) {
    for (const db::FragmentSummary& fragment : fragments->items) expect_reason(store.get_fragment(fragment.key));
  }
  expect_reason(store.list_jobs({}, page));
  expect_reason(store.list_job_events(0, page));
  expect_reason(store.list_promotions(page));
  expect_reason(store.list_candidates({}, page));
  expect_reason(store.list_devices());
  expect_reason(store.list_models());
  expect_reason(store.statistics());
  expect_reason(store.integrity_check(true));
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  static const SystemClock clock;
  write(bytes);
  db::SqliteOptions options;
  options.path = database_path();
  options.read_only = true;
  options.create = false;
  options.readers = 1;
  const auto store = db::open_sqlite_store(options, clock);
  expect_reason(store);
  if (store) read_all(**store);
  std::error_code ignored;
  fs::remove(database_path(), ignored);
}

}  // namespace stitch::fuzz
