#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace stitch::search {

/// What is nearer to the best prediction than this share of it is called equal to it: no model tells such apart, but
/// the bytes that they move are counted.
inline constexpr double equal_within = 0.01;

/// Of what was entered and is equal to the best prediction, that with the least product of prediction and bytes: a
/// kernel that reads from L2 what another keeps is not faster by a hundredth that anybody could rely on, and slower
/// wherever L2 is not its own. What is taken does not depend on the order in which it is entered, but of two that are
/// alike in both it is the first.
template <class T>
class EqualsOfBest {
 public:
  /// Whether something with that prediction could be taken by now; if not it need not be entered.
  [[nodiscard]] bool admits(double us) const { return front_.empty() || us <= most_us(); }

  /// `bytes`: of device memory, as scheduled.
  void enter(double us, std::int64_t bytes, T what) {
    if (!admits(us)) return;
    const auto behind = front_.upper_bound(us);
    if (behind != front_.begin() && std::prev(behind)->second.first <= bytes) return;
    const auto fewer =
        std::find_if(behind, front_.end(), [&](const auto& other) { return other.second.first < bytes; });
    front_.erase(behind, fewer);
    front_.insert_or_assign(us, std::pair(bytes, std::move(what)));
    front_.erase(front_.upper_bound(most_us()), front_.end());
  }

  [[nodiscard]] bool empty() const { return front_.empty(); }
  /// What is taken, of at least one that was entered.
  [[nodiscard]] const T& taken() const {
    const auto product = [](const auto& entry) { return entry.first * static_cast<double>(entry.second.first); };
    return std::ranges::min_element(front_, {}, product)->second.second;
  }

 private:
  [[nodiscard]] double most_us() const { return front_.begin()->first * (1 + equal_within); }

  std::map<double, std::pair<std::int64_t, T>> front_;  ///< by prediction; each moves fewer bytes than those before it
};

}  // namespace stitch::search
