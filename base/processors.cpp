#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

namespace stitch {
namespace {

/// The number that a text begins with; nothing where it begins with none ("max").
std::optional<double> number_at(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

std::optional<double> number_in(const FileSystem& files, const std::filesystem::path& path) {
  const Result<std::string> text = files.read(path);
  return text ? number_at(*text) : std::nullopt;
}

/// Processors that one group of version 2 grants: "150000 100000" are one and a half.
std::optional<double> granted_v2(const FileSystem& files, const std::filesystem::path& group) {
  const Result<std::string> text = files.read(group / "cpu.max");
  if (!text) return std::nullopt;
  const std::size_t space = text->find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto quota = number_at(*text);
  const auto period = number_at(std::string_view(*text).substr(space + 1));
  if (!quota || !period || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// Of version 1; without a limit the quota is -1.
std::optional<double> granted_v1(const FileSystem& files, const std::filesystem::path& group) {
  const auto quota = number_in(files, group / "cpu.cfs_quota_us");
  const auto period = number_in(files, group / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// Whether a list of controllers ("cpu,cpuacct") has the one for processor time.
bool has_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::string_view first = controllers.substr(0, controllers.find(','));
    if (first == "cpu") return true;
    controllers.remove_prefix(std::min(controllers.size(), first.size() + 1));
  }
  return false;
}

/// The least that `granted` says of a group and of those around it. In a container a group's name may be the host's,
/// while what is mounted begins with the container's own group: names that are not there are passed over.
template <class Granted>
double least(const FileSystem& files, const std::filesystem::path& root, std::string_view group, Granted granted) {
  double processors = HUGE_VAL;
  for (;;) {
    const auto here = granted(files, root / std::filesystem::path(group).relative_path());
    processors = std::min(processors, here.value_or(HUGE_VAL));
    const std::size_t slash = group.find_last_of('/');
    if (slash == std::string_view::npos || group == "/") return processors;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

/// Processors that the groups of a process grant, by its lines "hierarchy:controllers:group".
double granted_processors(const FileSystem& files) {
  const std::filesystem::path root = "/sys/fs/cgroup";
  const Result<std::string> groups = files.read("/proc/self/cgroup");
  double processors = HUGE_VAL;
  for (std::string_view rest = groups ? *groups : std::string_view(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      processors = std::min(processors, least(files, root, group, granted_v2));
    } else if (has_cpu(controllers)) {
      processors = std::min(processors, least(files, root / controllers, group, granted_v1));
      processors = std::min(processors, least(files, root / "cpu", group, granted_v1));
    }
  }
  return processors;
}

int scheduled_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // More processors than the set has places for: then what the library says.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return std::thread::hardware_concurrency();
  return CPU_COUNT(&set);
}

}  // namespace

int usable_processors(const FileSystem& files, int scheduled) {
  const int most = std::max(scheduled, 1);
  const double granted = std::ceil(granted_processors(files));
  return granted < most ? std::max(1, static_cast<int>(granted)) : most;
}

int usable_processors() {
  static const int processors =
      at_most_asked(usable_processors(RealFileSystem(), scheduled_processors()), std::getenv("STITCH_THREADS"));
  return processors;
}

int at_most_asked(int processors, const char* asked) {
  const std::string_view text = asked != nullptr ? asked : "";
  int wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && wanted > 0;
  return is_number ? std::min(processors, wanted) : processors;
}

}  // namespace stitch
