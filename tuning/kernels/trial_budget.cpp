#include "tuning/kernels/trial_budget.h"

#include <algorithm>
#include <queue>

namespace stitch::tuning {

std::vector<std::int64_t> share_trials(std::span<const double> gains, std::int64_t trials, std::int64_t batch) {
  struct Claim {
    double average = 0;
    std::size_t place = 0;
    double batches = 0;
  };
  const auto later = [](const Claim& a, const Claim& b) {
    return a.average < b.average || (a.average == b.average && a.place > b.place);
  };
  std::priority_queue<Claim, std::vector<Claim>, decltype(later)> claims(later);
  for (std::size_t i = 0; i < gains.size(); ++i) {
    if (gains[i] > 0) claims.push({gains[i], i, 0});
  }
  std::vector<std::int64_t> shares(gains.size(), 0);
  while (trials > 0 && !claims.empty()) {
    Claim next = claims.top();
    claims.pop();
    const std::int64_t given = std::min(batch, trials);
    shares[next.place] += given;
    trials -= given;
    next.batches += 1;
    next.average = gains[next.place] / (next.batches + 1);
    claims.push(next);
  }
  return shares;
}

}  // namespace stitch::tuning
