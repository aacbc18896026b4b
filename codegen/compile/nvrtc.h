#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"

namespace stitch::codegen {

struct NvrtcOptions {
  /// The library, or the folder that holds it. When empty, libnvrtc.so.13, .12 and unversioned are looked for beside
  /// the executable, in the toolkit found when Stitch was built, and on the loader's search path, in this order.
  std::filesystem::path library = {};
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
  double timeout_seconds = 0;  ///< 0 = none; in this process only toolkits from 12.8 on keep to it
  std::stop_token stop = {};   ///< likewise
};

struct NvrtcOutput {
  bool compiled = false;
  std::string log;    ///< warnings, errors and ptxas's report
  std::string ptx;    ///< empty where the toolkit gives none for the options
  std::string cubin;  ///< empty unless -arch names a real architecture
};

/// What there is to know of an NVRTC without using it.
struct NvrtcFacts {
  std::string toolkit;  ///< "13.0.88": the build, taken from what it writes into PTX; the library tells major and minor
  int major = 0, minor = 0;
  std::filesystem::path path;
  std::vector<int> architectures;  ///< compute capabilities times ten, ascending: 75, 80, …, 121

  bool operator==(const NvrtcFacts&) const = default;
};

/// Something that compiles as NVRTC does: the library in this process, or one in processes of its own
/// (codegen/compile/compiler_pool.h). Safe to use from many threads at once.
class NvrtcEngine {
 public:
  virtual ~NvrtcEngine() = default;

  [[nodiscard]] const NvrtcFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& toolkit() const { return facts_.toolkit; }
  [[nodiscard]] int major() const { return facts_.major; }
  [[nodiscard]] int minor() const { return facts_.minor; }
  [[nodiscard]] std::span<const int> architectures() const { return facts_.architectures; }

  /// Errors: timeout, cancelled (NvrtcInput::stop), runtime (NVRTC itself fails, or its process dies). A source that
  /// does not compile is an output with its log.
  [[nodiscard]] virtual Result<NvrtcOutput> compile(const NvrtcInput& input) const = 0;

 protected:
  NvrtcFacts facts_;
};

/// NVRTC in this process, loaded at run time. It compiles one source at a time, whoever asks.
class Nvrtc final : public NvrtcEngine {
 public:
  /// Errors: unavailable, naming every place that was tried; version_mismatch for a library older than 12.0.
  static Result<std::shared_ptr<const Nvrtc>> load(const NvrtcOptions& options = {});

  [[nodiscard]] const std::filesystem::path& path() const { return facts_.path; }

  /// Whether it keeps to NvrtcInput::timeout_seconds and stop.
  [[nodiscard]] bool can_interrupt() const;

  [[nodiscard]] Result<NvrtcOutput> compile(const NvrtcInput& input) const override;

  ~Nvrtc() override;
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

 private:
  struct Functions;
  Nvrtc();
  Status query_toolkit();

  std::unique_ptr<Functions> functions_;
};

}  // namespace stitch::codegen
