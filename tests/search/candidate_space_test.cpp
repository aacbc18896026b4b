#include "search/trials/candidate_space.h"

#include <gmock/gmock.h>

#include <cmath>

namespace stitch::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::vector<std::vector<std::uint16_t>>;

CandidateSpace make(std::vector<Parameter> parameters, const Rows& rows) {
  auto space = CandidateSpace::from_parameters(std::move(parameters), rows);
  EXPECT_TRUE(space.ok()) << (space ? "" : space.error().message);
  return std::move(*space);
}

Rows all_of(std::uint16_t first, std::uint16_t second) {
  Rows rows;
  for (std::uint16_t a = 0; a < first; ++a) {
    for (std::uint16_t b = 0; b < second; ++b) rows.push_back({a, b});
  }
  return rows;
}

const Parameter width{"width", {1.0, 2.0, 4.0, 8.0}};
const Parameter layout{"layout", {std::string("row"), std::string("column"), std::string("tiled")}};

TEST(CandidateSpace, FindsRowsAndDescribesThem) {
  const CandidateSpace space = make({width, layout}, {{0, 2}, {3, 1}});
  EXPECT_EQ(space.size(), 2U);
  EXPECT_EQ(space.find(std::vector<std::uint16_t>{3, 1}), 1U);
  EXPECT_EQ(space.find(std::vector<std::uint16_t>{3, 2}), std::nullopt);
  EXPECT_EQ(space.describe(1), "width=8 layout=column");
}

TEST(CandidateSpace, NeighboursDifferInOneParameterAndTheNextValueComesFirst) {
  Rows rows = all_of(4, 3);
  std::erase(rows, std::vector<std::uint16_t>{2, 0});  // not part of the space
  const CandidateSpace space = make({width, layout}, rows);
  std::vector<std::string> found;
  for (const std::size_t i : space.neighbours(*space.find(std::vector<std::uint16_t>{1, 0}))) {
    found.push_back(space.describe(i));
  }
  EXPECT_THAT(found,
              ElementsAre("width=1 layout=row", "width=2 layout=column", "width=8 layout=row", "width=2 layout=tiled"));
}

TEST(CandidateSpace, SwitchesAreParametersOfTwoValuesAndWords) {
  const Parameter flag{"flag", {0.0, 1.0}};
  const CandidateSpace space =
      make({width, flag, layout}, {{0, 0, 0}, {0, 1, 0}, {0, 1, 2}, {1, 0, 0}, {1, 1, 1}, {0, 0, 1}});
  std::vector<std::string> found;
  for (const std::size_t i : space.switched(0)) found.push_back(space.describe(i));
  EXPECT_THAT(found,
              ElementsAre("width=1 flag=1 layout=row", "width=1 flag=1 layout=tiled", "width=1 flag=0 layout=column"));
  EXPECT_THAT(make({width}, {{0}, {1}, {2}}).switched(0), testing::IsEmpty());
  const auto vectors = CandidateSpace::from_vectors({{0, 1}, {1, 1}});
  ASSERT_TRUE(vectors.ok());
  EXPECT_THAT(vectors->switched(0), testing::IsEmpty());
}

TEST(CandidateSpace, FeaturesSayMagnitudeAlignmentAndIdentity) {
  const Parameter block{"block", {16.0, 32.0, 48.0, 64.0, 96.0}};
  const Parameter flag{"flag", {0.0, 1.0}};
  const Parameter fixed{"fixed", {7.0}};
  const CandidateSpace space =
      make({block, flag, fixed, layout}, {{0, 0, 0, 0}, {1, 1, 0, 1}, {2, 0, 0, 2}, {3, 1, 0, 0}, {4, 0, 0, 1}});
  const auto& list = space.features().list;
  ASSERT_EQ(list.size(), 5U);  // block: three, flag: one, layout: one, fixed: none
  EXPECT_THAT(list[0].values, ElementsAre(0, testing::FloatNear(0.387F, 1e-3F), testing::FloatNear(0.613F, 1e-3F),
                                          testing::FloatNear(0.774F, 1e-3F), 1));
  EXPECT_THAT(list[1].values, ElementsAre(0, 0.5F, 0, 1, 0.5F));  // two divides 16 four times, 32 five, 48 four, …
  EXPECT_TRUE(list[2].label && list[2].minor);
  EXPECT_THAT(list[3].values, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_TRUE(list[4].label && !list[4].minor);
}

TEST(CandidateSpace, LabelsAreEqualOrOneApart) {
  const CandidateSpace space = make({layout}, {{0}, {1}, {2}});
  EXPECT_EQ(squared_distance(space.features(), 0, 0), 0.0F);
  EXPECT_EQ(squared_distance(space.features(), 0, 1), 1.0F);
  EXPECT_EQ(squared_distance(space.features(), 0, 2), 1.0F);
}

TEST(CandidateSpace, BareVectorsHaveTheNearestAsNeighbours) {
  std::vector<std::vector<double>> vectors;
  for (int i = 0; i < 40; ++i) vectors.push_back({static_cast<double>(i), 3.0});
  const auto space = CandidateSpace::from_vectors(vectors);
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(space->features().list.size(), 1U);  // the constant one says nothing
  std::vector<std::size_t> expected;
  for (std::size_t i = 12; i <= 28; ++i) {
    if (i != 20) expected.push_back(i);
  }
  EXPECT_THAT(space->neighbours(20), testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(space->describe(7), "#7");
}

TEST(CandidateSpace, MatchesByNamesAndValuesWhateverTheirOrder) {
  const CandidateSpace own = make({width, layout}, all_of(4, 3));
  const Parameter reversed{"width", {16.0, 8.0, 2.0}};
  const Parameter constant{"precision", {32.0}};
  const CandidateSpace other = make({constant, layout, reversed}, {{0, 2, 1}, {0, 0, 2}, {0, 0, 0}});
  const auto matched = own.match(other);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string text = own.describe(i);
    std::optional<std::size_t> expected;
    if (text == "width=8 layout=tiled") expected = 0;
    if (text == "width=2 layout=row") expected = 1;
    EXPECT_EQ(matched[i], expected) << text;
  }
  const CandidateSpace foreign = make({width, Parameter{"depth", {1.0, 2.0}}}, all_of(4, 2));
  EXPECT_THAT(own.match(foreign), testing::Each(std::nullopt));
}

struct Refusal {
  const char* name;
  std::vector<Parameter> parameters;
  Rows rows;
  const char* message;
};

TEST(CandidateSpace, RefusesRowsThatMakeNoSense) {
  const std::vector<Refusal> refusals = {
      {"no parameters", {}, {}, "without parameters"},
      {"short row", {width, layout}, {{0, 0}, {1}}, "configuration 1 has 1 values for 2 parameters"},
      {"index", {width}, {{4}}, "parameter width has no value 4"},
      {"twice", {width}, {{2}, {1}, {2}}, "configuration 2 is there twice"},
  };
  for (const Refusal& refusal : refusals) {
    const auto space = CandidateSpace::from_parameters(refusal.parameters, refusal.rows);
    ASSERT_FALSE(space.ok()) << refusal.name;
    EXPECT_THAT(space.error().message, HasSubstr(refusal.message));
  }
  EXPECT_THAT(CandidateSpace::from_vectors({{1, 2}, {1}}).error().message, HasSubstr("candidate 1 has 1 features"));
  EXPECT_THAT(CandidateSpace::from_vectors({{1}, {std::nan("")}}).error().message, HasSubstr("not finite"));
}

}  // namespace
}  // namespace stitch::search
