// Packages as documents, and on which GPUs they run.
#include "api/package_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/api/example_fragment.h"

namespace stitch::api {
namespace {

using graph::DType;
using graph::TensorType;
using testing::HasSubstr;
using Fitness = Compatibility::Fitness;
using Storage = ProgramValue::Storage;

/// y = exp(x) by one kernel for a class of GPUs. Its code is no code, but has its hash.
Program program_for(const std::string& device) {
  const TensorType vector_type{DType::f32, {128}};
  Program program;
  program.model = "exp";
  program.source = sha256("exp");
  program.target.device = device;
  program.target.architecture = find_device(device)->architecture();
  const std::string cubin = "cubin for " + device, ptx = "ptx for " + device;
  Plan plan;
  plan.fragment = hash_bytes("exp");
  plan.target = program.target;
  plan.parameters = plan.results = {vector_type};
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.name = "exp";
  launch.cubin = sha256(cubin);
  launch.ptx = sha256(ptx);
  program.artifacts = {{launch.cubin, cubin}, {launch.ptx, ptx}};
  program.fragments = {{hash_bytes("exp"), exponential(), 1, plan, ""}};
  ProgramRegion region;
  region.values = {{vector_type, "x", Storage::parameter, 0}, {vector_type, "y", Storage::result, 0}};
  region.parameters = {0};
  region.results = {1};
  region.steps = {{"exp", {0}, {1}, 0, FragmentStep{0}}};
  program.regions = {region};
  program.parameters = {{"x", vector_type, {}, {}}};
  program.results = {{"y", vector_type, {}, {}}};
  program.id = identity_of(program);
  return program;
}

Package package_for(const std::vector<std::string>& devices) {
  Package package{"exp", sha256("exp"), {}};
  for (const std::string& device : devices) package.programs.push_back(program_for(device));
  return package;
}

TEST(PackageDocument, ComesBackAsItWas) {
  const std::string bytes = encode_package(package_for({"h100", "l4"}));
  EXPECT_TRUE(looks_like_package(bytes));
  const auto back = decode_package(bytes);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->programs.size(), 2U);
  EXPECT_EQ(back->programs[1].target.device, "l4");
  EXPECT_EQ(back->programs[1].artifacts.size(), 2U);
  EXPECT_EQ(encode_package(*back), bytes);
}

TEST(PackageDocument, NoBitMayChangeAndNoByteBeMissing) {
  const std::string bytes = encode_package(package_for({"h100"}));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(decode_package(other).ok()) << "byte " << i;
    EXPECT_FALSE(decode_package(std::string_view(bytes).substr(0, i)).ok()) << i << " bytes";
  }
}

TEST(PackageDocument, OfTwoForOneClassNoneIsChosen) {
  const auto back = decode_package(encode_package(package_for({"h100", "h100"})));
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(back.error().message, HasSubstr("programs[1]: a second one for h100"));
}

struct LaunchRow {
  const char* name;
  std::function<void(KernelLaunch&)> change;
  const char* device;
  Fitness fitness;
  const char* reason;
};

class PackageLaunches : public testing::TestWithParam<LaunchRow> {};

TEST_P(PackageLaunches, RunWhereTheyFit) {
  Package package = package_for({"l4"});
  GetParam().change(package.programs[0].fragments[0].plan->launches[0]);
  const Compatibility found = compatibility(package, *find_device(GetParam().device));
  EXPECT_EQ(found.fitness, GetParam().fitness) << found.reason;
  EXPECT_THAT(found.reason, HasSubstr(GetParam().reason));
  EXPECT_EQ(found.program, found.fitness == Fitness::refused ? -1 : 0);
}

const LaunchRow launch_rows[] = {
    {"own", [](KernelLaunch&) {}, "l4", Fitness::optimal, ""},
    {"later", [](KernelLaunch&) {}, "h100", Fitness::runs, ""},
    {"earlier", [](KernelLaunch&) {}, "t4", Fitness::refused, "needs compute capability 8.9 or later, t4 has 7.5"},
    {"threads", [](KernelLaunch& k) { k.threads = 2048; }, "h100", Fitness::refused, "has 2048 threads a block"},
    {"shared_memory", [](KernelLaunch& k) { k.shared_bytes = 1 << 20; }, "h100", Fitness::refused,
     "needs 1048576 bytes of shared memory a block"},
    {"clusters", [](KernelLaunch& k) { k.cluster = 64; }, "h100", Fitness::refused, "has clusters of 64 blocks"},
    {"barrier",
     [](KernelLaunch& k) {
       k.cooperative = true;
       k.threads = 1024;
       k.blocks = 3000;
     },
     "h100", Fitness::refused, "has a barrier over 3000 blocks"},
};
INSTANTIATE_TEST_SUITE_P(Launches, PackageLaunches, testing::ValuesIn(launch_rows),
                         [](const auto& row) { return row.param.name; });

TEST(PackageDocument, WithoutAPlanOfEveryFragmentItIsRefused) {
  Package package = package_for({"l4"});
  package.programs[0].fragments[0].plan.reset();
  package.programs[0].fragments[0].why_none = "no time";
  const Compatibility found = compatibility(package, *find_device("l4"));
  EXPECT_EQ(found.fitness, Fitness::refused);
  EXPECT_THAT(found.reason, HasSubstr("has no plan: no time"));
}

}  // namespace
}  // namespace stitch::api
