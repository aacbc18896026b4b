#include "driver/state/misuse.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>

namespace stitch::driver {
namespace {

constexpr std::size_t most_findings = 1000;

bool is_fault(MisuseKind kind) { return kind != MisuseKind::invalid_call && kind != MisuseKind::unsupported; }

nlohmann::json document_of(const emulator::Counters& counters) {
  nlohmann::json values = nlohmann::json::object();
  for (const emulator::NamedCounter& counter : emulator::named_counters()) {
    if (counters.*counter.value != 0) values[std::string(counter.name)] = counters.*counter.value;
  }
  values["instructions"] = counters.total().warps;
  values["global_load_sectors"] = counters.global_loads.sectors;
  values["global_store_sectors"] = counters.global_stores.sectors;
  return values;
}

}  // namespace

std::string_view to_string(MisuseKind kind) {
  switch (kind) {
    case MisuseKind::kernel: return "kernel";
    case MisuseKind::unordered_access: return "unordered_access";
    case MisuseKind::freed_memory: return "freed_memory";
    case MisuseKind::invalid_call: return "invalid_call";
    case MisuseKind::leak: return "leak";
    case MisuseKind::unsupported: return "unsupported";
  }
  return "";
}

MisuseLog::MisuseLog() {
  const char* quiet = std::getenv("STITCH_EMULATED_QUIET");
  quiet_ = quiet != nullptr && *quiet != '\0' && std::string_view(quiet) != "0";
}

void MisuseLog::add(MisuseKind kind, std::string message) {
  const std::lock_guard guard(mutex_);
  const auto known = std::ranges::find_if(
      found_, [&](const Misuse& misuse) { return misuse.kind == kind && misuse.message == message; });
  if (known != found_.end()) {
    ++known->count;
    return;
  }
  if (found_.size() >= most_findings) return;
  if (!quiet_) fmt::print(stderr, "stitch emulated driver: {}: {}\n", to_string(kind), message);
  found_.push_back({kind, std::move(message), 1});
}

void MisuseLog::add_launch(const std::string& kernel, const emulator::Counters& counters) {
  const std::lock_guard guard(mutex_);
  Launches& launches = launches_[kernel];
  ++launches.count;
  launches.counters += counters;
}

std::uint64_t MisuseLog::launches() const {
  const std::lock_guard guard(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [kernel, launches] : launches_) sum += launches.count;
  return sum;
}

std::uint64_t MisuseLog::faults() const {
  const std::lock_guard guard(mutex_);
  return std::ranges::count_if(found_, [](const Misuse& misuse) { return is_fault(misuse.kind); });
}

std::vector<Misuse> MisuseLog::findings() const {
  const std::lock_guard guard(mutex_);
  return found_;
}

void MisuseLog::report(const std::string& device) const {
  const std::lock_guard guard(mutex_);
  if (!quiet_ && !found_.empty()) {
    fmt::print(stderr, "stitch emulated driver: {} findings, of {} kernels launched\n", found_.size(),
               launches_.size());
  }
  if (const char* path = std::getenv("STITCH_EMULATED_REPORT"); path != nullptr && *path != '\0') {
    std::string name = path;
    if (const auto at = name.find("%p"); at != std::string::npos) name.replace(at, 2, std::to_string(getpid()));
    write_document(name, device);
  }
}

void MisuseLog::write_document(const std::string& path, const std::string& device) const {
  nlohmann::json document;
  document["device"] = device;
  document["findings"] = nlohmann::json::array();
  for (const Misuse& misuse : found_) {
    document["findings"].push_back({{"kind", to_string(misuse.kind)},
                                    {"message", misuse.message},
                                    {"count", misuse.count},
                                    {"fault", is_fault(misuse.kind)}});
  }
  document["kernels"] = nlohmann::json::array();
  for (const auto& [name, launches] : launches_) {
    document["kernels"].push_back(
        {{"name", name}, {"launches", launches.count}, {"counters", document_of(launches.counters)}});
  }
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    fmt::print(stderr, "stitch emulated driver: cannot write its report to {}\n", path);
    return;
  }
  fmt::print(file, "{}\n", document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fclose(file);
}

}  // namespace stitch::driver
