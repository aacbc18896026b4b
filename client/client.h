#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/program_document.h"
#include "api/program_lock.h"
#include "api/protocol.h"
#include "base/clock.h"
#include "base/device_traits.h"
#include "base/file.h"
#include "base/result.h"
#include "base/trace.h"
#include "client/activity.h"
#include "client/artifact_folder.h"
#include "client/http/calls_under_way.h"
#include "client/http/connection.h"
#include "graph/graph.h"

namespace stitch::client {

struct ClientOptions {
  std::string server = "unix://" + api::default_socket_path().string();
  std::filesystem::path cache = ArtifactFolder::default_path();  ///< of artifacts; empty: none
  std::int64_t cache_bytes = std::int64_t{1} << 30;
  /// Over TCP: the file with the server's secret; empty: $STITCH_TOKEN_FILE, or where a stitchd of this user writes it
  /// (api::default_token_path).
  std::filesystem::path token_file = {};
  /// Take machine code over plain HTTP from another machine; also by STITCH_ALLOW_REMOTE=1.
  bool allow_remote = false;
  double timeout_seconds = 30;  ///< for an answer, on top of whatever a call waits for by itself
  /// Where this client counts what it does, and is frozen, together with others; empty: by itself.
  std::shared_ptr<Activity> activity = {};
  /// Whose calls another thread may end; empty: nobody does.
  std::shared_ptr<CallsUnderWay> calls = {};
};

struct FetchOptions {
  std::int64_t deadline_ms = 10'000;  ///< how long to wait for a plan
  bool improve = true;                ///< let the server tune the fragment in the background when it must predict
  /// False: plans that are stored, or not_found at once; nothing is predicted or tuned for a miss, which the server
  /// counts. STITCH_MODE=replay asks for that in all of a process, Activity::freeze from then on; with STITCH_MODE=off
  /// nothing is looked up (unavailable).
  bool predict = true;
  /// Of make_program where nothing is predicted: a program with a fragment without a plan is not_found. False: it comes
  /// as it is.
  bool complete = true;
  std::string name = {};                ///< for people: where the fragment comes from
  graph::Constraints constraints = {};  ///< of the plan, besides those of the fragment itself
  /// What the driver reports of the GPU that the plan is to run on; without it the plan is for the server's own target.
  std::optional<DeviceTraits> device = {};
  /// Who multiplies matrices in a program that is made: "library", "ours" (kernels of ours wherever there are),
  /// "faster" (where these are predicted to be), "stream" (the same, and where a stream of a GPU has no library's
  /// call); empty: as the server has it.
  std::string products = {};
  /// Plans that need more memory beside their parameters and results are not taken; a better one neither.
  std::optional<std::int64_t> max_workspace_bytes = {};
  /// This plan, also where the server has a better one by now, and no other later.
  std::optional<Hash128> plan = {};
  /// Of a program that is made and that is among these, the plans that are locked and no others.
  std::vector<api::LockedProgram> lock = {};
};

struct FetchedProgram {
  std::optional<api::Program> program;  ///< nothing: it is what the tag stands for
  std::string tag;                      ///< of the answer; another one when a plan, or the program, is another
};

/// A stitchd and what was fetched from it: looks plans up, fetches machine code, hands work in and follows it.
///
///   STITCH_ASSIGN(const auto client, Client::open({.server = "unix:///run/user/1000/stitch/stitchd.sock"}));
///   STITCH_ASSIGN(const api::LookupAnswer answer, client->fetch(fragment, {.name = "bert, layer norm"}));
///   STITCH_ASSIGN(const std::string cubin, client->artifact(answer.plan->launches[0].cubin));
///
/// A program that wants to run plans rather than read them makes a PlanHandle (client/plan_handle.h) of the client and
/// an Executor; the C interface (client/stitch.h) and `stitch tune --server` stand on this class as well. What travels
/// is in api/protocol.h, the paths in docs/api.md. Safe to use from any number of threads: each call takes a connection
/// of its own. Errors of every call, besides those that the server answers with: unavailable (no server, a broken
/// connection), timeout, parse (an answer that is none).
class Client {
 public:
  /// Connects and checks that the server speaks this protocol. Errors: invalid_argument (address), unavailable,
  /// version_mismatch.
  static Result<std::unique_ptr<Client>> open(const ClientOptions& options);

  [[nodiscard]] const api::ServerVersion& server() const { return server_; }
  [[nodiscard]] Activity& activity() const { return *activity_; }

  /// A plan for the fragment, from the server's store or predicted. Parameter i of the plan is parameter
  /// parameter_order[i] of `fragment`, likewise results. Errors: timeout when there is none at the deadline; not_found
  /// (FetchOptions::plan is not a plan of this fragment for this target that the server has).
  Result<api::LookupAnswer> fetch(const graph::Graph& fragment, const FetchOptions& options = {});
  /// A look-up as the options want it, and as this client may ask now.
  [[nodiscard]] api::LookupRequest request_for(const graph::Graph& fragment, const FetchOptions& options) const;
  /// One look-up; its answer may be `pending`. A device of the server's own class is not sent: plans are for it anyway,
  /// also those of servers that know nothing of the field.
  Result<api::LookupAnswer> look_up(const api::LookupRequest& request);
  Result<api::Plan> plan(const Hash128& id);
  /// The graph that the server has under a fragment's key. Errors: not_found.
  Result<graph::Graph> fragment(const Hash128& key);

  /// The program of a model that was tuned on the server, with the plans that are served of its fragments at this
  /// moment, in one request. `model`: its key, which is the SHA-256 of the model's bytes (under constraints what
  /// Submitted::subject says). `inside`: with all code a ProgramRunner (client/program.h) needs nothing more
  /// whatever it runs on, with none it takes it from `artifact`. Asked again when Client::promotions tells of a
  /// fragment of it, it has the better plan, under the same id. Errors: not_found; those of api::decode_program.
  Result<api::Program> program(const Sha256& model, api::CodeInside inside = api::CodeInside::all);
  /// The same where it differs from what an earlier fetch brought under this tag (FetchedProgram::tag; empty: none);
  /// otherwise a few hundred bytes tell that it does not. For whoever asks again and again.
  Result<FetchedProgram> program_unless(const Sha256& model, std::string_view tag,
                                        api::CodeInside inside = api::CodeInside::all);

  /// The program of a model or graph that need not have been tuned (what import::import_bytes reads; the ending of
  /// `name` tells the format where the contents do not), its code inside. Fragments that the server has no plan for are
  /// looked up, all at once, as by `fetch`; one that cannot be planned says why and has none. Errors: those that the
  /// importer has for the model; timeout when there is no plan at the deadline; not_found where nothing may be
  /// predicted and a fragment has no plan (FetchOptions::complete); constraint (a plan of FetchOptions::lock that the
  /// server does not have, with the lock's line); those of `artifact`.
  Result<api::Program> make_program(std::string model, const FetchOptions& options = {});

  /// Bytes by content, from the local folder or the server; checked against the hash. Error: corrupt when the server's
  /// do not match.
  Result<std::string> artifact(const Sha256& hash);

  /// `trials`: so many more candidates of the fragment's kernels are measured; only where the server can. Without: as
  /// many as the server's own option says. Error of both: constraint where nothing may be tuned (STITCH_MODE=replay,
  /// Activity::freeze).
  Result<api::Submitted> submit_fragment(const graph::Graph& fragment, std::string_view name,
                                         std::optional<std::int64_t> trials = {});
  /// `trials`: so many more candidates of all the model's kernels together are measured; only where the server can.
  /// `constraints`: on all that the model computes.
  Result<api::Submitted> submit_model(std::string bytes, std::string_view name, std::int64_t trials = 0,
                                      const graph::Constraints& constraints = {});
  Result<api::JobStatus> job(std::int64_t id);
  Result<api::JobStatus> cancel(std::int64_t id);
  /// Calls `sink` with the job's events after number `after` until the job has ended or the sink returns false. A
  /// connection that breaks is made anew where it broke, for as long as that succeeds within the timeout.
  Status follow(std::int64_t job, std::int64_t after, const std::function<bool(const api::JobEvent&)>& sink);

  /// The server's counters and gauges, as Prometheus has them (docs/api.md).
  Result<std::string> metrics();

  /// What changed in what is served after `after`; waits up to `wait_ms` (at most 60,000) for the first change.
  Result<api::PromotionFeed> promotions(std::int64_t after, std::int64_t wait_ms);

 private:
  Client(const ClientOptions& options, ServerAddress address);

  // What the functions of like names do, without their phase in the trace.
  static Result<std::unique_ptr<Client>> connected(const ClientOptions& options);
  Result<api::LookupAnswer> fetched(const graph::Graph& fragment, const FetchOptions& options,
                                    const api::LookupAnswer* begun);
  Result<api::LookupAnswer> fetch_begun(const graph::Graph& fragment, const FetchOptions& options,
                                        const api::LookupAnswer* begun);
  Result<FetchedProgram> requested_program(const Sha256& model, std::string_view tag, api::CodeInside inside);
  Result<api::Program> made_program(std::string model, const FetchOptions& options);
  Result<std::string> fetched_artifact(const Sha256& hash, trace::Phase& phase);

  /// Whether the server's own target is this GPU's class.
  [[nodiscard]] bool plans_for(const DeviceTraits& device) const;
  /// Whether a miss is to be predicted, and work may be handed in.
  [[nodiscard]] bool predicts(const FetchOptions& options) const;
  [[nodiscard]] Status may_be_tuned() const;
  Status look_up_plans(api::Program& program, const FetchOptions& options);
  /// Gives every fragment that is locked the plan that is.
  Status take_locked(const api::LockedProgram& locked, api::Program& program);
  /// The plan of this id in place of the answer's.
  Status take(const Hash128& id, api::LookupAnswer& answer);
  Result<std::unique_ptr<Connection>> connection();
  Result<HttpAnswer> send(HttpCall call);
  Result<HttpAnswer> send_once(const HttpCall& call);
  /// Error: cancelled, where calls were ended (ClientOptions::calls).
  [[nodiscard]] Status check_not_ended() const;
  /// The server's secret as it is known; `anew`: as it is in its file now. Empty when there is none.
  std::string secret(bool anew);
  template <class Message>
  Result<Message> ask(HttpCall call);

  const ClientOptions options_;
  const std::shared_ptr<Activity> activity_;
  const ServerAddress address_;
  SystemClock clock_;
  RealFileSystem files_;
  ArtifactFolder artifacts_;
  api::ServerVersion server_;
  std::optional<std::string> secret_;              ///< what was read of its file; guarded by mutex_
  std::mutex mutex_;                               ///< guards idle_
  std::vector<std::unique_ptr<Connection>> idle_;  ///< connections that wait for the next call
};

}  // namespace stitch::client
