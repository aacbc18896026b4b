#include "import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <filesystem>
#include <fstream>

#include "base/gzip.h"
#include "graph/codec/codec.h"
#include "tests/base/test_folder.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A folder that lasts as long as the test.
class Import : public testing::Test {
 protected:
  Result<Imported> import_from_file(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return import_file(folder_ / name);
  }

  const TestFolder folder_;
};

std::string gzipped(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

const std::string hlo = module_text("  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)");

std::string fragment(graph::Encoding encoding) { return graph::encode(import_good(hlo).graph, encoding); }

TEST_F(Import, TheContentsTellTheFormat) {
  struct Row {
    std::string name, bytes, format;
  };
  const Row rows[] = {
      {"model.hlo", hlo, "hlo"},
      {"model.hlo.txt", hlo, "hlo"},
      {"model.txt", hlo, "hlo"},
      {"model.onnx", hlo, "hlo"},  // whatever it is called
      {"model", "\n\n" + hlo, "hlo"},
      {"model", "// printed by hand\n" + hlo, "hlo"},
      {"model.hlo.txt.gz", gzipped(hlo), "hlo"},
      {"model.hlo.txt", gzipped(hlo), "hlo"},
      {"fragment.json", fragment(graph::Encoding::json), "fragment-json"},
      {"fragment", fragment(graph::Encoding::json), "fragment-json"},
      {"fragment.json.gz", gzipped(fragment(graph::Encoding::json)), "fragment-json"},
      {"fragment.cbor", fragment(graph::Encoding::cbor), "fragment-cbor"},
      {"fragment", fragment(graph::Encoding::cbor), "fragment-cbor"},
      {"fragment.cbor.gz", gzipped(fragment(graph::Encoding::cbor)), "fragment-cbor"},
  };
  for (const Row& row : rows) {
    const Result<Imported> imported = import_from_file(row.name, row.bytes);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    EXPECT_EQ(imported->format, row.format) << row.name;
    EXPECT_EQ(imported->graph.size(), 2);
    EXPECT_THAT(imported->parameters, testing::ElementsAre("x"));
    EXPECT_THAT(imported->results, testing::ElementsAre("y"));
  }
}

TEST_F(Import, OnnxFilesAreKnownByTheirFirstFieldOrTheirName) {
  const std::string path = STITCH_SOURCE_DIR "/bench/models/onnx/dlrm.onnx";
  const std::string bytes = file_text(path);
  for (const std::string_view name : {"dlrm.onnx", "dlrm"}) {
    const Result<Imported> imported = import_bytes(bytes, name);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    EXPECT_EQ(imported->format, "onnx");
  }
  const Result<Imported> from_file = import_file(std::filesystem::path(path));
  ASSERT_TRUE(from_file.ok()) << from_file.error().message;
}

TEST_F(Import, ErrorsNameTheFileAndThePlace) {
  struct Row {
    std::string name, bytes;
    ErrorKind kind;
    std::string message;
  };
  const Row rows[] = {
      {"a.hlo", "HloModule m\nENTRY e {\n  x = f32[] oops\n}", ErrorKind::parse,
       "a.hlo: line 4, column 1: expected '('"},
      {"a.txt", "What is this?", ErrorKind::parse, "a.txt: line 1, column 1: expected 'HloModule'"},
      {"a.json", "{\"nodes\": [", ErrorKind::parse, "a.json: "},
      {"empty.hlo", "", ErrorKind::parse, "empty.hlo: line 1, column 1: the file is empty"},
      {"blank.onnx", " \n\t", ErrorKind::parse, "the file is empty"},
      {"picture.png", "\x89PNG", ErrorKind::unsupported, "neither HLO text nor ONNX nor a fragment"},
      {"program.cbor",
       "\xa1"
       "fformatnstitch-program",
       ErrorKind::invalid_argument, "a program of Stitch's, and no model"},
      {"package", "{\"format\": \"stitch-package\"}", ErrorKind::invalid_argument,
       "a package of Stitch's, and no model"},
      {"cut.gz", gzipped(hlo).substr(0, 40), ErrorKind::corrupt, "cut.gz: gzip: "},
  };
  for (const Row& row : rows) {
    const Result<Imported> imported = import_from_file(row.name, row.bytes);
    ASSERT_FALSE(imported.ok()) << row.name;
    EXPECT_EQ(imported.error().kind, row.kind) << imported.error().message;
    EXPECT_THAT(imported.error().message, HasSubstr(row.message));
    EXPECT_THAT(imported.error().message, StartsWith((folder_ / row.name).string()));
  }
  const Result<Imported> missing = import_file(std::filesystem::path("no/such/model.hlo"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("no/such/model.hlo"));
}

TEST_F(Import, SizesAreBounded) {
  ImportOptions options;
  options.max_bytes = 100;
  EXPECT_EQ(import_bytes(hlo + std::string(100, ' '), "m.hlo", options).error().kind, ErrorKind::resource_exhausted);
  // A small file that unpacks to a large one.
  const std::string bomb = gzipped(hlo + std::string(1 << 20, '\n'));
  EXPECT_LT(bomb.size(), 4000U);
  options.max_bytes = 1 << 16;
  const Result<Imported> imported = import_bytes(bomb, "m.hlo.gz", options);
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().kind, ErrorKind::resource_exhausted);
  EXPECT_THAT(imported.error().message, HasSubstr("after decompression"));
}

TEST(Gzip, MembersAreJoinedAndDamageIsNoticed) {
  const std::string packed = gzipped("first ") + gzipped("second");
  ASSERT_TRUE(gunzip(packed, 100).ok());
  EXPECT_EQ(*gunzip(packed, 100), "first second");
  const std::string one = gzipped(std::string(1000, 'a') + "b");
  for (std::size_t length = 2; length < one.size(); ++length) {
    const Result<std::string> cut = gunzip(one.substr(0, length), 10000);
    ASSERT_FALSE(cut.ok()) << length;
    EXPECT_EQ(cut.error().kind, ErrorKind::corrupt);
  }
  std::string damaged = one;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // in the checksum
  EXPECT_EQ(gunzip(damaged, 10000).error().kind, ErrorKind::corrupt);
  EXPECT_EQ(*gunzip(gzipped(""), 10), "");
}

}  // namespace
}  // namespace stitch::import
