#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "db/sqlite_store.h"
#include "db/store.h"
#include "tests/base/test_folder.h"

// Records to store, numbered so that equal numbers give equal records.
namespace stitch::db::samples {

inline std::string text_of(int number, std::string_view word) { return fmt::format("{} {}", word, number); }

inline Provenance provenance(std::string_view judged = "predicted by analytical v1") {
  return {"0.1.0", "13.0", "emulated", 1'700'000'000'000'000, std::string(judged)};
}

inline Hash128 hash(int number) { return hash_bytes(text_of(number, "hash")); }

inline FragmentRecord fragment(int number, int family = 0) {
  return {hash(number),        hash(1'000'000 + family),  text_of(number, "layer norm"), text_of(number, "graph of"), 7,
          4096 * (number + 1), provenance("cut by 0.1.0")};
}

inline Target target() { return {"h100", "sm_90a", "13.0", "codegen 1"}; }

inline Artifact artifact(Artifact::Kind kind, std::string bytes) {
  const Sha256 name = sha256(bytes);
  return {name, kind, std::move(bytes), provenance("compiled by NVRTC 13.0")};
}

/// A plan of one kernel with its three artifacts.
inline PlanBundle bundle(const FragmentRecord& of, int number, const Target& to = target()) {
  PlanBundle made;
  made.artifacts = {artifact(Artifact::Kind::source, text_of(number, "__global__ void kernel() {} //")),
                    artifact(Artifact::Kind::ptx, text_of(number, ".version 9.0 //")),
                    artifact(Artifact::Kind::cubin, text_of(number, "\177ELF") + std::string(2000, '\0'))};
  Kernel kernel;
  kernel.name = "stitch_kernel";
  kernel.architecture = to.architecture;
  kernel.options = "-std=c++20";
  kernel.source = made.artifacts[0].hash;
  kernel.ptx = made.artifacts[1].hash;
  kernel.cubin = made.artifacts[2].hash;
  kernel.launch = R"({"grid":[1024,1,1],"block":[256,1,1]})";
  kernel.resources = {32, 2048, 0, 0, 0};
  kernel.provenance = provenance("compiled by NVRTC 13.0");
  kernel.hash = kernel_hash(kernel);
  made.plan.key = {of.key, to};
  made.plan.steps = {{kernel.hash, R"([{"parameter":0},{"result":0}])"}};
  made.plan.document = fmt::format(R"({{"scratch":[],"number":{}}})", number);
  made.plan.bytes = 8192;
  made.plan.predicted_us = 10.5 + number;
  made.plan.verified_share = 1;
  made.plan.provenance = provenance("verified on emulated device, share 1.0");
  made.plan.id = plan_id(made.plan);
  made.kernels = {std::move(kernel)};
  return made;
}

inline Device gpu(int number = 0) {
  Device device;
  device.key = fmt::format("GPU-{:04}", number);
  device.kind = "gpu";
  device.target = "h100";
  device.name = "NVIDIA H100 80GB HBM3";
  device.architecture = "sm_90a";
  device.driver = "580.65.06";
  device.sm_count = 132;
  device.memory_bytes = std::int64_t{80} << 30;
  device.constants = R"({"dram_bandwidth":3.35e12})";
  device.calibrated_us = 1'700'000'000'000'000;
  device.provenance = provenance("calibrated by microbenchmarks");
  return device;
}

inline Device emulated() {
  Device device;
  device.key = "emulated";
  device.kind = "emulated";
  device.provenance = provenance("present");
  return device;
}

inline MeasurementRecord measurement(MeasurementRecord::Subject kind, const Hash128& subject,
                                     std::vector<double> samples) {
  MeasurementRecord made;
  made.subject_kind = kind;
  made.subject = subject;
  made.device = gpu().key;
  made.samples = std::move(samples);
  made.summary = summarise(made.samples);
  made.dropped = 3;
  made.sm_clock_mhz = 1980.0;
  made.temperature_c = 41.5;
  made.driver = "580.65.06";
  made.method = "CUPTI activity";
  made.stopped = "noise 0.5 %";
  made.conditions = R"({"graph":false})";
  made.provenance = provenance("measured by CUPTI");
  made.id = measurement_id(made);
  return made;
}

inline Candidate candidate(const FragmentRecord& of, int number, Outcome outcome) {
  Candidate made;
  made.key = {of.key, target()};
  made.schedule = fmt::format(R"({{"vector":{}}})", number);
  made.schedule_hash = hash_bytes(made.schedule);
  made.outcome = outcome;
  made.detail = outcome == Outcome::compile ? "error: too many registers" : "";
  made.seed = ~std::uint64_t{0} - static_cast<std::uint64_t>(number);
  made.predicted_us = 2.5;
  made.verified_share = outcome == Outcome::correct ? 0.25 : 0;
  made.provenance = provenance("verified on emulated device, share 0.25");
  return made;
}

inline Job job(std::string dedupe_key = "", int priority = 0) {
  Job made;
  made.kind = "tune";
  made.dedupe_key = std::move(dedupe_key);
  made.priority = priority;
  made.payload = std::string("{\"model\":\0}", 11);
  made.provenance = provenance("asked for by a client");
  return made;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::unique_ptr<Store> opened(const SqliteOptions& options, const Clock& clock) {
  Result<std::unique_ptr<Store>> store = open_sqlite_store(options, clock);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return store.ok() ? std::move(*store) : nullptr;
}

inline std::unique_ptr<Store> opened(const std::filesystem::path& path, const Clock& clock) {
  SqliteOptions options;
  options.path = path;
  return opened(options, clock);
}

/// Stores a fragment and a plan for it; returns the plan's id.
inline Hash128 put(Store& store, int number, Admission admission = Admission::if_vacant) {
  const FragmentRecord of = fragment(number);
  const Status stored = store.put_fragment(of);
  EXPECT_TRUE(stored.ok()) << stored.error().message;
  const Result<PutPlan> plan = store.put_plan(bundle(of, number), admission);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? plan->id : Hash128{};
}

/// ASSERT_OK(expression): a Result or Status that must have succeeded.
#define ASSERT_OK(expression)                                           \
  do {                                                                  \
    const auto& stitch_checked = (expression);                          \
    ASSERT_TRUE(stitch_checked.ok()) << stitch_checked.error().message; \
  } while (false)
#define EXPECT_OK(expression)                                           \
  do {                                                                  \
    const auto& stitch_checked = (expression);                          \
    EXPECT_TRUE(stitch_checked.ok()) << stitch_checked.error().message; \
  } while (false)

/// Expects a failure of this kind whose message contains `text`.
template <class T>
void expect_error(const Result<T>& result, ErrorKind kind, std::string_view text) {
  ASSERT_FALSE(result.ok()) << "expected: " << text;
  EXPECT_EQ(to_string(result.error().kind), to_string(kind)) << result.error().message;
  EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
}

}  // namespace stitch::db::samples
