#include "tuning/kernels/equal_candidates.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace stitch::tuning {
namespace {

struct Choice {
  std::string_view why;
  std::vector<Contender> contenders;
  std::size_t taken;
};

TEST(EqualCandidates, TheSimplestOfThoseThatAreEqualIsTaken) {
  const Contender best{10, 2, true, 3, 4, 100};
  for (const Choice& choice : std::vector<Choice>{
           {"alone", {best}, 0},
           {"no blocks that wait", {best, {11.9, 2, false, 3, 4, 100}}, 1},
           {"fewer phases", {best, {11, 2, true, 2, 8, 100}}, 1},
           {"a smaller cluster", {best, {11, 2, true, 3, 2, 100}}, 1},
           {"waiting counts before phases", {best, {11, 2, true, 2, 1, 100}, {11.5, 2, false, 5, 8, 100}}, 2},
           {"further than the best may be off", {best, {12.1, 9, false, 1, 1, 100}}, 0},
           {"by the best's uncertainty, not by the one before",
            {best, {11.9, 2, true, 3, 4, 100}, {13, 2, false, 1, 1, 90}},
            0},
           {"more bytes are no equal", {best, {10.1, 2, false, 1, 1, 101}}, 0},
           {"fewer are", {best, {10.1, 2, false, 1, 1, 99}}, 1},
           {"equally simple: the faster", {best, {11, 2, false, 1, 1, 100}, {11.5, 2, false, 1, 1, 100}}, 1},
           {"equally simple, a hundredth slower, fewer bytes",
            {best, {11, 2, false, 1, 1, 100}, {11.1, 2, false, 1, 1, 80}},
            2},
           {"equally simple, further apart", {best, {11, 2, false, 1, 1, 100}, {11.2, 2, false, 1, 1, 50}}, 1}}) {
    EXPECT_EQ(simplest_of_equals(choice.contenders), choice.taken) << choice.why;
  }
}

}  // namespace
}  // namespace stitch::tuning
