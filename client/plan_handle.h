#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/program_document.h"
#include "client/client.h"
#include "client/executor.h"

namespace stitch::client {

/// The plan that a program uses for one fragment, in the fragment's own order of parameters and results.
///
///   STITCH_ASSIGN(const auto handle, PlanHandle::fetch(*client, *executor, fragment));
///   handle->watch();
///   while (training) STITCH_TRY(handle->launch(parameters, results, stream));
///
/// The first plan may be one that was only predicted. When the server has a better one (it tells by its promotions) it
/// is fetched and loaded aside and takes the old one's place between two runs (FusionStitching's asynchronous swap), so
/// that the program gets faster while it runs. Plans that were replaced stay loaded until the handle ends: CUDA graphs
/// of the program may have them. It must not end while a stream of the device is captured. What the first plan allows
/// to lie in one place (in_place) every later one allows as well: others do not take its place. The executor
/// (client/executor.h) decides where plans run: on a GPU or on the emulated device. Made by programs that link
/// libstitch, and by the C interface (client/stitch_c.cpp). Safe to use from several threads; runs follow one another.
class PlanHandle {
 public:
  /// Fetches and loads a plan. `client` and `executor` must outlive the handle. Errors: those of Client::fetch and
  /// Executor::load; constraint (it needs more workspace than the options allow); unavailable (the plan that they name
  /// was withdrawn).
  static Result<std::unique_ptr<PlanHandle>> fetch(Client& client, Executor& executor, graph::Graph fragment,
                                                   FetchOptions options = {});
  ~PlanHandle();

  /// As LoadedPlan::run and LoadedPlan::launch. Error besides theirs: unavailable when the plan was withdrawn (it was
  /// found to be wrong) and there is no other yet.
  Status run(Inputs parameters, Outputs results);
  Status launch(Addresses parameters, Addresses results, void* stream);

  /// The plan in use; parameters and results in the plan's order.
  [[nodiscard]] api::Plan plan() const;
  /// The plan in use as a program of one step, in the fragment's order, its code inside: it runs without server and
  /// compiler (client/open_program.h). Errors: unavailable (it was withdrawn); those of Client::artifact.
  Result<api::Program> program() const;
  /// Whether another environment of the server's (an earlier toolkit or generator) made it; the server's own plan takes
  /// its place when that is verified.
  [[nodiscard]] bool stale() const;
  /// Types in the fragment's order.
  [[nodiscard]] std::vector<graph::TensorType> parameters() const;
  [[nodiscard]] std::vector<graph::TensorType> results() const;
  /// Which results may lie where parameters do, in the fragment's order: of a fragment under the constraint `in_place`.
  [[nodiscard]] std::vector<api::InPlace> in_place() const { return in_place_; }
  /// How often another plan has taken the first one's place.
  [[nodiscard]] int swaps() const;

  /// From now on no better plan takes the place of the one in use; so of all handles of a client whose Activity is
  /// frozen. One that is found to be wrong is taken out of use all the same: then there is none.
  void freeze();

  /// Asks the server whether another plan is served by now and swaps it in; waits up to `wait_ms` for one. True: a
  /// swap took place. On an error the plan in use stays.
  Result<bool> check_for_update(std::int64_t wait_ms = 0);

  /// From now on a thread checks for updates until the handle ends. `told` is called after each swap and each error,
  /// from that thread.
  void watch(std::function<void(const Status&)> told = {});

 private:
  struct InUse {
    std::unique_ptr<LoadedPlan> loaded;
    std::vector<int> parameter_order, result_order;
    bool launched = false;
  };

  PlanHandle(Client& client, Executor& executor, graph::Graph fragment, FetchOptions options);
  Result<std::shared_ptr<InUse>> load(api::LookupAnswer answer);
  [[nodiscard]] Status check_workspace(const api::Plan& plan) const;
  [[nodiscard]] Status check_in_place(const api::LookupAnswer& answer) const;
  Result<bool> update(std::int64_t wait_ms);
  Result<bool> replace_withdrawn(const api::PromotionNotice& notice);
  /// Whether no other plan may take the place of the one in use.
  [[nodiscard]] bool keeps_plan() const { return options_.plan || frozen_ || client_.activity().is_frozen(); }
  /// Whether it is in use now.
  bool put_in_use(std::shared_ptr<InUse> next, std::string why_none = {});

  Client& client_;
  Executor& executor_;
  const graph::Graph fragment_;
  const FetchOptions options_;
  Hash128 key_;
  api::PlanTarget target_;
  std::vector<api::InPlace> in_place_;  ///< of the first plan
  std::atomic<bool> frozen_ = false;

  std::mutex update_mutex_;  ///< one update at a time; taken before run_mutex_
  std::int64_t seen_ = 0;    ///< promotions looked at; guarded by update_mutex_

  mutable std::mutex run_mutex_;  ///< guards what follows
  std::shared_ptr<InUse> in_use_;
  /// Were in use, or about to be. They may be in CUDA graphs of the caller's, and to end one has to wait for the
  /// device, which breaks captures that are under way.
  std::vector<std::shared_ptr<InUse>> replaced_;
  api::Plan latest_;  ///< the plan in use, or the last one that was
  std::string why_none_;
  int swaps_ = 0;

  std::jthread watcher_;  ///< last: it uses everything above
};

}  // namespace stitch::client
