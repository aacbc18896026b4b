#include "search/trials/trial_search.h"

#include <algorithm>
#include <cmath>

namespace stitch::search {
namespace {

constexpr std::size_t incumbents = 3;         ///< whose neighbours are local moves
constexpr std::size_t coverage_choices = 60;  ///< random candidates, of which the one farthest from all is taken
constexpr std::size_t least_to_settle = 30;   ///< trials before a model's bounds may end a search

/// log of E[max(0, target − x)] for x normal (Jones, Schonlau and Welch 1998, equation 15), in logarithms so that
/// hopeless candidates still have an order.
double log_expected_improvement(double mean, double deviation, double target) {
  const double z = (target - mean) / deviation;
  if (z < -6) return std::log(deviation) - 0.5 * z * z - 0.919 - 2 * std::log(-z);
  const double density = std::exp(-0.5 * z * z) * 0.3989422804014327;
  return std::log(deviation) + std::log(z * 0.5 * std::erfc(-z * 0.7071067811865476) + density);
}

double deviation_of(const Prediction& prediction, std::size_t candidate) {
  return std::sqrt(std::max(static_cast<double>(prediction.variance[candidate]), 1e-9));
}

}  // namespace

std::string_view to_string(ProposalReason reason) {
  switch (reason) {
    case ProposalReason::initial: return "initial";
    case ProposalReason::near: return "near";
    case ProposalReason::expected_improvement: return "expected improvement";
    case ProposalReason::local_move: return "local move";
    case ProposalReason::exploration: return "exploration";
    case ProposalReason::switched: return "switched";
    case ProposalReason::random: return "random";
  }
  return "";
}

TrialSearch::TrialSearch(const CandidateSpace& space, TrialSearchOptions options, const TransferPrior* prior)
    : space_(&space),
      options_(options),
      prior_(prior),
      random_(mix(options.seed, 0x747269616c73)),
      surrogate_(space, prior, options.surrogate),
      states_(space.size(), State::open),
      open_(space.size()),
      distance_(space.size(), std::numeric_limits<float>::max()) {
  if (prior_ == nullptr) return;
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (prior_->failed[i] == 0) near_.push_back(i);
  }
  const std::size_t most = std::min(near_.size(), options_.near);
  std::partial_sort(near_.begin(), near_.begin() + most, near_.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(prior_->log_time[a], a) < std::pair(prior_->log_time[b], b);
  });
  near_.resize(most);
}

Status TrialSearch::observe(std::size_t candidate, const TrialOutcome& outcome) {
  if (candidate >= states_.size()) {
    return make_error(ErrorKind::invalid_argument, "candidate {} of a space of {}", candidate, states_.size());
  }
  if (states_[candidate] == State::done) {
    return make_error(ErrorKind::invalid_argument, "candidate {} was observed before", candidate);
  }
  if (!outcome.failure && !(outcome.time_us > 0 && std::isfinite(outcome.time_us))) {
    return make_error(ErrorKind::invalid_argument, "candidate {}: a time of {} us", candidate, outcome.time_us);
  }
  if (states_[candidate] == State::open) --open_;
  states_[candidate] = State::done;
  ++trials_;
  ++idle_;
  if (outcome.failure) {
    ++failures_;
    surrogate_.observe_failure(candidate);
    return {};
  }
  surrogate_.observe(candidate, std::log(outcome.time_us));
  fastest_.emplace_back(outcome.time_us, candidate);
  std::ranges::sort(fastest_);
  if (fastest_.size() > incumbents) fastest_.pop_back();
  if (!best_ || outcome.time_us < best_->time_us) {
    best_ = {candidate, outcome.time_us};
    idle_ = 0;
  }
  return {};
}

Proposal TrialSearch::draw() {
  std::uint64_t skip = random_.below(open_);
  for (std::size_t i = 0;; ++i) {
    if (states_[i] == State::open && skip-- == 0) return {i, ProposalReason::random};
  }
}

/// Of some random candidates the one farthest from all that were taken.
Proposal TrialSearch::cover() {
  Proposal farthest{draw().candidate, ProposalReason::initial};
  if (proposed_ == 0) return farthest;
  for (std::size_t k = 1; k < coverage_choices; ++k) {
    const std::size_t candidate = random_.below(space_->size());
    if (states_[candidate] == State::open && distance_[candidate] > distance_[farthest.candidate]) {
      farthest.candidate = candidate;
    }
  }
  return farthest;
}

std::optional<Proposal> TrialSearch::recall() {
  while (!near_.empty()) {
    const std::size_t candidate = near_.front();
    near_.erase(near_.begin());
    if (states_[candidate] == State::open) return Proposal{candidate, ProposalReason::near};
  }
  return std::nullopt;
}

std::vector<std::size_t> TrialSearch::around_fastest() const {
  std::vector<std::size_t> around;
  for (const auto& [time, candidate] : fastest_) {
    for (const std::size_t neighbour : space_->neighbours(candidate)) {
      if (states_[neighbour] == State::open) around.push_back(neighbour);
    }
  }
  return around;
}

std::vector<char> TrialSearch::worth_a_trial(const Prediction& prediction) const {
  const double ran = static_cast<double>(trials_ - failures_) / trials_;
  const double least = (trusts_prior() ? options_.least_valid_near : options_.least_valid) * ran;
  std::vector<char> worth(states_.size());
  bool any = false;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] != State::open) continue;
    worth[i] = prediction.valid[i] >= least ? 1 : 0;
    any = any || worth[i] != 0;
  }
  if (any) return worth;
  for (std::size_t i = 0; i < states_.size(); ++i) worth[i] = states_[i] == State::open ? 1 : 0;
  return worth;
}

double TrialSearch::log_valid(const Prediction& prediction, std::size_t candidate) const {
  // With a neighbour, being led away from what is doubtful cost more than the failures it spared (docs/search.md).
  return trusts_prior() ? 0.0 : std::log(static_cast<double>(prediction.valid[candidate]));
}

double TrialSearch::optimistic_bound(const Prediction& prediction, std::size_t candidate) const {
  return options_.optimism * deviation_of(prediction, candidate) - prediction.mean[candidate] +
         2 * log_valid(prediction, candidate);
}

std::optional<Proposal> TrialSearch::switched(const Prediction& prediction, const std::vector<char>& worthwhile) {
  if (prior_ != nullptr || idle_ <= options_.patience_switched) return std::nullopt;
  if (random_.uniform() >= options_.explore) return std::nullopt;
  std::optional<Proposal> chosen;
  double most = -std::numeric_limits<double>::infinity();
  for (const std::size_t i : space_->switched(best_->candidate)) {
    const double bound = optimistic_bound(prediction, i);
    if (worthwhile[i] == 0 || !(bound > most)) continue;
    most = bound;
    chosen = Proposal{i, ProposalReason::switched};
  }
  return chosen;
}

Proposal TrialSearch::choose(const Prediction& prediction) {
  const std::vector<char> worthwhile = worth_a_trial(prediction);
  if (const auto other = switched(prediction, worthwhile)) return *other;
  const double lot = idle_ > options_.patience ? random_.uniform() : 1.0;
  const bool exploring = lot < options_.explore;
  // Not the best itself: after that many tiny gains would be expected, and variants of the best tried one by one, while
  // a better region goes unseen (docs/search.md).
  const double target = surrogate_.to_value(std::log(best_->time_us) + std::log1p(-options_.improvement));
  const auto worth = [&](std::size_t i) {
    if (exploring) return optimistic_bound(prediction, i);
    return log_expected_improvement(prediction.mean[i], deviation_of(prediction, i), target) + log_valid(prediction, i);
  };
  Proposal chosen{0, exploring ? ProposalReason::exploration : ProposalReason::expected_improvement};
  double most = -std::numeric_limits<double>::infinity();
  const auto consider = [&](std::size_t i) {
    if (worthwhile[i] == 0) return;
    const double value = worth(i);
    if (!(value > most)) return;
    most = value;
    chosen.candidate = i;
  };
  if (!exploring && lot < options_.explore + options_.local) {
    std::ranges::for_each(around_fastest(), consider);
    chosen.reason = ProposalReason::local_move;
  }
  if (most > -std::numeric_limits<double>::infinity()) return chosen;
  if (chosen.reason == ProposalReason::local_move) chosen.reason = ProposalReason::expected_improvement;
  for (std::size_t i = 0; i < states_.size(); ++i) consider(i);
  return most > -std::numeric_limits<double>::infinity() ? chosen : draw();
}

void TrialSearch::judge(const Prediction& prediction) {
  settled_ = false;
  if (!best_ || trials_ < least_to_settle) return;
  const std::vector<char> worthwhile = worth_a_trial(prediction);
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (worthwhile[i] == 0) continue;
    lowest = std::min(lowest, prediction.mean[i] - options_.certainty * deviation_of(prediction, i));
  }
  settled_ = surrogate_.to_log_time(lowest) > std::log(best_->time_us * (1 - options_.least_gain));
}

std::size_t TrialSearch::first_trials() const {
  if (prior_ == nullptr) return options_.initial;
  return options_.near + (prior_->doubtful ? options_.initial : options_.initial_near);
}

void TrialSearch::take(const Proposal& proposal, std::vector<Proposal>& batch) {
  states_[proposal.candidate] = State::pending;
  --open_;
  if (++proposed_ <= first_trials() || !surrogate_.ready()) {
    for (std::size_t i = 0; i < distance_.size(); ++i) {
      distance_[i] = std::min(distance_[i], squared_distance(space_->features(), i, proposal.candidate));
    }
  }
  batch.push_back(proposal);
}

std::vector<Proposal> TrialSearch::propose(std::size_t most) {
  const std::size_t size = std::min(options_.batch, most);
  std::vector<Proposal> batch;
  std::optional<Prediction> prediction;
  while (batch.size() < size && open_ > 0) {
    if (options_.random) {
      take(draw(), batch);
    } else if (const auto near = recall()) {
      take(*near, batch);
    } else if (proposed_ < first_trials() || !surrogate_.ready()) {
      take(cover(), batch);
    } else {
      if (!prediction) {
        prediction = surrogate_.update();
        for (std::size_t i = 0; i < states_.size(); ++i) {
          if (states_[i] == State::pending) surrogate_.assume(i);
        }
        judge(*prediction);
      }
      take(choose(*prediction), batch);
      if (batch.size() < size) surrogate_.assume(batch.back().candidate);
    }
  }
  return batch;
}

}  // namespace stitch::search
