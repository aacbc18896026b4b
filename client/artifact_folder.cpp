#include "client/artifact_folder.h"

#include <algorithm>
#include <cstdlib>

#include "base/hash.h"

namespace stitch::client {
namespace {

/// No store holds a longer one (db/blob.h).
constexpr std::int64_t largest_artifact = std::int64_t{256} << 20;
constexpr std::int64_t stale_us = std::int64_t{3600} * 1'000'000;

/// Our files are named by their hash, those of older versions by a shorter one; whatever else is in the folder is not
/// ours to count or to delete.
bool is_name(std::string_view text) { return Sha256::from_hex(text) || Hash128::from_hex(text); }
bool is_artifact(const std::filesystem::path& path) { return is_name(path.filename().string()); }

/// A file on its way into the folder, or what a killed process left of one.
bool is_temporary(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') && is_name(std::string_view(name).substr(1, name.find('.', 1) - 1));
}

}  // namespace

ArtifactFolder::ArtifactFolder(FileSystem& files, const Clock& clock, std::filesystem::path folder,
                               std::int64_t max_bytes)
    : files_(files), clock_(clock), folder_(std::move(folder)), max_bytes_(max_bytes) {}

std::filesystem::path ArtifactFolder::default_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "stitch" / "artifacts";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "/tmp") / ".cache/stitch/artifacts";
}

std::optional<std::string> ArtifactFolder::find(const Sha256& hash) {
  const std::filesystem::path path = folder_ / hash.hex();
  Result<std::string> bytes = files_.read_own(path, largest_artifact);
  if (!bytes) return std::nullopt;  // whatever is there is replaced when the artifact is stored
  if (sha256(*bytes) != hash) {
    // Whoever else reads it finds the same; should somebody have mended it meanwhile, it is fetched once more.
    (void)files_.remove(path).ok();
    return std::nullopt;
  }
  (void)files_.set_modified(path, clock_.wall_us()).ok();
  return *std::move(bytes);
}

Status ArtifactFolder::store(const Sha256& hash, std::string_view bytes) {
  STITCH_TRY(files_.make_directories(folder_));
  STITCH_TRY(files_.publish(folder_ / hash.hex(), bytes));
  const std::lock_guard lock(mutex_);
  unseen_bytes_ += bytes.size();
  if (!seen_ || unseen_bytes_ > max_bytes_ / 8) {
    evict();
    seen_ = true;
    unseen_bytes_ = 0;
  }
  return {};
}

void ArtifactFolder::evict() {
  std::vector<FileSystem::Entry> entries;
  std::int64_t total = 0;
  for (FileSystem::Entry& entry : files_.list(folder_)) {
    if (is_temporary(entry.path) && entry.modified_us + stale_us < clock_.wall_us()) {
      (void)files_.remove(entry.path).ok();
    }
    if (!is_artifact(entry.path)) continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.modified_us < b.modified_us; });
  for (const FileSystem::Entry& entry : entries) {
    if (total <= max_bytes_) return;
    if (files_.remove(entry.path)) total -= entry.bytes;
  }
}

}  // namespace stitch::client
