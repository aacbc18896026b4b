#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "graph/verify.h"
#include "import/import.h"
#include "import/onnx/backend_case.h"

/// Damaged files never crash the importer: they are errors with a message, or happen to be models still.
namespace stitch::import {
namespace {

std::string read_model(const std::string& name) {
  Result<std::string> bytes = RealFileSystem().read(std::string(STITCH_SOURCE_DIR) + "/bench/models/onnx/" + name);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes.value_or("");
}

/// Small files, so that a mutation hits something that matters.
ImportOptions limits() {
  ImportOptions options;
  options.max_nodes = 1 << 14;
  return options;
}

void expect_orderly(const std::string& bytes) {
  const Result<Imported> imported = import_onnx(bytes, limits());
  if (imported.ok()) {
    EXPECT_TRUE(graph::verify(imported->graph).ok());
  } else {
    EXPECT_FALSE(imported.error().message.empty());
    EXPECT_NE(imported.error().kind, ErrorKind::internal) << imported.error().message;
  }
}

class OnnxFuzz : public testing::TestWithParam<const char*> {};

TEST_P(OnnxFuzz, Truncations) {
  const std::string bytes = read_model(GetParam());
  Random random(1);
  for (int i = 0; i < 60; ++i) expect_orderly(bytes.substr(0, random.below(bytes.size())));
}

TEST_P(OnnxFuzz, MutatedBytes) {
  const std::string bytes = read_model(GetParam());
  Random random(2);
  for (int i = 0; i < 250; ++i) {
    std::string mutated = bytes;
    const std::uint64_t count = 1 + random.below(4);
    for (std::uint64_t k = 0; k < count; ++k) {
      mutated[random.below(mutated.size())] = static_cast<char>(random.below(256));
    }
    expect_orderly(mutated);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, OnnxFuzz,
                         testing::Values("crnn_lstm.onnx", "llama_f16_opset23.onnx", "dlrm.onnx", "resnet50.onnx",
                                         "unet_block.onnx"),
                         [](const auto& row) {
                           const std::string name = row.param;
                           return name.substr(0, name.find('.'));
                         });

/// The cases of the backend suite are small: nearly every mutation hits an attribute, a shape or a name.
TEST(OnnxFuzzCases, MutatedBytes) {
  const RealFileSystem files;
  Random random(3);
  std::size_t cases = 0;
  for (const char* suite : {STITCH_SOURCE_DIR "/tests/data/onnx/node", "/usr/share/libonnx-testdata/data/node"}) {
    for (const auto& folder : onnx::list_backend_cases(suite)) {
      const Result<onnx::BackendCase> loaded = onnx::load_backend_case(files, folder);
      if (!loaded) continue;  // strings and sequences
      ++cases;
      for (int i = 0; i < 20; ++i) {
        onnx::BackendCase mutated = *loaded;
        const std::uint64_t count = 1 + random.below(3);
        for (std::uint64_t k = 0; k < count; ++k) {
          mutated.model[random.below(mutated.model.size())] = static_cast<char>(random.below(256));
        }
        const Result<Imported> imported = onnx::import_backend_case(mutated, mutated.data[0]);
        if (imported.ok()) {
          EXPECT_TRUE(graph::verify(imported->graph).ok());
        } else {
          EXPECT_NE(imported.error().kind, ErrorKind::internal) << imported.error().message;
        }
      }
    }
  }
  EXPECT_GE(cases, 60U);
}

}  // namespace
}  // namespace stitch::import
