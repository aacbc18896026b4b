#include "base/environment.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace stitch {
namespace {

using Variable = EnvironmentVariable;

constexpr std::array variables = {
    Variable{"STITCH_SERVER", "clients", "where stitchd is: unix:PATH or tcp:HOST:PORT", "server", "the user's own"},
    Variable{"STITCH_TOKEN_FILE", "clients", "the secret of a server that is reached over TCP"},
    Variable{"STITCH_ALLOW_REMOTE", "clients", "1: machine code from another machine over plain HTTP is taken", "",
             "0"},
    Variable{"STITCH_MODE", "clients",
             "tune; replay: plans that are stored and nothing else; off: no server is asked, and frameworks run all",
             "", "tune"},
    Variable{"STITCH_TRACE", "clients", "a folder: each process writes what it did there, for stitch trace"},
    Variable{"STITCH_CUBLAS_LT", "clients", "cuBLASLt's file, where the loader does not find it"},
    Variable{"STITCH_CUDNN", "clients", "cuDNN's file, where the loader does not find it"},
    Variable{"STITCH_CACHE_DIR", "clients, servers", "the folder of artifacts, compiled kernels and databases"},
    Variable{"STITCH_THREADS", "all",
             "how many threads work at once, compilers and emulated GPU included, at the most"},
    Variable{"STITCH_START", "Python", "0: no stitchd is started where none answers", "", "1"},
    Variable{"STITCH_PROGRAMS", "Python", "the folder of stitchd, stitch and stitch-runner"},
    Variable{"STITCH_DEVICE", "Python", "auto, cuda or emulated, for PyTorch's and JAX's functions", "device", "auto"},
    Variable{"STITCH_DISABLE", "Python", "1: PyTorch, JAX and onnxruntime run all of it", "disable", "0"},
    Variable{"STITCH_EFFORT", "Python", "none, quick or full: what is tuned in the background for frameworks", "effort",
             "quick"},
    Variable{"STITCH_FORCE_TUNE", "Python", "1: what is asked for is tuned, whether a plan is stored or not", "", "0"},
    Variable{"STITCH_CHAOS", "Python", "a seed: what servers are asked for fails at random, to try programs", "", ""},
    Variable{"STITCH_BUDGET_SECONDS", "Python", "how long the server may tune what a compilation asked for",
             "budget_seconds", "0"},
    Variable{"STITCH_MAX_WORKSPACE_BYTES", "Python", "plans that need more memory beside their arrays are not taken",
             "max_workspace_bytes"},
    Variable{"STITCH_LOCK", "Python",
             "a file of write_lock (or stitch lock): pieces run the plans that it names and no others"},
    Variable{"STITCH_LOGS", "Python",
             "what is logged: torch, jax, onnx or all, +NAME for more, -NAME for errors alone"},
    Variable{"STITCH_CONFIG", "Python", "the file with the user's options, instead of stitch/config.toml"},
    Variable{"STITCH_RUNNER", "servers", "the file of stitch-runner"},
    Variable{"STITCH_RUNNER_MEMORY", "servers", "bytes of a GPU's memory that kernels are tried in, at the most"},
    Variable{"STITCH_NVRTC", "compilers", "NVRTC's file"},
    Variable{"STITCH_EMULATED_DEVICE", "emulated driver", "the GPU that it pretends: h100, l4, …"},
    Variable{"STITCH_EMULATED_EXECUTE", "emulated driver", "0: kernels are taken and not run", "", "1"},
    Variable{"STITCH_EMULATED_ORDER", "emulated driver", "a seed: another order of what streams leave unordered"},
    Variable{"STITCH_EMULATED_PTX", "emulated driver", "the folder in which the PTX of cubins lies"},
    Variable{"STITCH_EMULATED_QUIET", "emulated driver", "1: nothing on standard error", "", "0"},
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

/// How many letters are to be put in, taken out or changed (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return variables; }

std::vector<std::string> unknown_environment_variables() {
  std::vector<std::string> unknown;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.starts_with("STITCH_") && !is_known(name)) unknown.emplace_back(name);
  }
  return unknown;
}

std::string_view nearest_environment_variable(std::string_view word) {
  constexpr std::size_t most_letters = 2;
  const auto best =
      std::ranges::min_element(variables, {}, [&](const Variable& each) { return distance(word, each.name); });
  return distance(word, best->name) <= most_letters ? best->name : "";
}

}  // namespace stitch
