#include "codegen/compile/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace stitch::codegen {

/// The library's entry points. set_flow_callback is null before 12.8.
struct Nvrtc::Functions {
  void* library = nullptr;
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) architectures = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetErrorString) error_string = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcSetFlowCallback) set_flow_callback = nullptr;

  template <class Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }

  /// The name of a required function that the library lacks, if any.
  std::optional<std::string_view> resolve() {
    const std::array<std::pair<bool, std::string_view>, 13> required = {{
        {find(version, "nvrtcVersion"), "nvrtcVersion"},
        {find(architecture_count, "nvrtcGetNumSupportedArchs"), "nvrtcGetNumSupportedArchs"},
        {find(architectures, "nvrtcGetSupportedArchs"), "nvrtcGetSupportedArchs"},
        {find(create, "nvrtcCreateProgram"), "nvrtcCreateProgram"},
        {find(destroy, "nvrtcDestroyProgram"), "nvrtcDestroyProgram"},
        {find(compile, "nvrtcCompileProgram"), "nvrtcCompileProgram"},
        {find(error_string, "nvrtcGetErrorString"), "nvrtcGetErrorString"},
        {find(ptx_size, "nvrtcGetPTXSize"), "nvrtcGetPTXSize"},
        {find(ptx, "nvrtcGetPTX"), "nvrtcGetPTX"},
        {find(cubin_size, "nvrtcGetCUBINSize"), "nvrtcGetCUBINSize"},
        {find(cubin, "nvrtcGetCUBIN"), "nvrtcGetCUBIN"},
        {find(log_size, "nvrtcGetProgramLogSize"), "nvrtcGetProgramLogSize"},
        {find(log, "nvrtcGetProgramLog"), "nvrtcGetProgramLog"},
    }};
    find(set_flow_callback, "nvrtcSetFlowCallback");
    for (const auto& [found, name] : required) {
      if (!found) return name;
    }
    return std::nullopt;
  }
};

namespace {

constexpr std::array<const char*, 3> library_names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr int oldest_major = 12;

/// Where a library may be: full paths, or bare names for the loader to look up.
std::vector<std::filesystem::path> candidates(const std::filesystem::path& chosen) {
  std::error_code ignored;
  std::vector<std::filesystem::path> folders;
  if (!chosen.empty()) {
    if (!std::filesystem::is_directory(chosen, ignored)) return {chosen};
    folders = {chosen};
  } else {
    const auto executable = std::filesystem::read_symlink("/proc/self/exe", ignored);
    if (!ignored) folders.push_back(executable.parent_path());
    folders.emplace_back(STITCH_NVRTC_DIRECTORY);
    folders.emplace_back();  // the loader's search path
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : folders) {
    for (const char* name : library_names) paths.push_back(folder / name);
  }
  return paths;
}

/// The text between `before` and the end of its word; empty when it is not there.
std::string word_after(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return std::string(text.substr(0, text.find_first_of(" \n\r\t,")));
}

/// When a compilation is to end before it is done.
struct Bound {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::stop_token& stop;
};

int is_past(void* bound, void*) {
  const auto& [deadline, stop] = *static_cast<const Bound*>(bound);
  return stop.stop_requested() || (deadline && std::chrono::steady_clock::now() >= *deadline) ? 1 : 0;
}

/// Asks for a size, then for that many bytes.
template <class Size, class Fill>
std::string fetch(nvrtcProgram program, Size size_of, Fill fill) {
  std::size_t size = 0;
  if (size_of(program, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::string bytes(size, '\0');
  if (fill(program, bytes.data()) != NVRTC_SUCCESS) return {};
  return bytes;
}

/// A log may end in more than one.
std::string without_final_zeros(std::string text) {
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace

Nvrtc::Nvrtc() : functions_(std::make_unique<Functions>()) {}

// The library stays mapped: it keeps threads and allocations of its own that unloading would pull the code from.
Nvrtc::~Nvrtc() = default;

Result<std::shared_ptr<const Nvrtc>> Nvrtc::load(const NvrtcOptions& options) {
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);
  Functions& functions = *nvrtc->functions_;
  std::string tried;
  for (const auto& path : candidates(options.library)) {
    functions.library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (functions.library != nullptr) {
      nvrtc->facts_.path = path;
      break;
    }
    std::error_code ignored;
    const bool damaged = path.has_parent_path() && std::filesystem::exists(path, ignored);
    tried += fmt::format("\n  {}: {}", path.string(), damaged ? ::dlerror() : "not there");
  }
  if (functions.library == nullptr) {
    return make_error(ErrorKind::unavailable,
                      "no NVRTC to compile with; install the CUDA toolkit's libnvrtc or name it; tried:{}", tried);
  }
  if (const auto missing = functions.resolve()) {
    return make_error(ErrorKind::unavailable, "{} is no NVRTC that can be used: it has no {}",
                      nvrtc->facts_.path.string(), *missing);
  }
  STITCH_TRY(nvrtc->query_toolkit());
  return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
}

bool Nvrtc::can_interrupt() const { return functions_->set_flow_callback != nullptr; }

Status Nvrtc::query_toolkit() {
  functions_->version(&facts_.major, &facts_.minor);
  if (facts_.major < oldest_major) {
    return make_error(ErrorKind::version_mismatch, "{} is NVRTC {}.{}; {}.0 or newer is needed", facts_.path.string(),
                      facts_.major, facts_.minor, oldest_major);
  }
  // NVRTC has the loader look for its builtins by their bare name, which fails where its folder is not on the search
  // path (NVIDIA's Python packages). A library that is loaded already is found by its name.
  if (facts_.path.has_parent_path()) {
    const auto builtins =
        facts_.path.parent_path() / fmt::format("libnvrtc-builtins.so.{}.{}", facts_.major, facts_.minor);
    ::dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  int count = 0;
  functions_->architecture_count(&count);
  facts_.architectures.resize(std::max(count, 0));
  functions_->architectures(facts_.architectures.data());
  std::sort(facts_.architectures.begin(), facts_.architectures.end());
  if (facts_.architectures.empty()) {
    return make_error(ErrorKind::unavailable, "{} supports no architecture", facts_.path.string());
  }
  NvrtcInput probe;
  probe.source = "extern \"C\" __global__ void probe() {}";
  probe.name = "probe.cu";
  probe.options = {fmt::format("-arch=compute_{}", facts_.architectures.front())};
  STITCH_ASSIGN(const NvrtcOutput output, compile(probe));
  const std::string build = word_after(output.ptx, fmt::format("release {}.{}, V", facts_.major, facts_.minor));
  facts_.toolkit = build.empty() ? fmt::format("{}.{}", facts_.major, facts_.minor) : build;
  return {};
}

Result<NvrtcOutput> Nvrtc::compile(const NvrtcInput& input) const {
  std::vector<const char*> names;
  std::vector<const char*> contents;
  for (const NvrtcInput::Header& header : input.headers) {
    names.push_back(header.name);
    contents.push_back(header.contents);
  }
  std::vector<const char*> options;
  for (const std::string& option : input.options) options.push_back(option.c_str());

  nvrtcProgram program = nullptr;
  nvrtcResult code = functions_->create(&program, input.source.c_str(), input.name.c_str(), names.size(),
                                        contents.data(), names.data());
  if (code != NVRTC_SUCCESS) {
    return make_error(ErrorKind::runtime, "NVRTC cannot take {}: {}", input.name, functions_->error_string(code));
  }
  Bound bound{std::nullopt, input.stop};
  if (input.timeout_seconds > 0) {
    bound.deadline = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            std::chrono::duration<double>(input.timeout_seconds));
  }
  if (can_interrupt()) functions_->set_flow_callback(program, is_past, &bound);
  code = functions_->compile(program, options.size(), options.data());
  NvrtcOutput output;
  output.compiled = code == NVRTC_SUCCESS;
  output.log = without_final_zeros(fetch(program, functions_->log_size, functions_->log));
  output.ptx = without_final_zeros(fetch(program, functions_->ptx_size, functions_->ptx));
  if (output.compiled) output.cubin = fetch(program, functions_->cubin_size, functions_->cubin);
  functions_->destroy(&program);

  switch (code) {
    case NVRTC_SUCCESS:
    case NVRTC_ERROR_COMPILATION: return output;
    case NVRTC_ERROR_INVALID_OPTION:
      return make_error(ErrorKind::invalid_argument, "NVRTC refuses an option: {}", output.log);
    case NVRTC_ERROR_CANCELLED:
      if (input.stop.stop_requested()) return make_error(ErrorKind::cancelled, "compilation of {}", input.name);
      return make_error(ErrorKind::timeout, "compilation of {} took more than {} s", input.name, input.timeout_seconds);
    default:
      return make_error(ErrorKind::runtime, "NVRTC fails on {}: {}; {}", input.name, functions_->error_string(code),
                        output.log);
  }
}

}  // namespace stitch::codegen
