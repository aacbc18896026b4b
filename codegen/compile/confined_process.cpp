#include "codegen/compile/confined_process.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace stitch::codegen {
namespace {

/// As execvp(3) finds it.
Result<std::filesystem::path> find_program(const std::string& name) {
  int why = ENOENT;
  const auto runs = [&](const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0) return true;
    if (std::filesystem::exists(path, ignored)) why = EACCES;
    return false;
  };
  if (name.find('/') != std::string::npos) {
    if (runs(name)) return std::filesystem::path(name);
  } else {
    const char* const variable = std::getenv("PATH");
    std::string_view rest = variable != nullptr ? variable : "/bin:/usr/bin";
    while (true) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      if (std::filesystem::path path = std::filesystem::path(folder.empty() ? "." : folder) / name; runs(path))
        return path;
      if (folder.size() == rest.size()) break;
      rest.remove_prefix(folder.size() + 1);
    }
  }
  return make_error(ErrorKind::not_found, "cannot start {}: {}", name, std::strerror(why));
}

}  // namespace

std::string compiler_program() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return ignored ? "stitch-compiler" : (self.parent_path() / "stitch-compiler").string();
}

ProcessOptions compiler_process(const std::string& program) {
  ProcessOptions process;
  process.arguments = {program.empty() ? compiler_program() : program};
  process.inherited = {"PATH",         "LANG",          "LC_*",         "LD_LIBRARY_PATH", "ASAN_OPTIONS",
                       "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_PREFIX*"};
  process.ends_with_us = true;
  return process;
}

Result<ProcessOptions> confined_process(const ConfinedProgram& program) {
  STITCH_ASSIGN(const std::filesystem::path found, find_program(program.arguments.at(0)));
  ProcessOptions process = compiler_process({});
  const auto argue = [&](std::string name, std::string value) {
    process.arguments.push_back(std::move(name));
    process.arguments.push_back(std::move(value));
  };
  std::error_code ignored;
  const auto whole = std::filesystem::canonical(found, ignored);
  for (const std::filesystem::path& path :
       {ignored ? found : whole, std::filesystem::path("/usr"), std::filesystem::path("/bin"),
        std::filesystem::path("/lib"), std::filesystem::path("/lib64")})
    argue("--runnable", path.string());
  argue("--readable", "/etc/ld.so.cache");
  for (const std::filesystem::path& path : program.readable) argue("--readable", path.string());
  argue("--memory", std::to_string(program.memory_bytes));
  process.arguments.emplace_back("--");
  process.arguments.push_back(found.string());
  process.arguments.insert(process.arguments.end(), program.arguments.begin() + 1, program.arguments.end());
  return process;
}

}  // namespace stitch::codegen
