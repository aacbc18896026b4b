#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>

#include "base/gzip.h"
#include "base/random.h"
#include "graph/verify.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

/// Small files that between them use every operator family.
std::vector<std::string> sample_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(STITCH_SOURCE_DIR "/tests/data/hlo")) {
    if (entry.path().extension() == ".txt") texts.push_back(file_text(entry.path().string()));
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_GT(texts.size(), 30U);
  return texts;
}

std::string model_text(const std::string& name) {
  const Result<std::string> text =
      gunzip(file_text(fmt::format("{}/bench/models/{}.hlo.txt.gz", STITCH_SOURCE_DIR, name)), 1 << 24);
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : std::string();
}

/// Whatever the text: an error of an expected kind that says something, or a graph that verifies.
void expect_orderly(std::string_view text) {
  ImportOptions options;
  options.max_nodes = 1 << 16;
  const Result<Imported> imported = import_hlo_text(text, options);
  if (imported) {
    const Status status = graph::verify(imported->graph);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return;
  }
  const Error& error = imported.error();
  EXPECT_TRUE(error.kind == ErrorKind::parse || error.kind == ErrorKind::unsupported ||
              error.kind == ErrorKind::resource_exhausted)
      << to_string(error.kind) << ": " << error.message;
  EXPECT_TRUE(error.message.find("line ") != std::string::npos || error.kind == ErrorKind::resource_exhausted)
      << error.message;
}

TEST(HloDamage, EveryTruncationIsAnError) {
  for (const std::string name : {"variadic_reduce", "open_loop", "pooling", "branches", "batched_scatter"}) {
    const std::string text = file_text(fmt::format("{}/tests/data/hlo/{}.hlo.txt", STITCH_SOURCE_DIR, name));
    const std::size_t last_brace = text.rfind('}');
    for (std::size_t length = 0; length <= last_brace; ++length) {
      const Result<Imported> imported = import_hlo_text(text.substr(0, length));
      ASSERT_FALSE(imported.ok()) << name << " cut off at " << length;
      EXPECT_EQ(imported.error().kind, ErrorKind::parse) << imported.error().message;
      EXPECT_NE(imported.error().message.find("line "), std::string::npos) << imported.error().message;
    }
    EXPECT_TRUE(import_hlo_text(text.substr(0, last_brace + 1)).ok());
  }
}

TEST(HloDamage, TruncatedModelsAreErrors) {
  for (const std::string name : {"hlo/dien_infer", "hlo/unet_block", "hlo/llama_decode", "fragments/adam_bert"}) {
    const std::string text = model_text(name);
    Random random(7);
    for (int i = 0; i < 60; ++i) {
      const std::size_t length = random.below(text.rfind('}'));
      const Result<Imported> imported = import_hlo_text(text.substr(0, length));
      ASSERT_FALSE(imported.ok()) << name << " cut off at " << length;
      EXPECT_EQ(imported.error().kind, ErrorKind::parse);
    }
  }
}

TEST(HloDamage, ChangedBytesAreHandled) {
  constexpr std::string_view alphabet = "{}()[]=,%\"<>-_.:x0123456789 \n/*abcfgpstu";
  Random random(11);
  for (const std::string& text : sample_texts()) {
    for (int round = 0; round < 60; ++round) {
      std::string changed = text;
      for (std::uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
        changed[random.below(changed.size())] = alphabet[random.below(alphabet.size())];
      }
      expect_orderly(changed);
    }
  }
}

TEST(HloDamage, ChangedNumbersAreHandled) {
  constexpr std::string_view numbers[] = {
      "0",  "1",     "2",          "7",          "65536",         "2147483647",
      "-1", "-9999", "4294967296", "1099511627", "1099511627776", "99999999999999999999"};
  Random random(13);
  for (const std::string& text : sample_texts()) {
    for (int round = 0; round < 60; ++round) {
      std::string changed = text;
      std::size_t at = changed.find_first_of("0123456789", random.below(changed.size()));
      if (at == std::string::npos) continue;
      const std::size_t end = changed.find_first_not_of("0123456789", at);
      changed.replace(at, (end == std::string::npos ? changed.size() : end) - at,
                      numbers[random.below(std::size(numbers))]);
      expect_orderly(changed);
    }
  }
}

/// Lines, operands and attributes of one file moved about: names stay valid more often than by changing bytes.
TEST(HloDamage, ExchangedPiecesAreHandled) {
  Random random(17);
  for (const std::string& text : sample_texts()) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    for (int round = 0; round < 40; ++round) {
      std::vector<std::string> changed = lines;
      const std::size_t a = random.below(changed.size()), b = random.below(changed.size());
      switch (random.below(4)) {
        case 0: std::swap(changed[a], changed[b]); break;
        case 1: changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(a)); break;
        case 2: changed[a] = changed[a].substr(0, changed[a].find("), ")) + ")"; break;  // loses its attributes
        default: {  // another line's right-hand side
          const std::size_t x = changed[a].find(" = "), y = changed[b].find(" = ");
          if (x != std::string::npos && y != std::string::npos)
            changed[a] = changed[a].substr(0, x) + changed[b].substr(y);
        }
      }
      std::string joined;
      for (const std::string& line : changed) joined += line + "\n";
      expect_orderly(joined);
    }
  }
}

}  // namespace
}  // namespace stitch::import
