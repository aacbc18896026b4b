// The store under load: look-ups, commits, and how both hold up with 100,000 plans.
//   db_benchmark [--benchmark_filter=...]
#include <benchmark/benchmark.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "db/sqlite_store.h"

namespace stitch::db {
namespace {

const SystemClock system_clock;

Provenance provenance() { return {"0.1.0", "13.0", "emulated", 1'700'000'000'000'000, "verified, share 1.0"}; }

Hash128 hash_of(std::string_view what, std::int64_t number) { return hash_bytes(fmt::format("{} {}", what, number)); }

/// Bytes that compress about as machine code does: words out of a small vocabulary.
std::string code_like(std::int64_t number, std::size_t size) {
  Random random(static_cast<std::uint64_t>(number));
  std::string bytes;
  while (bytes.size() < size) bytes += fmt::format("{:08x}", random.below(500) * 0x01000193);
  return bytes;
}

Artifact artifact(Artifact::Kind kind, std::string bytes) {
  const Sha256 hash = sha256(bytes);
  return {hash, kind, std::move(bytes), provenance()};
}

FragmentRecord fragment(std::int64_t number) {
  return {hash_of("fragment", number),
          hash_of("family", number / 16),
          "layer norm",
          code_like(number, 500),
          12,
          std::int64_t{1} << 20,
          provenance()};
}

/// One kernel: 3 KB of source, 6 KB of PTX, 8 KB of cubin.
PlanBundle bundle(std::int64_t number) {
  PlanBundle made;
  made.artifacts = {artifact(Artifact::Kind::source, code_like(number, 3000)),
                    artifact(Artifact::Kind::ptx, code_like(~number, 6000)),
                    artifact(Artifact::Kind::cubin, code_like(number + (1 << 30), 8000))};
  Kernel kernel;
  kernel.name = "stitch_kernel";
  kernel.architecture = "sm_90a";
  kernel.source = made.artifacts[0].hash;
  kernel.ptx = made.artifacts[1].hash;
  kernel.cubin = made.artifacts[2].hash;
  kernel.provenance = provenance();
  kernel.hash = kernel_hash(kernel);
  made.plan.key = {hash_of("fragment", number), {"h100", "sm_90a", "13.0", "1"}};
  made.plan.steps = {{kernel.hash, R"([{"parameter":0},{"parameter":1},{"result":0}])"}};
  made.plan.document = fmt::format(R"({{"schedule":"{}"}})", code_like(number, 1000));
  made.plan.predicted_us = 10;
  made.plan.provenance = provenance();
  made.kernels = {std::move(kernel)};
  return made;
}

void require(const auto& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

/// A store in a temporary folder with this many plans, removed at exit.
class FilledStore {
 public:
  explicit FilledStore(std::int64_t plans) {
    auto opened = open_sqlite_store(options(), system_clock);
    require(opened);
    store = std::move(*opened);
    for (std::int64_t done = 0; done < plans;) {
      std::vector<PlanBundle> batch;
      for (; done < plans && batch.size() < 1000; ++done) {
        require(store->put_fragment(fragment(done)));
        batch.push_back(bundle(done));
      }
      require(store->put_plans(batch, Admission::if_vacant));
    }
  }
  ~FilledStore() { store.reset(); }
  FilledStore(const FilledStore&) = delete;
  FilledStore& operator=(const FilledStore&) = delete;

  [[nodiscard]] SqliteOptions options() const {
    SqliteOptions made;
    made.path = folder_ / "stitch.db";
    return made;
  }

  std::unique_ptr<Store> store;

 private:
  static TemporaryFolder new_folder() {
    auto made = TemporaryFolder::make("db-benchmark");
    require(made);
    return *std::move(made);
  }

  const TemporaryFolder folder_ = new_folder();
};

/// Filled once per size and shared by the benchmarks of that size.
FilledStore& filled(std::int64_t plans) {
  static std::mutex mutex;
  static std::map<std::int64_t, std::unique_ptr<FilledStore>> stores;
  const std::lock_guard lock(mutex);
  std::unique_ptr<FilledStore>& store = stores[plans];
  if (!store) store = std::make_unique<FilledStore>(plans);
  return *store;
}

void LookupHit(benchmark::State& state) {
  const std::int64_t plans = state.range(0);
  Store& store = *filled(plans).store;
  Random random(static_cast<std::uint64_t>(state.thread_index()));
  for (auto _ : state) {
    const PlanKey key{hash_of("fragment", static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(plans)))),
                      {"h100", "sm_90a", "13.0", "1"}};
    const auto lookup = store.find_plan(key, {});
    if (!lookup || !lookup->plan) state.SkipWithError("a plan is missing");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookupHit)->Arg(1000)->Arg(100'000)->ThreadRange(1, 4)->UseRealTime();

void LookupMissWithReason(benchmark::State& state) {
  Store& store = *filled(state.range(0)).store;
  Random random(1);
  for (auto _ : state) {
    const PlanKey key{hash_of("fragment", static_cast<std::int64_t>(random.below(1000))),
                      {"h100", "sm_90a", "12.0", "1"}};
    const auto lookup = store.find_plan(key, {});
    if (!lookup || lookup->miss.differs.size() != 1) state.SkipWithError("no reason");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookupMissWithReason)->Arg(1000)->Arg(100'000)->UseRealTime();

void FetchArtifact(benchmark::State& state) {
  const std::int64_t plans = state.range(0);
  Store& store = *filled(plans).store;
  Random random(2);
  std::int64_t bytes = 0;
  for (auto _ : state) {
    const std::int64_t number = random.below(static_cast<std::uint64_t>(plans));
    state.PauseTiming();
    const Sha256 hash = bundle(number).kernels[0].cubin;
    state.ResumeTiming();
    const auto cubin = store.get_artifact(hash);
    if (!cubin) state.SkipWithError("an artifact is missing");
    bytes += 8000;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(bytes);
}
BENCHMARK(FetchArtifact)->Arg(1000)->Arg(100'000)->UseRealTime();

/// Every plan a transaction of its own, synced to the disk before it is acknowledged.
void InsertPlan(benchmark::State& state) {
  FilledStore scratch(0);
  std::int64_t number = 0;
  for (auto _ : state) {
    require(scratch.store->put_fragment(fragment(number)));
    require(scratch.store->put_plan(bundle(number), Admission::if_vacant));
    ++number;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(InsertPlan)->UseRealTime();

void InsertPlansInBatches(benchmark::State& state) {
  FilledStore scratch(0);
  require(scratch.store->put_fragment(fragment(0)));
  std::int64_t number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<PlanBundle> batch;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      batch.push_back(bundle(number++));
      batch.back().plan.key.fragment = hash_of("fragment", 0);
    }
    state.ResumeTiming();
    require(scratch.store->put_plans(batch, Admission::challenger));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(InsertPlansInBatches)->Arg(100)->UseRealTime();

/// What a start costs: header, quick_check of the whole file, schema.
void Open(benchmark::State& state) {
  const SqliteOptions options = filled(state.range(0)).options();
  for (auto _ : state) require(open_sqlite_store(options, system_clock));
}
BENCHMARK(Open)->Arg(1000)->Arg(100'000)->UseRealTime()->Unit(benchmark::kMillisecond);

void Statistics(benchmark::State& state) {
  Store& store = *filled(state.range(0)).store;
  for (auto _ : state) require(store.statistics());
}
BENCHMARK(Statistics)->Arg(1000)->Arg(100'000)->UseRealTime()->Unit(benchmark::kMillisecond);

void ClaimAndFinishJob(benchmark::State& state) {
  FilledStore scratch(0);
  Job job;
  job.kind = "tune";
  job.provenance = provenance();
  for (auto _ : state) {
    require(scratch.store->enqueue_job(job));
    const auto claimed = scratch.store->claim_job("bench", 1'000'000, {});
    require(claimed);
    require(scratch.store->finish_job((*claimed)->id, (*claimed)->fence, {}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ClaimAndFinishJob)->UseRealTime();

}  // namespace
}  // namespace stitch::db

BENCHMARK_MAIN();
