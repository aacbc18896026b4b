#include "base/driver_name.h"

#include <algorithm>
#include <string>
#include <vector>

namespace stitch {
namespace {

/// What a driver's name must and must not contain, word by word; "H200" is not in "NVIDIA H20".
struct DriverName {
  std::string_view device;
  std::vector<std::string_view> words;
  std::vector<std::string_view> other;  ///< words that make it another GPU
};

const std::vector<DriverName>& table() {
  static const std::vector<DriverName> names = {{"v100", {"V100"}, {}},
                                                {"t4", {"T4"}, {}},
                                                {"a100-80gb", {"A100", "SXM4", "80GB"}, {}},
                                                {"a100-pcie", {"A100", "PCIe", "80GB"}, {}},
                                                {"a100", {"A100"}, {"80GB"}},
                                                {"rtx3090", {"RTX", "3090"}, {"Ti"}},
                                                {"l4", {"L4"}, {}},
                                                {"rtx4090", {"RTX", "4090"}, {"D", "Laptop"}},
                                                {"l40s", {"L40S"}, {}},
                                                {"h100-pcie", {"H100", "PCIe"}, {}},
                                                {"h100-nvl", {"H100", "NVL"}, {}},
                                                {"h100", {"H100"}, {}},
                                                {"h200", {"H200"}, {}},
                                                {"h20", {"H20"}, {}},
                                                {"gb200", {"GB200"}, {}},
                                                {"b200", {"B200"}, {}},
                                                {"b300", {"B300"}, {}},
                                                {"rtx5090", {"RTX", "5090"}, {"D", "Laptop"}},
                                                {"rtx-pro-6000", {"RTX", "PRO", "6000"}, {}}};
  return names;
}

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(" -_"), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

}  // namespace

Result<DeviceSpec> find_device_by_driver_name(std::string_view name) {
  const std::vector<std::string_view> words = words_of(name);
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  std::string known;
  for (const DriverName& entry : table()) {
    const bool all = std::all_of(entry.words.begin(), entry.words.end(), has);
    if (all && !has("MIG") && std::none_of(entry.other.begin(), entry.other.end(), has)) {
      return find_device(entry.device);
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.device);
  }
  return make_error(ErrorKind::not_found, "no entry of the device table is for '{}'; there are {}", name, known);
}

}  // namespace stitch
