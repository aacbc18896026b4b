#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "codegen/compile/nvrtc.h"

namespace stitch::codegen {

struct CompilerPoolOptions {
  std::string program = {};  ///< when empty: stitch-compiler beside the running program
  NvrtcOptions nvrtc = {};
  /// What sources may include from, besides the headers that come with them. Nothing else of the file system can be
  /// opened by a child, where the kernel can do so.
  std::vector<std::filesystem::path> readable = {};
  int children = 0;  ///< at most, started when they are needed; 0: two more than processors, for what is short
  int compiles_per_child = 1000;                         ///< then another takes its place
  std::int64_t retire_at_bytes = std::int64_t{1} << 30;  ///< likewise of one whose memory has ever been as much
  /// Address space of a child, NVRTC's 100 MB included; a source that needs more does not compile.
  std::int64_t memory_bytes = std::int64_t{6} << 30;
  double start_seconds = 60;
  /// Told once, in words, what a child could not give up: an old kernel, a container.
  std::function<void(std::string_view)> complain = {};
};

/// Events since the pool began.
struct CompilerPoolCounts {
  std::int64_t started = 0;    ///< children
  std::int64_t compiled = 0;   ///< sources that a child answered for, right or wrong
  std::int64_t cancelled = 0;  ///< children killed because nobody wants their work any more
  std::int64_t timed_out = 0;  ///< children killed at the end of a source's time
  std::int64_t died = 0;       ///< children that ended by themselves
  std::int64_t retired = 0;
  int most_at_once = 0;  ///< compilations under way at the same time
  bool operator==(const CompilerPoolCounts&) const = default;
};

/// NVRTC in processes of its own: it serialises what one process compiles, cannot be interrupted in all its phases,
/// and takes its process with it when it crashes. Children keep NVRTC loaded between compilations, and end with this
/// process however that ends.
///
///   STITCH_ASSIGN(const auto pool, CompilerPool::start({}));
///   NvrtcCompiler compiler(CompilerOptions(), pool);
///
/// A source whose child dies is tried once more in a fresh one: it may have been somebody else's doing (the kernel out
/// of memory); the second death is the source's fault (kind compile, with how the child ended). Safe to use from many
/// threads at once; who finds no child free waits, for as long as its stop token lets it.
class CompilerPool final : public NvrtcEngine {
 public:
  /// Starts the first child. Errors: not_found (no such program), unavailable and version_mismatch (as Nvrtc::load),
  /// timeout, runtime (it ended instead of greeting).
  static Result<std::shared_ptr<const CompilerPool>> start(CompilerPoolOptions options);
  ~CompilerPool() override;

  [[nodiscard]] Result<NvrtcOutput> compile(const NvrtcInput& input) const override;

  [[nodiscard]] CompilerPoolCounts counts() const;
  /// Process ids of the children that are there.
  [[nodiscard]] std::vector<int> children() const;

 private:
  struct Child {
    std::unique_ptr<Process> process;
    int compiles = 0;
    bool busy = false;
  };
  class Lease;

  explicit CompilerPool(CompilerPoolOptions options);
  Result<NvrtcFacts> greet(Child& child, const std::stop_token& stop) const;
  Result<NvrtcOutput> compile_in(Child& child, const std::string& frame, const NvrtcInput& input, bool& died) const;
  Error lost(Child& child, const Error& why, const NvrtcInput& input, bool& died) const;
  std::unique_ptr<Process> take_process(Child& child) const;
  void count(std::int64_t CompilerPoolCounts::*counter) const;

  const CompilerPoolOptions options_;
  mutable std::mutex mutex_;  ///< guards all below but the processes of children that are busy
  mutable std::condition_variable_any freed_;
  mutable std::vector<Child> children_;
  mutable CompilerPoolCounts counts_;
  mutable bool complained_ = false;
};

}  // namespace stitch::codegen
