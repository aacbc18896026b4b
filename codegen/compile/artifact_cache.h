#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "codegen/compile/compiler.h"

namespace stitch::codegen {

struct ArtifactCacheOptions {
  std::filesystem::path folder;
  std::int64_t max_bytes = std::int64_t{2} << 30;  ///< of the folder's artifacts; least recently used go first
};

/// Events since the cache was opened.
struct ArtifactCacheCounts {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t damaged = 0;  ///< entries that failed their check and were deleted; each is a miss, too
  std::int64_t stored = 0;
  std::int64_t failed_stores = 0;
  std::int64_t evicted = 0;
  bool operator==(const ArtifactCacheCounts&) const = default;
};

/// Compiled kernels on disk, one file each, named by their key: a hash of all that the result depends on (source,
/// device headers, architecture, options, toolkit), so that an entry is never out of date and need never be asked
/// twice.
///
///     ArtifactCache cache(files, clock, {.folder = "/var/cache/stitch"});
///     if (auto found = cache.find(compiler.key(request))) return *found;
/// XX
///
/// Daemon and command line fill one through a CachingCompiler; nobody else writes to it. Safe to use from many threads
/// and several processes at once: entries are immutable, appear atomically, and whoever loses a race to publish one has
/// succeeded.
class ArtifactCache {
 public:
  /// `files` and `clock` must outlive the cache; the folder is made when the first artifact is stored.
  ArtifactCache(FileSystem& files, const Clock& clock, ArtifactCacheOptions options);

  /// The artifact, marked as used now; nothing on a miss. A damaged entry is deleted and counted.
  std::optional<CompiledKernel> find(const Hash128& key);

  /// Publishes it under kernel.key, then evicts the least recently used if the bound is exceeded. Each process looks at
  /// the folder anew after an eighth of the bound, so several together may exceed it by an eighth each.
  /// Errors: io (unwritable folder, full disk).
  Status store(const CompiledKernel& kernel);

  [[nodiscard]] ArtifactCacheCounts counts() const;
  [[nodiscard]] std::filesystem::path path_of(const Hash128& key) const;

 private:
  void evict_if_full(std::int64_t added_bytes);
  std::int64_t evict();

  FileSystem& files_;
  const Clock& clock_;
  const ArtifactCacheOptions options_;
  mutable std::mutex mutex_;  ///< guards everything below
  ArtifactCacheCounts counts_;
  std::optional<std::int64_t> known_bytes_;  ///< as of the last look at the folder, plus our own stores since
  std::int64_t added_since_look_ = 0;
};

/// A compiler with a memory. Two threads that ask for the same artifact compile it once; a cache that cannot be
/// written costs time, never a result.
class CachingCompiler final : public Compiler {
 public:
  /// Both must outlive it. `complain` is told, once and from any thread, why an artifact could not be stored.
  CachingCompiler(Compiler& compiler, ArtifactCache& cache, std::function<void(std::string_view)> complain = {})
      : compiler_(compiler), cache_(cache), complain_(std::move(complain)) {}

  Result<CompiledKernel> compile(const CompileRequest& request) override;
  [[nodiscard]] Hash128 key(const CompileRequest& request) const override { return compiler_.key(request); }

  /// Calls that waited for another caller's compilation of the same artifact instead of compiling.
  [[nodiscard]] std::int64_t shared() const;

 private:
  using Flight = std::shared_future<Result<CompiledKernel>>;
  Flight join(const Hash128& key, std::promise<Result<CompiledKernel>>& promise);
  Result<CompiledKernel> fly(const CompileRequest& request, const Hash128& key);
  Result<CompiledKernel> find_or_compile(const CompileRequest& request, const Hash128& key);

  Compiler& compiler_;
  ArtifactCache& cache_;
  const std::function<void(std::string_view)> complain_;
  std::once_flag complained_;
  mutable std::mutex mutex_;                     ///< guards everything below
  std::unordered_map<Hash128, Flight> flights_;  ///< compilations under way
  std::int64_t shared_ = 0;
};

}  // namespace stitch::codegen
