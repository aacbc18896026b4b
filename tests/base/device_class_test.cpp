#include "base/device_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/device_sources.h"
#include "base/random.h"
#include "tests/base/device_spec_fields.h"

namespace stitch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

DeviceTraits traits_of(std::string_view device) {
  for (const ListedTraits& entry : listed_traits()) {
    if (entry.device == device) return entry.traits;
  }
  ADD_FAILURE() << device << " has no traits";
  return {};
}

DeviceClass class_of(const DeviceTraits& traits) {
  const auto found = classify(traits);
  EXPECT_TRUE(found.ok()) << (found ? "" : found.error().message);
  return found.value_or({});
}

/// What a slice reports: memory, its bus and L2 in eighths, the clock of the whole GPU.
DeviceTraits slice(std::string_view device, std::string profile, int sms, int eighths) {
  DeviceTraits traits = traits_of(device);
  traits.mig_profile = std::move(profile);
  traits.sm_count = sms;
  traits.l2_bytes = traits.l2_bytes * eighths / 8;
  traits.memory_bus_bits = traits.memory_bus_bits * eighths / 8;
  traits.memory_bytes = traits.memory_bytes * eighths / 8;
  return traits;
}

void expect_equal(const DeviceSpec& a, const DeviceSpec& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.full_name, b.full_name);
  EXPECT_EQ(a.architecture(), b.architecture());
  EXPECT_EQ(a.sm_count, b.sm_count);
  EXPECT_EQ(a.l2_bytes, b.l2_bytes);
  EXPECT_EQ(a.l2_bandwidth, b.l2_bandwidth);
  EXPECT_EQ(a.dram_bandwidth, b.dram_bandwidth);
  EXPECT_EQ(a.shared_per_sm, b.shared_per_sm);
  EXPECT_EQ(a.shared_per_block, b.shared_per_block);
  EXPECT_EQ(a.threads_per_sm, b.threads_per_sm);
  EXPECT_EQ(a.blocks_per_sm, b.blocks_per_sm);
  EXPECT_EQ(a.max_cluster_blocks, b.max_cluster_blocks);
  EXPECT_EQ(a.source, b.source);
  EXPECT_TRUE(fields_of(a) == fields_of(b)) << "a field that is not listed above";
}

TEST(DeviceClass, EveryEntryIsFoundByWhatItsDriverReports) {
  ASSERT_EQ(listed_traits().size(), known_devices().size());
  for (std::size_t i = 0; i < known_devices().size(); ++i) {
    const DeviceSpec& spec = known_devices()[i];
    const ListedTraits& entry = listed_traits()[i];
    SCOPED_TRACE(spec.name);
    ASSERT_EQ(entry.device, spec.name);
    const DeviceClass found = class_of(entry.traits);
    EXPECT_TRUE(found.listed);
    EXPECT_EQ(found.nearest, spec.name);
    expect_equal(found.spec, spec);
    EXPECT_EQ(entry.traits.compute_major, spec.compute_major);
    EXPECT_EQ(entry.traits.compute_minor, spec.compute_minor);
    EXPECT_EQ(entry.traits.sm_count, spec.sm_count);
    EXPECT_EQ(entry.traits.shared_per_sm, spec.shared_per_sm);
    EXPECT_EQ(entry.traits.shared_per_block, spec.shared_per_block);
    EXPECT_EQ(entry.traits.threads_per_sm, spec.threads_per_sm);
    EXPECT_EQ(entry.traits.blocks_per_sm, spec.blocks_per_sm);
    EXPECT_NEAR(entry.traits.memory_bandwidth() / spec.dram_bandwidth, 1, 0.03);
  }
}

// Figures as deviceQuery printed them on the machines, beside what the table assumes.
TEST(DeviceClass, GpusAreWhatTheyReportWhateverTheyAreCalled) {
  const std::tuple<std::string_view, DeviceTraits, std::string_view> cases[] = {
      {"H100 PCIe", {9, 0, 114, 52'428'800, 233'472, 232'448, 2048, 32, 1'593'000, 5120, 84'929'019'904}, "h100-pcie"},
      {"H100 SXM5 of an OEM",
       {9, 0, 132, 52'428'800, 233'472, 232'448, 2048, 32, 2'619'000, 5120, 85'045'215'232},
       "h100"},
      {"H200, and H200 NVL",
       {9, 0, 132, 62'914'560, 233'472, 232'448, 2048, 32, 3'201'000, 6144, 150'109'880'320},
       "h200"},
      {"A100-SXM4-80GB",
       {8, 0, 108, 41'943'040, 167'936, 166'912, 2048, 32, 1'593'000, 5120, 85'031'714'816},
       "a100-80gb"},
      {"A100-PCIE-40GB", {8, 0, 108, 41'943'040, 167'936, 166'912, 2048, 32, 1'215'000, 5120, 42'285'268'992}, "a100"},
      {"L40S", {8, 9, 142, 100'663'296, 102'400, 101'376, 1536, 24, 9'001'000, 384, 47'576'711'168}, "l40s"},
      {"RTX 5090", {12, 0, 170, 100'663'296, 102'400, 101'376, 1536, 24, 14'001'000, 512, 33'660'534'784}, "rtx5090"},
      {"T4", {7, 5, 40, 4'194'304, 65'536, 65'536, 1024, 16, 5'001'000, 256, 15'843'721'216}, "t4"},
      {"a driver that keeps the clock to itself",
       {9, 0, 114, 52'428'800, 233'472, 232'448, 2048, 32, 0, 5120, 0},
       "h100-pcie"},
      {"memory tells the two A100",
       {8, 0, 108, 41'943'040, 167'936, 166'912, 2048, 32, 0, 0, 85'031'714'816},
       "a100-80gb"},
  };
  for (const auto& [what, traits, device] : cases) {
    const DeviceClass found = class_of(traits);
    EXPECT_EQ(found.spec.name, device) << what;
    EXPECT_TRUE(found.listed) << what;
  }
}

TEST(DeviceClass, SlicesAreClassesOfTheirOwn) {
  const std::tuple<std::string_view, std::string_view, int, int> slices[] = {
      {"h100", "1g.10gb", 16, 1},      {"h100", "1g.20gb", 26, 2},      {"h100", "2g.20gb", 32, 2},
      {"h100", "3g.40gb", 60, 4},      {"h100", "4g.40gb", 64, 4},      {"h100", "7g.80gb", 132, 8},
      {"h100", "1g.10gb+me", 16, 1},   {"a100", "1g.5gb", 14, 1},       {"a100", "2g.10gb", 28, 2},
      {"a100", "3g.20gb", 42, 4},      {"a100", "4g.20gb", 56, 4},      {"a100", "7g.40gb", 98, 8},
      {"a100-80gb", "1g.10gb", 14, 1}, {"a100-pcie", "3g.40gb", 42, 4}, {"h100-nvl", "3g.47gb", 60, 4},
      {"h200", "1g.18gb", 16, 1},      {"b200", "1g.23gb", 18, 1}};
  std::set<std::string> names;
  for (const auto& [device, profile, sms, eighths] : slices) {
    SCOPED_TRACE(fmt::format("{} {}", device, profile));
    const DeviceClass found = class_of(slice(device, std::string(profile), sms, eighths));
    const DeviceSpec whole = *find_device(device);
    EXPECT_FALSE(found.listed);
    EXPECT_EQ(found.nearest, device);
    EXPECT_THAT(found.spec.name,
                AllOf(HasSubstr(std::string(device) + "~sm"), HasSubstr("-mig" + std::string(profile))));
    EXPECT_TRUE(names.insert(found.spec.name).second) << found.spec.name;
    EXPECT_EQ(found.spec.sm_count, sms);
    EXPECT_NEAR(found.spec.dram_bandwidth, whole.dram_bandwidth * eighths / 8, 1e9);
    EXPECT_NEAR(found.spec.l2_bandwidth / whole.l2_bandwidth, eighths / 8.0, 0.01);
    EXPECT_EQ(found.spec.l2_bytes, traits_of(device).l2_bytes * eighths / 8);
    EXPECT_EQ(found.spec.shared_per_sm, whole.shared_per_sm);
    EXPECT_EQ(found.spec.l2_latency, whole.l2_latency);
    EXPECT_EQ(found.spec.architecture(), whole.architecture());
    EXPECT_THAT(found.spec.source, AllOf(HasSubstr("no entry of the device table"), HasSubstr("by share of memory")));
  }
  // As deviceQuery printed it for "NVIDIA A100 80GB PCIe MIG 1g.10gb".
  const DeviceClass seen =
      class_of({8, 0, 14, 5'242'880, 167'936, 166'912, 2048, 32, 1'512'000, 640, 10'200'547'328, "1g.10gb"});
  EXPECT_EQ(seen.spec.name, "a100-pcie~sm14-l2.5120-gbs242-mig1g.10gb");
}

TEST(DeviceClass, ProfilesAreReadFromTheNamesOfSlicesOnly) {
  EXPECT_EQ(mig_profile_in("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), "1g.10gb");
  EXPECT_EQ(mig_profile_in("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"), "1g.10gb+me");
  EXPECT_EQ(mig_profile_in("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb"), "1c.3g.20gb");
  for (const char* whole : {"NVIDIA H100 80GB HBM3", "MIG", "NVIDIA MIG Special Edition", ""})
    EXPECT_EQ(mig_profile_in(whole), "") << whole;
}

TEST(DeviceClass, OthersGetConstantsOfTheNearestAndSaySo) {
  const std::tuple<std::string_view, DeviceTraits, std::string_view, std::string_view> cases[] = {
      {"GH200 with 96 GB",
       {9, 0, 132, 62'914'560, 233'472, 232'448, 2048, 32, 2'619'000, 6144, 101'000'000'000},
       "h100-nvl",
       "h100-nvl~sm132-l2.61440-gbs4023"},
      {"RTX 4090 D",
       {8, 9, 114, 75'497'472, 102'400, 101'376, 1536, 24, 10'501'000, 384, 25'000'000'000},
       "rtx4090",
       "rtx4090~sm114-l2.73728-gbs1008"},
      {"A10",
       {8, 6, 72, 6'291'456, 102'400, 101'376, 1536, 16, 6'251'000, 384, 24'000'000'000},
       "rtx3090",
       "rtx3090~sm72-l2.6144-gbs600"},
      {"Jetson Orin",
       {8, 7, 16, 4'194'304, 167'936, 166'912, 1536, 16, 1'600'000, 256, 64'000'000'000},
       "rtx3090",
       "rtx3090~cc8.7-sm16-l2.4096-gbs102-shared164-block163"},
      {"a later GPU",
       {13, 0, 200, 268'435'456, 262'144, 261'120, 2048, 32, 5'000'000, 8192, 300'000'000'000},
       "rtx-pro-6000",
       "rtx-pro-6000~cc13.0-sm200-l2.262144-gbs10240-shared256-block255-threads2048-blocks32"}};
  for (const auto& [what, traits, nearest, name] : cases) {
    SCOPED_TRACE(what);
    const DeviceClass found = class_of(traits);
    EXPECT_FALSE(found.listed);
    EXPECT_EQ(found.nearest, nearest);
    EXPECT_EQ(found.spec.name, name);
    EXPECT_EQ(found.spec.compute_major, traits.compute_major);
    EXPECT_EQ(found.spec.compute_minor, traits.compute_minor);
    EXPECT_EQ(found.spec.sm_count, traits.sm_count);
    EXPECT_EQ(found.spec.shared_per_sm, traits.shared_per_sm);
    EXPECT_EQ(found.spec.threads_per_sm, traits.threads_per_sm);
    EXPECT_GT(found.spec.l2_bandwidth, found.spec.dram_bandwidth);
    EXPECT_THAT(found.spec.source, AllOf(HasSubstr("no entry of the device table"),
                                         HasSubstr("a guess: as for the " + std::string(nearest))));
    expect_equal(find_device_class(found.spec.name)->spec, found.spec);
  }
  EXPECT_EQ(classify({}).error().kind, ErrorKind::invalid_argument);
}

// Whatever a driver may report: a class, by name the same again, and one figure more or less another class.
TEST(DeviceClass, NamesSayAllThatAClassIs) {
  constexpr std::uint64_t seed = 25;
  std::uint64_t drawn = 0;
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(uniform_at(seed, drawn++) * (most - least + 1));
  };
  for (int round = 0; round < 500; ++round) {
    DeviceTraits traits = listed_traits()[draw(0, listed_traits().size() - 1)].traits;
    if (draw(0, 1) == 1) traits.compute_minor = draw(0, 9);
    if (draw(0, 3) == 0) traits.compute_major = draw(5, 15);
    if (draw(0, 1) == 1) traits.sm_count = draw(1, 400);
    if (draw(0, 1) == 1) traits.l2_bytes = draw(1, 300'000) * 1024;
    if (draw(0, 3) == 0) traits.shared_per_sm = draw(32, 512) * 1024;
    if (draw(0, 1) == 1) traits.memory_clock_khz = draw(100, 20'000) * 1000;
    if (draw(0, 1) == 1) traits.memory_bus_bits = 64 * draw(1, 256);
    if (draw(0, 3) == 0) traits.threads_per_sm = 512 * draw(2, 6);
    if (draw(0, 3) == 0) traits.mig_profile = fmt::format("{}g.{}gb", draw(1, 7), draw(5, 200));
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const DeviceClass found = class_of(traits);
    const auto again = find_device_class(found.spec.name);
    ASSERT_TRUE(again.ok()) << found.spec.name << ": " << again.error().message;
    expect_equal(again->spec, found.spec);
    EXPECT_EQ(again->listed, found.listed);
    EXPECT_EQ(found.spec.compute_major, traits.compute_major);
    EXPECT_EQ(found.spec.sm_count, traits.sm_count);
    DeviceTraits other = traits;
    other.sm_count += 1;
    EXPECT_NE(class_of(other).spec.name, found.spec.name);
    other = traits;
    other.memory_bus_bits *= 2;
    EXPECT_NE(class_of(other).spec.name, found.spec.name);
    other = traits;
    other.mig_profile += "+me";
    EXPECT_NE(class_of(other).spec.name, found.spec.name);
    other = traits;
    other.compute_minor = (other.compute_minor + 1) % 10;
    EXPECT_NE(class_of(other).spec.name, found.spec.name);
  }
}

TEST(DeviceClass, NamesThatAreNoneAreRefused) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"h1000", "unknown GPU 'h1000'"},
      {"h1000~sm1-l2.1-gbs1", "unknown GPU 'h1000'"},
      {"h100~", "'' is no difference from the h100"},
      {"h100~sm114", "says its SMs, L2 and bandwidth"},
      {"h100~sm0-l2.51200-gbs2039", "'sm0' is no difference"},
      {"h100~sm114x-l2.51200-gbs2039", "'sm114x' is no difference"},
      {"h100~sm114-l2.51200-gbs2039-warp9", "'warp9' is no difference"},
      {"h100~sm114-l2.51200-gbs99999999999999999999", "is no difference"},
      {"h100~cc9-sm114-l2.51200-gbs2039", "'cc9' is no difference"},
      {"h100~sm114-l2.51200-gbs2039-mig", "'mig' is no difference"},
      {"h100~sm114-l2.51200-gbs2039-mig1g.10gb'; drop", "is no difference"}};
  for (const auto& [name, message] : cases) {
    const auto found = find_device_class(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(found.error().message, HasSubstr(std::string(message)));
  }
  EXPECT_EQ(find_device_class("H100")->spec.name, "h100");
}

TEST(DeviceSources, EveryFigureHasOneOrIsAGuess) {
  for (const DeviceSpec& device : known_devices()) {
    SCOPED_TRACE(device.name);
    const auto sources = figure_sources(device.name);
    ASSERT_TRUE(sources.ok());
    EXPECT_EQ(sources->size(), 32U) << "members of DeviceSpec that are figures";
    std::set<std::string_view> fields;
    for (const FigureSource& figure : *sources) {
      EXPECT_TRUE(fields.insert(figure.field).second) << figure.field;
      const bool published = std::ranges::any_of(
          std::initializer_list<std::string_view>{"NVIDIA", "CUDA", "arXiv", "ASPLOS", "driver reports", "deviceQuery",
                                                  "nvidia-smi", "Liger-Kernel", "(bench/results/gpu)",
                                                  "(bench/contractions/measured.csv)"},
          [&](std::string_view word) { return figure.source.find(word) != std::string_view::npos; });
      EXPECT_TRUE(published || figure.source.starts_with("guess")) << figure.field << ": " << figure.source;
    }
    EXPECT_FALSE(device.source.empty());
  }
  EXPECT_FALSE(figure_sources("h1000").ok());
}

}  // namespace
}  // namespace stitch
