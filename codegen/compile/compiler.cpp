#include "codegen/compile/compiler.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/sha256.h"
#include "codegen/compile/compile_log.h"
#include "codegen/compile/compiler_pool.h"
#include "codegen/device_headers.h"

namespace stitch::codegen {
namespace {

/// Absolute, because NVRTC completes a relative name with the working folder, which has no business in an artifact.
constexpr std::string_view virtual_folder = "/stitch/";
constexpr std::string_view source_name = "kernel.cu";
constexpr std::size_t log_limit = 8192;  ///< bytes of log in an error message

/// Bumped when options or post-processing change in a way that the key does not see otherwise.
constexpr std::uint64_t key_version = 2;

/// "sm_90a" → 90; nothing for what is not the name of a real architecture.
std::optional<int> capability_of(std::string_view architecture) {
  if (!architecture.starts_with("sm_")) return std::nullopt;
  architecture.remove_prefix(3);
  if (architecture.ends_with('a') || architecture.ends_with('f')) architecture.remove_suffix(1);
  int value = 0;
  const auto [stop, code] = std::from_chars(architecture.data(), architecture.data() + architecture.size(), value);
  if (code != std::errc() || stop != architecture.data() + architecture.size()) return std::nullopt;
  return value;
}

Status check_architecture(const std::string& architecture, const NvrtcEngine& nvrtc) {
  const auto capability = capability_of(architecture);
  if (capability && std::ranges::count(nvrtc.architectures(), *capability) != 0) return {};
  std::string known;
  for (const int each : nvrtc.architectures()) known += fmt::format(" sm_{}", each);
  return make_error(ErrorKind::unsupported, "NVRTC {} does not compile for \"{}\"; it knows{}", nvrtc.toolkit(),
                    architecture, known);
}

/// Everything but the include folders, whose contents the toolkit's version stands for.
std::vector<std::string> options_of(const CompileRequest& request, const NvrtcEngine& nvrtc) {
  std::vector<std::string> options = {
      "-arch=" + request.architecture,
      "--std=c++20",
      "-default-device",
      "-no-source-include",  // or the working folder's files could shadow ours
      "--ptxas-options=-v",
  };
  // Without the runtime's texture and launch functions, which generated code has no use for: 12 % less time.
  if (std::pair(nvrtc.major(), nvrtc.minor()) >= std::pair(12, 4)) options.emplace_back("--minimal");
  // Where there is a driver it caches what was compiled, and gives no report of ptxas with what it finds there. We have
  // a cache of our own (artifact_cache.h); loading the driver also reserves gigabytes of address space.
  if (std::pair(nvrtc.major(), nvrtc.minor()) >= std::pair(12, 9)) options.emplace_back("--no-cache");
  if (request.line_info) options.emplace_back("-lineinfo");
  if (request.max_registers > 0) options.push_back(fmt::format("--maxrregcount={}", request.max_registers));
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

/// The device headers as NVRTC gets them: each under a name that does not depend on the working folder.
const std::vector<std::string>& placed_headers() {
  static const std::vector<std::string> headers = [] {
    std::vector<std::string> texts;
    for (const DeviceHeader& header : device_headers()) {
      texts.push_back(fmt::format("#line 1 \"/{}\"\n{}", header.name, header.contents));
    }
    return texts;
  }();
  return headers;
}

NvrtcInput input_for(const CompileRequest& request, const CompilerOptions& options, const NvrtcEngine& nvrtc) {
  NvrtcInput input;
  input.source = request.source;
  input.name = fmt::format("{}{}", virtual_folder, source_name);
  for (std::size_t i = 0; i < device_headers().size(); ++i) {
    input.headers.push_back({device_headers()[i].name.data(), placed_headers()[i].c_str()});
  }
  input.options = options_of(request, nvrtc);
  for (const auto& folder : options.include_directories) input.options.push_back("-I" + folder.string());
  input.timeout_seconds = options.timeout_seconds;
  input.stop = request.stop;
  return input;
}

std::string_view without_virtual_folder(std::string_view file) {
  if (file.starts_with(virtual_folder)) file.remove_prefix(virtual_folder.size());
  return file;
}

std::string_view contents_of(std::string_view file, const CompileRequest& request, const NvrtcOutput& output) {
  if (file == source_name) return request.source;
  if (file == "ptx") return output.ptx;
  for (const DeviceHeader& header : device_headers()) {
    if (without_virtual_folder(fmt::format("/{}", header.name)) == file) return header.contents;
  }
  return {};
}

Error compile_error(const CompileRequest& request, const NvrtcOutput& output, const NvrtcEngine& nvrtc) {
  std::vector<CompileMessage> errors = compile_errors(output.log);
  for (CompileMessage& error : errors) error.file = without_virtual_folder(error.file);
  const auto contents = [&](std::string_view file) { return contents_of(file, request, output); };
  std::string log = without_ptxas_report(output.log);
  if (log.size() > log_limit) {
    log = fmt::format("{}\n({} more bytes)", log.substr(0, log_limit), log.size() - log_limit);
  }
  return make_error(ErrorKind::compile, "{}NVRTC {} for {} says:\n{}", quote_errors(errors, contents), nvrtc.toolkit(),
                    request.architecture, log);
}

Status read_resources(const NvrtcOutput& output, CompiledKernel& kernel) {
  STITCH_ASSIGN(kernel.entries, parse_ptxas_log(output.log));
  if (kernel.entries.empty()) return make_error(ErrorKind::compile, "the source has no __global__ function");
  STITCH_TRY(complete_from_cubin(kernel.cubin, kernel.entries));
  kernel.resources = maximum_usage(kernel.entries);
  return {};
}

}  // namespace

NvrtcCompiler::NvrtcCompiler(CompilerOptions options, std::shared_ptr<const NvrtcEngine> nvrtc)
    : options_(std::move(options)), nvrtc_(std::move(nvrtc)) {}

Result<std::unique_ptr<NvrtcCompiler>> NvrtcCompiler::create(const CompilerOptions& options) {
  STITCH_ASSIGN(auto nvrtc, Nvrtc::load(options.nvrtc));
  return std::make_unique<NvrtcCompiler>(options, std::move(nvrtc));
}

Result<std::unique_ptr<NvrtcCompiler>> NvrtcCompiler::create_pool(const CompilerOptions& options,
                                                                  std::function<void(std::string_view)> complain) {
  CompilerPoolOptions children;
  children.nvrtc = options.nvrtc;
  children.readable = options.include_directories;
  children.complain = std::move(complain);
  STITCH_ASSIGN(auto pool, CompilerPool::start(std::move(children)));
  return std::make_unique<NvrtcCompiler>(options, std::move(pool));
}

Hash128 NvrtcCompiler::key(const CompileRequest& request) const {
  const std::vector<std::string> options = options_of(request, *nvrtc_);
  Hasher hasher;
  hasher.integer(key_version).text(nvrtc_->toolkit()).hash(device_headers_hash()).integer(options.size());
  for (const std::string& option : options) hasher.text(option);
  // What is in a source follows from what a client sent: under a hash that can be steered another's kernel could be
  // found.
  return hasher.bytes(sha256(request.source).bytes()).finish();
}

Result<CompiledKernel> NvrtcCompiler::compile(const CompileRequest& request) {
  STITCH_TRY(check_architecture(request.architecture, *nvrtc_));
  if (request.source.size() > most_source_bytes) {
    return make_error(ErrorKind::constraint, "a source of {} bytes, at most {} are compiled", request.source.size(),
                      most_source_bytes);
  }
  const Stopwatch watch;
  STITCH_ASSIGN(NvrtcOutput output, nvrtc_->compile(input_for(request, options_, *nvrtc_)));
  if (!output.compiled) return compile_error(request, output, *nvrtc_);
  if (output.ptx.empty() || output.cubin.empty()) {
    return make_error(ErrorKind::runtime, "NVRTC {} gives {} bytes of PTX and {} of cubin for {}", nvrtc_->toolkit(),
                      output.ptx.size(), output.cubin.size(), request.architecture);
  }
  CompiledKernel kernel;
  kernel.ptx = std::move(output.ptx);
  kernel.cubin = std::move(output.cubin);
  STITCH_TRY(read_resources(output, kernel));
  kernel.log = without_ptxas_report(output.log);
  kernel.seconds = watch.seconds();
  kernel.toolkit = nvrtc_->toolkit();
  kernel.architecture = request.architecture;
  kernel.key = key(request);
  return kernel;
}

}  // namespace stitch::codegen
