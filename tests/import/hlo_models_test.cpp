#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/verify.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

const std::filesystem::path models = std::filesystem::path(STITCH_SOURCE_DIR) / "bench" / "models";

Imported import_model(const std::string& folder, const std::string& name) {
  Result<Imported> imported = import_file(models / folder / (name + ".hlo.txt.gz"));
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  return imported.ok() ? std::move(*imported) : Imported{};
}

/// How often operators run, loops counted by their trips.
std::map<graph::Op, std::int64_t> runs(const graph::Graph& graph) {
  std::map<graph::Op, std::int64_t> count;
  graph::for_each_region(graph, [&](const graph::RegionSite& site) {
    for (const graph::Node& node : site.graph.nodes()) count[node.op] += site.occurrences;
  });
  return count;
}

/// Figures that follow from the models' definitions (bench/models/generate/workloads.py): a transformer layer has 8
/// contractions (four projections, two of attention, two of the feed-forward part), training runs each three times
/// (forward, and backward for either operand), a dropout takes two random blocks (one to fold its number into the key).
struct ModelRow {
  std::string name;
  std::int64_t parameters, results;
  std::int64_t dots;          ///< contractions that run, loops by their trips
  std::int64_t convolutions;  ///< likewise
  std::int64_t blocks;        ///< of threefry
  std::int64_t loops;
};

const ModelRow model_rows[] = {
    {"asr_infer", 430, 2, 12 * 12 + 2, 2 + 12, 0, 0},
    {"bert_infer", 202, 2, 12 * 8 + 1, 0, 0, 0},
    {"bert_infer_f16", 202, 2, 12 * 8 + 1, 0, 0, 0},
    {"bert_train", 618, 614, 3 * (12 * 8 + 2), 0, 2 * (1 + 12 * 2), 0},
    {"bert_train_lamb", 234, 230, 3 * (4 * 8 + 2), 0, 2 * (1 + 4 * 2), 0},
    {"crnn_infer", 47, 1, 2 * 2 * (24 + 1) + 2, 7, 0, 0},
    {"dien_infer", 31, 1, 2 * 2 * 100 + 7, 0, 0, 2},
    {"dien_train", 124, 116, 3 * (2 * 2 * 100 + 13), 0, 0, 4},
    {"dien_train_unrolled", 124, 116, 3 * (2 * 2 * 100 + 13), 0, 0, 0},
    {"gpt2_train", 592, 590, 3 * (12 * 8 + 1), 0, 2 * (1 + 12 * 2), 0},
    {"llama_decode", 49, 10, 4 * 9 + 1, 0, 0, 0},
    {"llama_prefill", 40, 1, 4 * 9 + 1, 0, 0, 0},
    {"llama_train", 120, 119, 3 * (4 * 9 + 1), 0, 0, 0},
    {"resnet50_train", 486, 485, 3, 3 * 53 - 1, 0, 0},  // no gradient of the images
    {"transformer_train", 776, 773, 3 * (6 * 8 + 6 * 14 + 1), 0, 2 * (13 + 19), 0},
    {"unet_block", 49, 1, 19, 2, 0, 0},
};

TEST(HloModels, EveryModelHasTheOperatorsOfItsDefinition) {
  for (const ModelRow& row : model_rows) {
    const Imported imported = import_model("hlo", row.name);
    SCOPED_TRACE(row.name);
    const auto status = graph::verify(imported.graph);
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(imported.boundaries.empty());
    auto count = runs(imported.graph);
    EXPECT_EQ(static_cast<std::int64_t>(imported.graph.parameters().size()), row.parameters);
    EXPECT_EQ(static_cast<std::int64_t>(imported.graph.results().size()), row.results);
    EXPECT_EQ(count[graph::Op::dot], row.dots);
    EXPECT_EQ(count[graph::Op::convolution], row.convolutions);
    EXPECT_EQ(count[graph::Op::threefry2x32], row.blocks);
    EXPECT_EQ(count[graph::Op::loop], row.loops);
  }
}

TEST(HloModels, LoopsHaveTheirTripCounts) {
  for (const auto& [name, expected] : {std::pair("dien_infer", 2), std::pair("dien_train", 4)}) {
    const Imported imported = import_model("hlo", name);
    int loops = 0;
    for (const graph::Node& node : imported.graph.nodes()) {
      if (node.op != graph::Op::loop) continue;
      EXPECT_EQ(node.as<graph::LoopAttributes>().trip_count, 100) << name;
      ++loops;
    }
    EXPECT_EQ(loops, expected) << name;
  }
}

TEST(HloModels, NodesKnowTheLineTheyComeFrom) {
  const Imported imported = import_model("hlo", "bert_infer");
  std::int32_t last_line = 0;
  for (const graph::Node& node : imported.graph.nodes()) {
    EXPECT_GT(node.line, 0);
    EXPECT_FALSE(node.name.empty());
    last_line = std::max(last_line, node.line);
  }
  EXPECT_GT(last_line, 2000);
  EXPECT_EQ(imported.parameters.size(), imported.graph.parameters().size());
  EXPECT_EQ(imported.results.size(), imported.graph.results().size());
}

TEST(HloModels, EveryFragmentImports) {
  std::size_t fragments = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models / "fragments")) {
    const Result<Imported> imported = import_file(entry.path());
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    EXPECT_EQ(imported->format, "hlo");
    EXPECT_TRUE(imported->boundaries.empty()) << entry.path();
    auto count = runs(imported->graph);
    // Memory-intensive by selection.
    EXPECT_EQ(count[graph::Op::dot] + count[graph::Op::convolution] + count[graph::Op::loop], 0) << entry.path();
    ++fragments;
  }
  EXPECT_EQ(fragments, 41U);
}

TEST(HloModels, FragmentsReadAndWriteWhatTheirFiguresSay) {
  // "ideal_bytes" was counted from the module's parameters and results by the generating script.
  const auto all = nlohmann::json::parse(file_text((models / "fragments_xla.json").string()));
  EXPECT_EQ(all.size(), 41U);
  for (const auto& [name, figures] : all.items()) {
    const Imported imported = import_model("fragments", name);
    std::int64_t bytes = 0;
    for (const graph::NodeId id : imported.graph.parameters()) bytes += imported.graph.node(id).type().bytes();
    for (const graph::Value& value : imported.graph.results()) bytes += imported.graph.type(value).bytes();
    EXPECT_EQ(bytes, figures.at("ideal_bytes").get<std::int64_t>()) << name;
  }
}

}  // namespace
}  // namespace stitch::import
