#include "costmodel/constants/constant_origins.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "costmodel/analytical_constants.h"

namespace stitch::costmodel {
namespace {

using Named = std::pair<std::string, std::string>;  ///< file, name

const std::filesystem::path folder = std::filesystem::path(STITCH_SOURCE_DIR) / "costmodel";
/// What predicts nothing, or is trained: trees, their training, tables of names.
const std::set<std::string> others = {"boosted_trees", "combined",      "constant_fit",    "constant_origins",
                                      "envelope",      "learned",       "ranking_quality", "trained_model",
                                      "training",      "training_rows", "kernel_features", "feature_columns"};

/// (file, its text without comments and strings) of every source of a model.
std::vector<Named> sources() {
  std::vector<Named> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if ((extension != ".cpp" && extension != ".h") || others.contains(entry.path().stem())) continue;
    std::ifstream file(entry.path());
    std::string text((std::istreambuf_iterator<char>(file)), {});
    text = std::regex_replace(text, std::regex("//[^\n]*|\"[^\"\n]*\""), "");
    found.emplace_back(std::filesystem::relative(entry.path(), folder).generic_string(), std::move(text));
  }
  return found;
}

std::set<Named> constants_in_sources() {
  std::set<Named> found;
  const std::regex declaration(R"(constexpr (?:double|int|std::int64_t|PairWork) ([a-z_0-9]+ = [^;]*);)");
  const std::regex name(R"((?:^|, )([a-z_0-9]+) = )");
  for (const auto& [file, text] : sources()) {
    for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
      const std::string names = (*at)[1];
      for (std::sregex_iterator each(names.begin(), names.end(), name); each != end; ++each)
        found.emplace(file, (*each)[1]);
    }
  }
  for (const ConstantRow& row : constant_table()) found.emplace("analytical_constants.h", row.name);
  return found;
}

std::set<Named> rows() {
  std::set<Named> found;
  for (const ConstantOriginRow& row : constant_origins()) {
    EXPECT_TRUE(found.emplace(row.file, row.name).second) << row.name << " stands there twice";
  }
  return found;
}

TEST(ConstantOrigins, EveryConstantHasOne) {
  const std::set<Named> table = rows(), there = constants_in_sources();
  EXPECT_GT(there.size(), 100U);
  for (const auto& [file, name] : there)
    EXPECT_TRUE(table.contains({file, name})) << "costmodel/" << file << ": where does " << name << " come from?";
}

TEST(ConstantOrigins, NoRowOutlivesItsConstant) {
  const std::set<Named> there = constants_in_sources();
  for (const auto& [file, name] : rows()) {
    if (there.contains({file, name})) continue;
    // A row of a table in that file, with its name as a string.
    std::ifstream source(folder / file);
    const std::string text((std::istreambuf_iterator<char>(source)), {});
    EXPECT_THAT(text, testing::HasSubstr('"' + name + '"')) << "costmodel/" << file;
  }
}

TEST(ConstantOrigins, WhatIsNoGuessAndNoRuleNamesItsSource) {
  for (const ConstantOriginRow& row : constant_origins()) {
    EXPECT_TRUE(row.origin == ConstantOrigin::guess || !row.source.empty()) << row.name;
  }
}

// A number in a formula would be a constant of no origin. Allowed are those of arithmetic itself and of units.
TEST(ConstantOrigins, NoNumberStandsInAFormulaUnnamed) {
  const std::set<std::string> plain = {"0.0", "1.0", "0.5", "2.0", "4.0", "16.0", "32.0", "1e6", "1e-6", "1e9", "1e-9"};
  const std::regex declaration(R"(constexpr [^;]*;)"), number(R"((?:^|[^\w.])(\d+\.\d+(?:e-?\d+)?|\d+e-?\d+)\b)");
  for (const auto& [file, text] : sources()) {
    if (file == "analytical_constants.h" || file == "analytical_constants.cpp") continue;
    const std::string formulas = std::regex_replace(text, declaration, "");
    for (std::sregex_iterator at(formulas.begin(), formulas.end(), number), end; at != end; ++at)
      EXPECT_TRUE(plain.contains((*at)[1])) << "costmodel/" << file << ": " << (*at)[1] << " has no name";
  }
}

}  // namespace
}  // namespace stitch::costmodel
