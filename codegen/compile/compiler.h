#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "codegen/compile/nvrtc.h"
#include "codegen/compile/resource_usage.h"

namespace stitch::codegen {

/// One source to compile for one architecture.
struct CompileRequest {
  std::string source;                ///< CUDA C++; may include the device headers: #include "stitch/NAME.cuh"
  std::string architecture;          ///< a real one, as DeviceSpec::architecture() writes it: "sm_90a"
  std::vector<std::string> options;  ///< further NVRTC options: "-DNAME=1"
  int max_registers = 0;             ///< per thread; 0 = no limit but the launch bounds
  bool line_info = true;             ///< keep source lines in PTX (.loc) and cubin
  std::stop_token stop = {};         ///< ends the compilation (error: cancelled); no part of the key
};

/// What came of a request: the kernel in both forms, and what the compiler said about it.
struct CompiledKernel {
  std::string ptx;
  std::string cubin;
  ResourceUsage resources;          ///< of the entry; the maximum of each figure where there are several
  std::vector<EntryUsage> entries;  ///< every __global__ function of the source
  std::string log;                  ///< the compiler's warnings, without ptxas's report
  double seconds = 0;               ///< the compilation's time; that of the original one when it was cached
  std::string toolkit;              ///< "13.0.88"
  std::string architecture;
  Hash128 key;
  bool from_cache = false;

  bool operator==(const CompiledKernel&) const = default;
};

/// Makes kernels of sources: what codegen/kernel.h printed becomes PTX, for the emulated device, and a cubin, for a
/// GPU, with a report of the registers and shared memory that each entry takes.
///
///     STITCH_ASSIGN(const auto nvrtc, NvrtcCompiler::create());
///     CachingCompiler compiler(*nvrtc, cache);  // codegen/compile/artifact_cache.h
///     STITCH_ASSIGN(const CompiledKernel made, compiler.compile({.source = kernel.source, .architecture = "sm_90a"}));
///     // made.resources.registers, made.ptx, made.cubin
///
/// The workshop of tuning/ has candidates compiled, verification and timing load what came of it. Tests give their own
/// compiler in its place. Safe to use from many threads at once.
class Compiler {
 public:
  virtual ~Compiler() = default;

  /// Errors: compile (message: each error with its source lines quoted, then the log), unsupported (architecture),
  /// constraint (too long), timeout, cancelled, unavailable, runtime.
  virtual Result<CompiledKernel> compile(const CompileRequest& request) = 0;

  /// Hash of everything that the result depends on: source, device headers, architecture, options, toolkit.
  [[nodiscard]] virtual Hash128 key(const CompileRequest& request) const = 0;
};

struct CompilerOptions {
  NvrtcOptions nvrtc;
  /// Searched after the embedded device headers. For the toolkit's own headers (cuda_fp16.h) only: the key covers
  /// them by the toolkit's version, not by their contents.
  std::vector<std::filesystem::path> include_directories;
  double timeout_seconds = 120;  ///< of one compilation
};

/// A longer source is refused (kind constraint) without asking the compiler, whose time and memory grow faster than it.
inline constexpr std::size_t most_source_bytes = std::size_t{4} << 20;

/// The real compiler: one NVRTC compilation gives PTX and cubin.
class NvrtcCompiler final : public Compiler {
 public:
  /// With NVRTC in this process, where compilations wait for each other: for tests and short tools. Errors:
  /// unavailable, version_mismatch (see Nvrtc::load).
  static Result<std::unique_ptr<NvrtcCompiler>> create(const CompilerOptions& options = {});
  /// With NVRTC in processes of its own (codegen/compile/compiler_pool.h). Errors: those of CompilerPool::start.
  static Result<std::unique_ptr<NvrtcCompiler>> create_pool(const CompilerOptions& options,
                                                            std::function<void(std::string_view)> complain = {});
  /// With whatever compiles; options.nvrtc means nothing then.
  NvrtcCompiler(CompilerOptions options, std::shared_ptr<const NvrtcEngine> nvrtc);

  Result<CompiledKernel> compile(const CompileRequest& request) override;
  [[nodiscard]] Hash128 key(const CompileRequest& request) const override;
  [[nodiscard]] const NvrtcEngine& nvrtc() const { return *nvrtc_; }

 private:
  CompilerOptions options_;
  std::shared_ptr<const NvrtcEngine> nvrtc_;
};

}  // namespace stitch::codegen
