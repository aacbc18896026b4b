#include "codegen/compile/artifact_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "codegen/compile/artifact.h"

namespace stitch::codegen {
namespace {

constexpr std::string_view suffix = ".stitchk";
constexpr std::int64_t largest_entry = std::int64_t{1} << 30;  ///< as decode_artifact bounds what is in it
/// A temporary file this old was left by a process that died while it published.
constexpr std::int64_t stale_us = std::int64_t{3600} * 1'000'000;

/// How soon somebody who waits for another's compilation sees that nobody wants it any more.
constexpr std::chrono::milliseconds look_at_stop_every{20};

bool is_artifact(const std::filesystem::path& path) { return path.extension() == suffix; }

/// As FileSystem::publish names them: ".NAME.PROCESS.COUNT".
bool is_temporary(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') && name.find(std::string(suffix) + ".") != std::string::npos;
}

}  // namespace

ArtifactCache::ArtifactCache(FileSystem& files, const Clock& clock, ArtifactCacheOptions options)
    : files_(files), clock_(clock), options_(std::move(options)) {}

std::filesystem::path ArtifactCache::path_of(const Hash128& key) const {
  return options_.folder / (key.hex() + std::string(suffix));
}

std::optional<CompiledKernel> ArtifactCache::find(const Hash128& key) {
  const std::filesystem::path path = path_of(key);
  const auto bytes = files_.read_own(path, largest_entry);
  auto kernel = bytes ? decode_artifact(*bytes, key) : Result<CompiledKernel>(bytes.error());
  const bool damaged = bytes && !kernel && kernel.error().kind == ErrorKind::corrupt;
  // A failure to delete or to touch costs another miss or an early eviction, never a wrong answer.
  if (damaged) (void)files_.remove(path);
  if (kernel) (void)files_.set_modified(path, clock_.wall_us());

  const std::lock_guard lock(mutex_);
  ++(kernel ? counts_.hits : counts_.misses);
  if (damaged) ++counts_.damaged;
  if (!kernel) return std::nullopt;
  kernel->from_cache = true;
  return std::move(*kernel);
}

Status ArtifactCache::store(const CompiledKernel& kernel) {
  const std::filesystem::path path = path_of(kernel.key);
  const std::string bytes = encode_artifact(kernel);
  Status status = files_.make_directories(options_.folder);
  if (status) status = files_.publish(path, bytes);
  if (status) (void)files_.set_modified(path, clock_.wall_us());

  const std::lock_guard lock(mutex_);
  ++(status ? counts_.stored : counts_.failed_stores);
  if (status) evict_if_full(bytes.size());
  return status;
}

void ArtifactCache::evict_if_full(std::int64_t added_bytes) {
  added_since_look_ += added_bytes;
  if (known_bytes_) *known_bytes_ += added_bytes;
  if (known_bytes_ && *known_bytes_ <= options_.max_bytes && added_since_look_ <= options_.max_bytes / 8) return;
  known_bytes_ = evict();
  added_since_look_ = 0;
}

/// Looks at the folder and deletes, oldest use first, down to nine tenths of the bound: an eviction per store would
/// list the folder every time. The bytes that remain.
std::int64_t ArtifactCache::evict() {
  std::vector<FileSystem::Entry> artifacts;
  std::int64_t total = 0;
  for (FileSystem::Entry& entry : files_.list(options_.folder)) {
    if (is_temporary(entry.path) && entry.modified_us + stale_us < clock_.wall_us()) (void)files_.remove(entry.path);
    if (!is_artifact(entry.path)) continue;
    total += entry.bytes;
    artifacts.push_back(std::move(entry));
  }
  if (total <= options_.max_bytes) return total;
  std::ranges::stable_sort(artifacts, {}, &FileSystem::Entry::modified_us);
  for (const FileSystem::Entry& entry : artifacts) {
    if (total <= options_.max_bytes / 10 * 9) break;
    if (!files_.remove(entry.path)) continue;
    total -= entry.bytes;
    ++counts_.evicted;
  }
  return total;
}

ArtifactCacheCounts ArtifactCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Result<CompiledKernel> CachingCompiler::compile(const CompileRequest& request) {
  const Hash128 wanted = key(request);
  while (true) {
    std::promise<Result<CompiledKernel>> promise;
    const Flight joined = join(wanted, promise);
    if (!joined.valid()) {
      Result<CompiledKernel> result = fly(request, wanted);
      promise.set_value(result);
      return result;
    }
    while (joined.wait_for(look_at_stop_every) != std::future_status::ready) {
      if (request.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while another compiled");
    }
    // Whoever compiled it may have been stopped, which is nothing to those who were not.
    if (joined.get() || joined.get().error().kind != ErrorKind::cancelled) return joined.get();
    if (request.stop.stop_requested()) return joined.get();
  }
}

/// The compilation of this artifact that is under way; none where there was none: then `promise` is the one.
CachingCompiler::Flight CachingCompiler::join(const Hash128& key, std::promise<Result<CompiledKernel>>& promise) {
  const std::lock_guard lock(mutex_);
  if (const auto under_way = flights_.find(key); under_way != flights_.end()) {
    ++shared_;
    return under_way->second;
  }
  flights_.emplace(key, promise.get_future().share());
  return {};
}

Result<CompiledKernel> CachingCompiler::fly(const CompileRequest& request, const Hash128& key) {
  struct Landing {
    CachingCompiler& self;
    const Hash128& key;
    ~Landing() {
      const std::lock_guard lock(self.mutex_);
      self.flights_.erase(key);
    }
  };
  const Landing landing{*this, key};
  return find_or_compile(request, key);
}

Result<CompiledKernel> CachingCompiler::find_or_compile(const CompileRequest& request, const Hash128& wanted) {
  if (auto cached = cache_.find(wanted)) return std::move(*cached);
  Result<CompiledKernel> compiled = compiler_.compile(request);
  if (!compiled) return compiled;
  if (const Status stored = cache_.store(*compiled); !stored && complain_) {
    std::call_once(complained_, complain_, stored.error().within("compiled kernels are not kept").message);
  }
  return compiled;
}

std::int64_t CachingCompiler::shared() const {
  const std::lock_guard lock(mutex_);
  return shared_;
}

}  // namespace stitch::codegen
