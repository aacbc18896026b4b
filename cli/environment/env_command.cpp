#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace stitch::cli {
namespace {

struct Variable {
  const char* name;
  const char* reader;  ///< whose it is
  const char* meaning;
};

/// Every variable that a program, a library or a package of ours reads (tests/scripts/environment_test.py holds the
/// sources against it).
constexpr std::array variables = {
    Variable{"STITCH_SERVER", "clients", "where stitchd is: unix:PATH or tcp:HOST:PORT"},
    Variable{"STITCH_TOKEN_FILE", "clients", "the secret of a server that is reached over TCP"},
    Variable{"STITCH_ALLOW_REMOTE", "clients", "1: machine code from another machine over plain HTTP is taken"},
    Variable{"STITCH_MODE", "clients", "replay: plans that are stored and nothing else"},
    Variable{"STITCH_TRACE", "clients", "a folder: each process writes what it did there, for stitch trace"},
    Variable{"STITCH_CUBLAS_LT", "clients", "cuBLASLt's file, where the loader does not find it"},
    Variable{"STITCH_CUDNN", "clients", "cuDNN's file, where the loader does not find it"},
    Variable{"STITCH_CACHE_DIR", "clients, servers", "the folder of artifacts, compiled kernels and databases"},
    Variable{"STITCH_START", "Python", "0: no stitchd is started where none answers"},
    Variable{"STITCH_PROGRAMS", "Python", "the folder of stitchd, stitch and stitch-runner"},
    Variable{"STITCH_DEVICE", "Python", "auto, cuda or emulated, for PyTorch's and JAX's functions"},
    Variable{"STITCH_DISABLE", "Python", "1: PyTorch's and JAX's functions stay theirs"},
    Variable{"STITCH_EFFORT", "Python", "none, quick or full: what is tuned in the background for PyTorch's graphs"},
    Variable{"STITCH_BUDGET_SECONDS", "Python", "how long the server may tune what a compilation asked for"},
    Variable{"STITCH_MAX_WORKSPACE_BYTES", "Python", "plans that need more memory beside their arrays are not taken"},
    Variable{"STITCH_LOCK", "Python",
             "a file of stitch.torch.write_lock: PyTorch's graphs run the plans that it names"},
    Variable{"STITCH_CONFIG", "Python", "the file with the user's options, instead of stitch/config.toml"},
    Variable{"STITCH_RUNNER", "servers", "the file of stitch-runner"},
    Variable{"STITCH_NVRTC", "compilers", "NVRTC's file"},
    Variable{"STITCH_EMULATED_DEVICE", "emulated driver", "the GPU that it pretends: h100, l4, …"},
    Variable{"STITCH_EMULATED_EXECUTE", "emulated driver", "0: kernels are taken and not run"},
    Variable{"STITCH_EMULATED_ORDER", "emulated driver", "a seed: another order of what streams leave unordered"},
    Variable{"STITCH_EMULATED_PTX", "emulated driver", "the folder in which the PTX of cubins lies"},
    Variable{"STITCH_EMULATED_QUIET", "emulated driver", "1: nothing on standard error"},
    Variable{"STITCH_EMULATED_REPORT", "emulated driver", "a file for findings and counters"},
};
/// What scripts, builds and tests have for themselves.
constexpr std::array<std::string_view, 15> of_others = {
    "STITCH_TEST_",        "STITCH_UPDATE_GOLDEN", "STITCH_BREADTH_SEED",  "STITCH_MODELS", "STITCH_ATTENTIONS",
    "STITCH_CONTRACTIONS", "STITCH_CONVOLUTIONS",  "STITCH_TENSOR_COPIES", "STITCH_ROUNDS", "STITCH_BUILD",
    "STITCH_BUILT",        "STITCH_CUDA_ROOT",     "STITCH_JOBS",          "STITCH_PYTHON", "STITCH_NVDISASM"};

bool is_known(std::string_view name) {
  return std::ranges::any_of(variables, [&](const Variable& each) { return each.name == name; }) ||
         std::ranges::any_of(of_others, [&](std::string_view each) { return name.starts_with(each); }) ||
         name == "STITCH_PARENT";  // what a program of ours tells another
}

ExitCode env(bool as_json) {
  const std::vector<std::string> unknown = unknown_variables();
  if (as_json) {
    nlohmann::ordered_json listed = nlohmann::ordered_json::array();
    for (const Variable& each : variables) {
      const char* value = std::getenv(each.name);
      listed.push_back({{"name", each.name},
                        {"reader", each.reader},
                        {"meaning", each.meaning},
                        {"value", value != nullptr ? nlohmann::ordered_json(value) : nlohmann::ordered_json()}});
    }
    const nlohmann::ordered_json document = {{"variables", listed}, {"unknown", unknown}};
    std::printf("%s\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return ExitCode::success;
  }
  for (const Variable& each : variables) {
    const char* value = std::getenv(each.name);
    std::puts(fmt::format("{:<24} {:<16} {}{}", each.name, each.reader, each.meaning,
                          value != nullptr ? fmt::format("\n{:<24} = {}", "", value) : "")
                  .c_str());
  }
  for (const std::string& name : unknown) std::puts(fmt::format("{:<24} is set and read by nobody here", name).c_str());
  return ExitCode::success;
}

}  // namespace

std::vector<std::string> unknown_variables() {
  std::vector<std::string> unknown;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.starts_with("STITCH_") && !is_known(name)) unknown.emplace_back(name);
  }
  return unknown;
}

void add_env_command(CLI::App& app, ExitCode& code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("env", "The environment variables that Stitch reads, with their values here");
  command->add_flag("--json", *json, "print one JSON object");
  command->callback([json, &code] { code = env(*json); });
}

}  // namespace stitch::cli
