#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/device_spec.h"
#include "costmodel/analytical.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "search/partition/fusion_explorer.h"
#include "search/schedule/kernel_cache.h"
#include "tests/fuzz/fuzz_target.h"

// A fragment that a client sends is planned, or refused with a reason: whatever its graph is, planning ends, and ends
// nothing else.
namespace stitch::fuzz {
namespace {

/// So small that it is planned in milliseconds: what is looked for is in odd shapes, not in many operators.
graph::DecodeLimits limits() {
  graph::DecodeLimits limits;
  limits.nodes = 64;
  limits.constant_bytes = 1 << 14;
  return limits;
}

/// Stops exploring after a while; what takes long is no fault (bench/reliability/stopping).
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds most)
      : thread_([this, most](const std::stop_token& done) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          ended_.wait_for(lock, done, most, [] { return false; });
          source_.request_stop();
        }) {}
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

}  // namespace

void fuzz_one(std::string_view bytes) {
  const Result<graph::Graph> decoded = graph::decode(bytes, graph::Encoding::json, limits());
  if (!decoded) return;  // fragment_json looks at those
  const Result<graph::CanonicalForm> form = graph::canonicalise(*decoded);
  if (!form) return;
  static const costmodel::AnalyticalScorer scorer(*find_device("h100"));
  search::KernelCache cache(scorer, {});
  const Patience patience(std::chrono::milliseconds(2000));
  search::FusionOptions options;
  options.stop = patience.token();
  const Result<search::FusionPlan> plan = search::explore_fusion(form->graph, cache, options);
  if (plan) {
    promise(plan->predicted_us >= 0, "a plan has a time");
    return;
  }
  promise(!plan.error().message.empty(), "a refusal says why");
  promise(plan.error().kind != ErrorKind::internal, "a refusal is the fragment's fault");
}

}  // namespace stitch::fuzz
