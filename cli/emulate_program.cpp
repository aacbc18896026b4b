#include "cli/emulate_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/device_spec.h"
#include "base/subprocess.h"

namespace stitch::cli {
namespace {

namespace fs = std::filesystem;

/// The folder of libcuda.so.1: of the build, or of the installation.
Result<fs::path> driver_folder() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path root = program.parent_path().parent_path();
  for (const fs::path& folder : {root / "lib" / "emulated", root / "lib" / "stitch" / "emulated"}) {
    if (fs::exists(folder / "libcuda.so.1")) return folder;
  }
  return make_error(ErrorKind::not_found,
                    "no emulated driver (libcuda.so.1) in lib/emulated or lib/stitch/emulated of {}", root.string());
}

/// A folder for what a run leaves behind, removed with it.
class RunFolder {
 public:
  static Result<RunFolder> make() {
    std::string name = (fs::temp_directory_path() / "stitch-emulate-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return make_error(ErrorKind::io, "cannot make {}: {}", name, std::strerror(errno));
    }
    return RunFolder(name);
  }
  RunFolder(RunFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  explicit RunFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

void set_environment(const EmulateProgramOptions& options, const fs::path& driver, const fs::path& folder) {
  const char* before = std::getenv("LD_LIBRARY_PATH");
  set("LD_LIBRARY_PATH", before == nullptr || *before == '\0' ? driver.string() : driver.string() + ":" + before);
  set("STITCH_EMULATED_DEVICE", options.device);
  set("STITCH_EMULATED_ORDER", std::to_string(options.order));
  set("STITCH_EMULATED_PTX", folder.string());
  set("STITCH_EMULATED_REPORT", (folder / "report-%p.json").string());
}

/// Runs the program in this one's place beside us: terminal, signals and descriptors are its own.
Result<ExitStatus> run_to_end(const EmulateProgramOptions& options, const fs::path& driver, const fs::path& folder) {
  std::vector<char*> arguments;
  for (const std::string& argument : options.program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  constexpr int no_program = 127;
  const pid_t child = ::fork();
  if (child < 0) return make_error(ErrorKind::io, "cannot start {}: {}", options.program.front(), std::strerror(errno));
  if (child == 0) {
    set_environment(options, driver, folder);
    ::execvp(arguments.front(), arguments.data());
    std::fprintf(stderr, "stitch: cannot run %s: %s\n", arguments.front(), std::strerror(errno));
    ::_exit(no_program);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return ExitStatus{0, WTERMSIG(status)};
  return ExitStatus{WEXITSTATUS(status), 0};
}

/// The reports of all processes that used the driver, as one document.
nlohmann::json gather_reports(const fs::path& folder) {
  nlohmann::json all = {{"processes", 0}, {"findings", nlohmann::json::array()}, {"kernels", nlohmann::json::array()}};
  for (const auto& file : fs::directory_iterator(folder)) {
    if (!file.path().filename().string().starts_with("report-")) continue;
    std::ifstream stream(file.path());
    const nlohmann::json report = nlohmann::json::parse(stream, nullptr, false);
    if (report.is_discarded()) continue;
    all["processes"] = all["processes"].get<int>() + 1;
    all["device"] = report["device"];
    for (const char* list : {"findings", "kernels"}) {
      for (const auto& each : report[list]) all[list].push_back(each);
    }
  }
  return all;
}

void print_report(const nlohmann::json& report) {
  if (report["processes"] == 0) {
    fmt::print(stderr, "stitch emulate: the program did not use the CUDA driver\n");
    return;
  }
  fmt::print(stderr, "stitch emulate: {}\n", report["device"].get<std::string>());
  for (const auto& kernel : report["kernels"]) {
    const auto& counters = kernel["counters"];
    fmt::print(stderr, "  kernel {}: {} launches, {} warp instructions, {} sectors loaded, {} stored\n",
               kernel["name"].get<std::string>(), kernel["launches"].get<std::uint64_t>(),
               counters["instructions"].get<std::uint64_t>(), counters["global_load_sectors"].get<std::uint64_t>(),
               counters["global_store_sectors"].get<std::uint64_t>());
  }
  for (const auto& finding : report["findings"]) {
    fmt::print(stderr, "  {}: {}{}\n", finding["kind"].get<std::string>(), finding["message"].get<std::string>(),
               finding["count"] == 1 ? "" : fmt::format(" ({} times)", finding["count"].get<std::uint64_t>()));
  }
  if (report["findings"].empty()) fmt::print(stderr, "  no findings\n");
}

bool has_fault(const nlohmann::json& report) {
  for (const auto& finding : report["findings"]) {
    if (finding["fault"].get<bool>()) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> take_program(int& argc, char** argv) {
  std::vector<std::string> program;
  if (argc < 3 || std::string_view(argv[1]) != "emulate") return program;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--run") continue;
    program.assign(argv + i + 1, argv + argc);
    argc = i + 1;
    break;
  }
  return program;
}

void add_emulate_program_options(CLI::App& command, EmulateProgramOptions& options) {
  command.add_flag("--run", options.run,
                   "run the program that follows, with its arguments, on a CUDA driver that emulates and checks");
  command.add_option("--on", options.device, "with --run: the GPU that the driver pretends")->capture_default_str();
  command.add_option("--order", options.order,
                     "with --run: a seed for the order of what streams leave unordered; 0: as it was submitted");
  command.add_option("--report", options.report, "with --run: findings and counters as JSON, into this file");
}

Result<ExitCode> emulate_program(const EmulateProgramOptions& options) {
  if (options.program.empty()) return make_error(ErrorKind::invalid_argument, "--run is followed by a program");
  if (const auto device = find_device(options.device); !device) return device.error();
  STITCH_ASSIGN(const fs::path driver, driver_folder());
  STITCH_ASSIGN(const RunFolder folder, RunFolder::make());
  STITCH_ASSIGN(const ExitStatus ended, run_to_end(options, driver, folder.path()));
  const nlohmann::json report = gather_reports(folder.path());
  print_report(report);
  if (!options.report.empty() && !(std::ofstream(options.report) << report.dump(1) << '\n')) {
    return make_error(ErrorKind::io, "cannot write {}", options.report.string());
  }
  if (ended.signal != 0) fmt::print(stderr, "stitch emulate: the program ended by {}\n", ended.describe());
  if (!ended.success()) return ended.signal != 0 ? ExitCode::failure : static_cast<ExitCode>(ended.code);
  return has_fault(report) ? ExitCode::failure : ExitCode::success;
}

}  // namespace stitch::cli
