#include "codegen/device_headers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "codegen/compile/nvrtc.h"

namespace stitch::codegen {
namespace {

// What is embedded is what lies in the folder: a header that was added, changed or removed without a rebuild of the
// library would be served stale.
TEST(DeviceHeaders, AreTheFilesOfTheFolder) {
  std::map<std::string, std::string> expected;
  const RealFileSystem files;
  for (const auto& entry : files.list(std::filesystem::path(STITCH_SOURCE_DIR) / "codegen/device")) {
    if (entry.path.extension() != ".cuh") continue;
    expected["stitch/" + entry.path.filename().string()] = *files.read(entry.path);
  }
  std::map<std::string, std::string> embedded;
  for (const DeviceHeader& header : device_headers()) embedded.emplace(header.name, header.contents);
  EXPECT_TRUE(embedded.contains("stitch/version.cuh"));
  EXPECT_EQ(embedded, expected);
}

TEST(DeviceHeaders, AreSortedAndTerminated) {
  std::string_view previous;
  for (const DeviceHeader& header : device_headers()) {
    EXPECT_LT(previous, header.name);
    EXPECT_EQ(header.name.data()[header.name.size()], '\0') << header.name;
    EXPECT_EQ(header.contents.data()[header.contents.size()], '\0') << header.name;
    EXPECT_EQ(header.contents.find('\0'), std::string_view::npos) << header.name;
    previous = header.name;
  }
}

TEST(DeviceHeaders, TheHashCoversNamesAndContents) {
  Hasher hasher;
  hasher.integer(device_headers().size());
  for (const DeviceHeader& header : device_headers()) hasher.text(header.name).text(header.contents);
  EXPECT_EQ(device_headers_hash(), hasher.finish());
}

// Before sm_80 there is no cp.async: registers in between do the same.
TEST(DeviceHeaders, CopiesCompileForEveryArchitecture) {
  const auto nvrtc = Nvrtc::load();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  for (const char* architecture : {"-arch=compute_75", "-arch=compute_80"}) {
    NvrtcInput input;
    input.name = "copies.cu";
    input.source =
        "#include \"stitch/kernel.cuh\"\nextern \"C\" __global__ void k(const float* from, float* to) {\n"
        "  __shared__ float kept[4];\n  stitch::copy_async<1>(kept, from);\n  stitch::wait_for_copies();\n"
        "  to[0] = kept[0];\n}\n";
    for (const DeviceHeader& header : device_headers())
      input.headers.push_back({header.name.data(), header.contents.data()});
    input.options = {architecture, "--std=c++20", "-default-device"};
    const auto output = (*nvrtc)->compile(input);
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_TRUE(output->compiled) << output->log;
  }
}

// Each compiles alone, so generated code may include just what it uses, in any order.
TEST(DeviceHeaders, EachCompilesAlone) {
  const auto nvrtc = Nvrtc::load();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  for (const DeviceHeader& each : device_headers()) {
    NvrtcInput input;
    input.name = "alone.cu";
    input.source =
        fmt::format("#include \"{0}\"\n#include \"{0}\"\nextern \"C\" __global__ void k() {{}}\n", each.name);
    for (const DeviceHeader& header : device_headers()) {
      input.headers.push_back({header.name.data(), header.contents.data()});
    }
    input.options = {"-arch=compute_80", "--std=c++20", "-default-device"};
    const auto output = (*nvrtc)->compile(input);
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_TRUE(output->compiled) << each.name << ":\n" << output->log;
  }
}

}  // namespace
}  // namespace stitch::codegen
