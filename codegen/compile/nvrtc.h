#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace stitch::codegen {

struct NvrtcOptions {
  /// The library, or the folder that holds it. When empty, libnvrtc.so.13, .12 and unversioned are looked for beside
  /// the executable, in the toolkit found when Stitch was built, and on the loader's search path, in this order.
  std::filesystem::path library;
};

/// One compilation as NVRTC takes it.
struct NvrtcInput {
  std::string source;
  std::string name;  ///< what messages and line tables call the source
  struct Header {
    const char* name = nullptr;
    const char* contents = nullptr;
  };
  std::vector<Header> headers;
  std::vector<std::string> options;
  double timeout_seconds = 0;  ///< 0 = none; only toolkits that can be interrupted (12.8 and later) keep to it
};

struct NvrtcOutput {
  bool compiled = false;
  std::string log;    ///< warnings, errors and ptxas's report
  std::string ptx;    ///< empty where the toolkit gives none for the options
  std::string cubin;  ///< empty unless -arch names a real architecture
};

/// NVRTC, loaded at run time. Immutable and safe to use from many threads at once.
class Nvrtc {
 public:
  /// Errors: unavailable, naming every place that was tried; version_mismatch for a library older than 12.0.
  static Result<std::shared_ptr<const Nvrtc>> load(const NvrtcOptions& options = {});

  /// "13.0.88": the build, taken from what it writes into PTX, since the library itself only tells major and minor.
  [[nodiscard]] const std::string& toolkit() const { return toolkit_; }
  [[nodiscard]] int major() const { return major_; }
  [[nodiscard]] int minor() const { return minor_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Whether it keeps to NvrtcInput::timeout_seconds.
  [[nodiscard]] bool can_interrupt() const;

  /// Compute capabilities times ten, ascending: 75, 80, …, 121.
  [[nodiscard]] std::span<const int> architectures() const { return architectures_; }

  /// Errors: timeout, runtime (NVRTC itself fails). A source that does not compile is an output with its log.
  [[nodiscard]] Result<NvrtcOutput> compile(const NvrtcInput& input) const;

  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

 private:
  struct Functions;
  Nvrtc();
  Status query_toolkit();

  std::unique_ptr<Functions> functions_;
  std::filesystem::path path_;
  std::string toolkit_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> architectures_;
};

}  // namespace stitch::codegen
