#include "base/processors.h"

#include <gtest/gtest.h>

#include <map>

namespace stitch {
namespace {

/// Files that can be read, and nothing else.
class GivenFiles final : public FileSystem {
 public:
  explicit GivenFiles(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  [[nodiscard]] Result<std::string> read(const std::filesystem::path& path) const override {
    const auto found = files_.find(path.lexically_normal().string());
    if (found == files_.end()) return make_error(ErrorKind::not_found, "{}", path.string());
    return found->second;
  }
  Status publish(const std::filesystem::path&, std::string_view) override { return refused(); }
  Status remove(const std::filesystem::path&) override { return refused(); }
  Status set_modified(const std::filesystem::path&, std::int64_t) override { return refused(); }
  Status make_directories(const std::filesystem::path&) override { return refused(); }
  [[nodiscard]] bool exists(const std::filesystem::path& path) const override { return read(path).ok(); }
  [[nodiscard]] std::vector<Entry> list(const std::filesystem::path&) const override { return {}; }

 private:
  static Status refused() { return make_error(ErrorKind::unsupported, "these files are only read"); }
  std::map<std::string, std::string> files_;
};

TEST(UsableProcessors, AreThoseOfTheScheduleAndTheGroups) {
  const struct {
    const char* name;
    std::map<std::string, std::string> files;
    int scheduled, usable;
  } cases[] = {
      {"no groups at all", {}, 8, 8},
      {"a schedule that is not known", {}, 0, 1},
      {"version 2 without a limit",
       {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "max 100000\n"}},
       8,
       8},
      {"a container of one and a half processors",
       {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "150000 100000\n"}},
       64,
       2},
      {"less than one", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "20000 100000\n"}}, 64, 1},
      {"more than there are", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "900000 100000\n"}}, 4, 4},
      {"the least of a group and those around it",
       {{"/proc/self/cgroup", "0::/user.slice/session.scope\n"},
        {"/sys/fs/cgroup/user.slice/session.scope/cpu.max", "max 100000\n"},
        {"/sys/fs/cgroup/user.slice/cpu.max", "300000 100000\n"}},
       16,
       3},
      {"version 1",
       {{"/proc/self/cgroup", "5:cpu,cpuacct:/box\n4:memory:/box\n0::/init\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "200000\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"}},
       16,
       2},
      {"version 1 without a limit",
       {{"/proc/self/cgroup", "5:cpu,cpuacct:/box\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"}},
       16,
       16},
      {"version 1 under the host's name, with the container's own group as root",
       {{"/proc/self/cgroup", "7:cpuacct,cpu:/docker/0123\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       16,
       4},
      {"sets of processors are not their time",
       {{"/proc/self/cgroup", "3:cpuset:/box\n"},
        {"/sys/fs/cgroup/cpuset/box/cpu.cfs_quota_us", "100000\n"},
        {"/sys/fs/cgroup/cpuset/box/cpu.cfs_period_us", "100000\n"}},
       16,
       16},
      {"what cannot be read",
       {{"/proc/self/cgroup", "0::/\nno group\n::\n"}, {"/sys/fs/cgroup/cpu.max", "many 100000\n"}},
       8,
       8},
      {"a period of nothing", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "100000 0\n"}}, 8, 8},
  };
  for (const auto& each : cases)
    EXPECT_EQ(usable_processors(GivenFiles(each.files), each.scheduled), each.usable) << each.name;
}

TEST(UsableProcessors, OfThisMachineAreSome) { EXPECT_GE(usable_processors(), 1); }

TEST(UsableProcessors, AreNoMoreThanAreAskedFor) {
  const struct {
    const char* asked;
    int usable;
  } cases[] = {{nullptr, 8}, {"", 8}, {"3", 3}, {"8", 8}, {"64", 8}, {"0", 8}, {"-2", 8}, {"two", 8}, {"2 ", 8}};
  for (const auto& each : cases)
    EXPECT_EQ(at_most_asked(8, each.asked), each.usable) << (each.asked != nullptr ? each.asked : "nothing");
}

}  // namespace
}  // namespace stitch
