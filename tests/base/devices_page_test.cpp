// docs/devices.md shows the device table and where its figures come from.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/device_sources.h"
#include "base/file.h"

namespace stitch {
namespace {

constexpr std::string_view page = STITCH_SOURCE_DIR "/docs/devices.md";
constexpr std::string_view marker = "writes it anew). -->\n";

std::string table() {
  std::string text =
      "| device | | arch | SMs | clock | memory | L2 | L2 bandwidth | shared, L2, memory latency | FP64 lanes | "
      "tensor cores: f16, f8, s8, f64, mma.sync, sustained |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const DeviceSpec& d : known_devices()) {
    text += fmt::format(
        "| `{}` | {} | {} | {} | {:.0f} | {:.0f} | {} | {:.0f} | {:.0f}, {:.0f}, {:.0f} | {} | {}, {}, {}, {}, "
        "{:.2f}, {:.2f} |\n",
        d.name, d.full_name, d.architecture(), d.sm_count, d.clock_hz / 1e6, d.dram_bandwidth / 1e9, d.l2_bytes >> 20,
        d.l2_bandwidth / 1e9, d.shared_latency, d.l2_latency, d.dram_latency, d.fp64_lanes_per_sm, d.tensor.f16,
        d.tensor.f8, d.tensor.s8, d.tensor.f64, d.tensor.synchronous_share, d.tensor.sustained_share);
  }
  return text;
}

/// The sources of an entry, each with the figures that come from it.
std::string sources_of(const DeviceSpec& device) {
  std::vector<std::string_view> order;
  std::map<std::string_view, std::string> figures;
  const auto sources = figure_sources(device.name);
  for (const FigureSource& figure : *sources) {
    std::string& list = figures[figure.source];
    if (list.empty()) order.push_back(figure.source);
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", figure.field);
  }
  std::string text = fmt::format("\n### {}\n", device.name);
  for (const std::string_view source : order) text += fmt::format("* {}: {}\n", source, figures[source]);
  return text;
}

TEST(DevicesPage, ShowsTheTableAndItsSources) {
  std::string expected = "\n" + table();
  for (const DeviceSpec& device : known_devices()) expected += sources_of(device);
  RealFileSystem files;
  const auto written = files.read(std::filesystem::path(page));
  ASSERT_TRUE(written.ok()) << written.error().message;
  const std::size_t begin = written->find(marker);
  ASSERT_NE(begin, std::string::npos);
  const std::string head = written->substr(0, begin + marker.size());
  if (std::getenv("STITCH_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(files.publish(std::filesystem::path(page), head + expected).ok());
    return;
  }
  EXPECT_EQ(written->substr(head.size()), expected) << "STITCH_UPDATE_GOLDEN=1 writes the page anew";
}

}  // namespace
}  // namespace stitch
