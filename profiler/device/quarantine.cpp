#include "profiler/device/quarantine.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "graph/codec/codec.h"

namespace stitch::profiler {
namespace {

using Json = nlohmann::json;

constexpr std::string_view format_name = "stitch-quarantine";
constexpr int format_version = 1;

Json document_of(const std::vector<QuarantineEntry>& entries) {
  Json list = Json::array();
  for (const QuarantineEntry& entry : entries) {
    list.push_back({{"key", entry.key.hex()},
                    {"device", entry.device},
                    {"kernel", entry.kernel},
                    {"reason", entry.reason},
                    {"tool", entry.tool},
                    {"when_us", entry.when_us}});
  }
  return {{"format", format_name}, {"version", format_version}, {"entries", std::move(list)}};
}

Result<std::vector<QuarantineEntry>> entries_from(const Json& document) {
  if (document.at("format").get<std::string>() != format_name)
    return make_error(ErrorKind::corrupt, "not a quarantine");
  if (const int version = document.at("version").get<int>(); version != format_version) {
    return make_error(ErrorKind::version_mismatch, "version {}; this program reads {}", version, format_version);
  }
  std::vector<QuarantineEntry> entries;
  for (const Json& one : document.at("entries")) {
    const auto key = Hash128::from_hex(one.at("key").get<std::string>());
    if (!key) return make_error(ErrorKind::corrupt, "entries[{}].key is no hash", entries.size());
    entries.push_back({*key, one.at("device").get<std::string>(), one.at("kernel").get<std::string>(),
                       one.at("reason").get<std::string>(), one.at("tool").get<std::string>(),
                       one.at("when_us").get<std::int64_t>()});
  }
  return entries;
}

Result<std::vector<QuarantineEntry>> read_entries(const std::string& text) {
  auto document = graph::parse_document(text, graph::Encoding::json);
  if (!document) return make_error(ErrorKind::corrupt, "{}", document.error().message);
  try {
    return entries_from(*document);
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::corrupt, "{}", exception.what());
  }
}

bool same(const QuarantineEntry& entry, const Hash128& key, const std::string& device) {
  return entry.key == key && entry.device == device;
}

}  // namespace

Hash128 hash_of(const KernelImage& image) {
  return Hasher().text(image.name).text(image.ptx).text(image.cubin).text(image.architecture).finish();
}

Hash128 quarantine_key(std::span<const std::pair<Hash128, LaunchShape>> launches) {
  Hasher hasher;
  hasher.integer(launches.size());
  for (const auto& [image, shape] : launches) {
    hasher.hash(image).integer(shape.blocks);
    hasher.integer(shape.threads).integer(shape.cluster);
    hasher.integer(shape.shared_bytes).integer(shape.cooperative ? 1 : 0);
  }
  return hasher.finish();
}

Status Quarantine::load() {
  const std::lock_guard lock(mutex_);
  return load_locked();
}

Status Quarantine::load_locked() {
  if (path_.empty() || !files_.exists(path_)) return {};
  STITCH_ASSIGN(const std::string text, files_.read(path_));
  auto entries = read_entries(text);
  if (!entries) return entries.error().within(path_.string());
  std::erase_if(*entries, [](const QuarantineEntry& entry) { return entry.tool != tool_version; });
  entries_ = std::move(*entries);
  return {};
}

std::optional<QuarantineEntry> Quarantine::find(const Hash128& key, const std::string& device) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const QuarantineEntry& entry) { return same(entry, key, device); });
  return found == entries_.end() ? std::nullopt : std::optional(*found);
}

Status Quarantine::check(const Hash128& key, const std::string& device) const {
  const auto entry = find(key, device);
  if (!entry) return {};
  const std::time_t seconds = entry->when_us / 1000000;
  return make_error(ErrorKind::runtime, "{} is quarantined on {} since {:%Y-%m-%dT%H:%M:%SZ}: {}", entry->kernel,
                    device, fmt::gmtime(seconds), entry->reason);
}

Status Quarantine::add(QuarantineEntry entry) {
  entry.tool = tool_version;
  entry.when_us = clock_.wall_us();
  const std::lock_guard lock(mutex_);
  // What other processes have added since is kept; a file that became unreadable is made anew from what is known here.
  const std::vector<QuarantineEntry> known = entries_;
  if (unsaved_ || !load_locked()) entries_ = known;
  std::erase_if(entries_, [&](const QuarantineEntry& one) { return same(one, entry.key, entry.device); });
  entries_.push_back(std::move(entry));
  if (path_.empty()) return {};
  // A reason may quote what a dying process wrote, whatever bytes that were.
  const std::string text = document_of(entries_).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const Status published = files_.publish(path_, text);
  unsaved_ = !published;
  return published;
}

Status Quarantine::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  if (path_.empty() || !files_.exists(path_)) return {};
  return files_.remove(path_);
}

std::vector<QuarantineEntry> Quarantine::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

}  // namespace stitch::profiler
