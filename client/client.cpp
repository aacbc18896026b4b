#include "client/client.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/device_class.h"
#include "client/http/event_parser.h"
#include "client/http/request_target.h"
#include "client/trace/plan_trace.h"
#include "graph/codec/codec.h"

namespace stitch::client {
namespace {

using graph::Encoding;

constexpr std::string_view cbor = "application/cbor";
constexpr std::size_t most_idle = 8;

Encoding encoding_of(const HttpAnswer& answer) {
  return answer.content_type.starts_with(cbor) ? Encoding::cbor : Encoding::json;
}

/// What STITCH_MODE says: "tune" where it says nothing.
std::string_view asked_mode() {
  const char* mode = std::getenv("STITCH_MODE");
  return mode != nullptr && *mode != '\0' ? mode : "tune";
}

/// A process in which a word is misspelt must not tune, of all things.
Status check_mode() {
  const std::string_view mode = asked_mode();
  if (mode == "off") return make_error(ErrorKind::unavailable, "STITCH_MODE is off: no server is asked");
  if (mode == "tune" || mode == "replay") return {};
  return make_error(ErrorKind::invalid_argument, "STITCH_MODE is '{}': neither tune nor replay nor off", mode);
}

/// Where the secret of a server over TCP stands.
std::filesystem::path token_file(const ClientOptions& options, const ServerAddress& address) {
  if (!options.token_file.empty()) return options.token_file;
  const char* named = std::getenv("STITCH_TOKEN_FILE");
  return named != nullptr && *named != '\0' ? std::filesystem::path(named) : api::default_token_path(address.port);
}

/// Whether the process has what is stored and nothing else.
bool is_replaying() { return asked_mode() == "replay"; }

std::int64_t planned_in(const api::Program& program) {
  return std::ranges::count_if(program.fragments, [](const auto& fragment) { return fragment.plan.has_value(); });
}

/// Error: not_found.
Status check_complete(const api::Program& program) {
  const auto missing = std::ranges::find_if(program.fragments, [](const auto& fragment) { return !fragment.plan; });
  if (missing == program.fragments.end()) return {};
  return make_error(ErrorKind::not_found, "{} of the {} fragments of {} have no plan: {}",
                    std::ssize(program.fragments) - planned_in(program), program.fragments.size(), program.model,
                    missing->why_none);
}

}  // namespace

Client::Client(const ClientOptions& options, ServerAddress address)
    : options_(options),
      activity_(options.activity ? options.activity : std::make_shared<Activity>()),
      address_(std::move(address)),
      artifacts_(files_, clock_, options.cache, options.cache_bytes) {}

Result<std::unique_ptr<Client>> Client::open(const ClientOptions& options) {
  trace::Phase phase("connect", {{"address", options.server}});
  return trace::noted(phase, connected(options));
}

Result<std::unique_ptr<Client>> Client::connected(const ClientOptions& options) {
  STITCH_TRY(check_mode());
  STITCH_ASSIGN(ServerAddress address, parse_address(options.server));
  const char* allowed = std::getenv("STITCH_ALLOW_REMOTE");
  address.trusted = options.allow_remote || (allowed != nullptr && std::string_view(allowed) == "1");
  std::unique_ptr<Client> client(new Client(options, std::move(address)));
  STITCH_ASSIGN(client->server_, client->ask<api::ServerVersion>({.target = "/v1/version"}));
  if (client->server_.protocol != api::protocol_version) {
    return make_error(ErrorKind::version_mismatch, "{}: the server speaks protocol {}, this library {}", options.server,
                      client->server_.protocol, api::protocol_version);
  }
  trace::event("server", {{"address", options.server},
                          {"version", client->server_.version},
                          {"device", client->server_.target.device},
                          {"toolkit", client->server_.target.toolkit}});
  return client;
}

Result<std::unique_ptr<Connection>> Client::connection() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
  }
  return Connection::open(address_, options_.timeout_seconds, options_.calls);
}

std::string Client::secret(bool anew) {
  if (!address_.socket.empty()) return {};
  constexpr std::int64_t most_bytes = 4096;
  const std::lock_guard lock(mutex_);
  if (!secret_ || anew) {
    const Result<std::string> text = files_.read_own(token_file(options_, address_), most_bytes);
    secret_ = text ? text->substr(0, text->find_first_of("\r\n")) : std::string();
  }
  return *secret_;
}

/// A server that was started again has a new secret, which its file has, too.
Result<HttpAnswer> Client::send(HttpCall call) {
  call.secret = secret(false);
  Result<HttpAnswer> answer = send_once(call);
  if (!answer || answer->status != 401) return answer;
  std::string now = secret(true);
  if (now == call.secret) return answer;
  call.secret = std::move(now);
  return send_once(call);
}

Status Client::check_not_ended() const {
  if (options_.calls == nullptr || !options_.calls->ended()) return {};
  return make_error(ErrorKind::cancelled, "calls to servers were ended");
}

Result<HttpAnswer> Client::send_once(const HttpCall& call) {
  while (true) {
    STITCH_TRY(check_not_ended());
    STITCH_ASSIGN(std::unique_ptr<Connection> via, connection());
    const bool fresh = via->fresh();
    Result<HttpAnswer> answer = via->call(call);
    // The server closes connections that were idle for long, at the very moment that we use one if chance wants it.
    // Every call of the API may be repeated.
    if (!answer && answer.error().kind == ErrorKind::unavailable && !fresh) continue;
    if (!answer) return answer;
    if (via->reusable()) {
      const std::lock_guard lock(mutex_);
      if (idle_.size() < most_idle) idle_.push_back(std::move(via));
    }
    return answer;
  }
}

template <class Message>
Result<Message> Client::ask(HttpCall call) {
  call.accept = cbor;
  if (call.timeout_seconds < options_.timeout_seconds) call.timeout_seconds = options_.timeout_seconds;
  STITCH_ASSIGN(const HttpAnswer answer, send(call));
  if (answer.status >= 300) return api::decode_error(answer.body, encoding_of(answer));
  return api::decode_message<Message>(answer.body, encoding_of(answer));
}

// ---- plans

bool Client::plans_for(const DeviceTraits& device) const {
  const auto own = classify(device);
  return own && own->spec.name == server_.target.device && own->spec.architecture() == server_.target.architecture;
}

Result<api::LookupAnswer> Client::look_up(const api::LookupRequest& request) {
  HttpCall call{.method = "POST", .target = "/v1/lookup", .content_type = std::string(cbor)};
  nlohmann::json document = api::to_document(request, Encoding::cbor);
  if (request.device && plans_for(*request.device)) document.erase("device");
  call.body = api::encode_document(document, Encoding::cbor);
  call.timeout_seconds = options_.timeout_seconds + request.deadline_ms * 1e-3;
  return ask<api::LookupAnswer>(std::move(call));
}

bool Client::predicts(const FetchOptions& options) const {
  return options.predict && !is_replaying() && !activity_->is_frozen();
}

Status Client::may_be_tuned() const {
  if (predicts({})) return {};
  return make_error(ErrorKind::constraint, "nothing is tuned for a program that {}",
                    is_replaying() ? "replays what is stored (STITCH_MODE)" : "is frozen");
}

api::LookupRequest Client::request_for(const graph::Graph& fragment, const FetchOptions& options) const {
  api::LookupRequest request{fragment, options.name, options.deadline_ms, options.improve, options.device, {}};
  request.fragment.constraints = fragment.constraints | options.constraints;
  if (!predicts(options)) request.predict = false;
  if (!predicts(options) || options.plan) request.improve = false;
  return request;
}

Result<api::LookupAnswer> Client::fetch(const graph::Graph& fragment, const FetchOptions& options) {
  return fetch_begun(fragment, options, nullptr);
}

/// `begun`: what an earlier look-up answered that began what this one waits for; null where there was none.
Result<api::LookupAnswer> Client::fetch_begun(const graph::Graph& fragment, const FetchOptions& options,
                                              const api::LookupAnswer* begun) {
  const std::string name = name_in_trace(fragment, options.name);
  trace::Phase phase("fetch", {{"name", name}});
  Result<api::LookupAnswer> answer = fetched(fragment, options, begun);
  note_answer(phase, answer, name);
  return answer;
}

Result<api::LookupAnswer> Client::fetched(const graph::Graph& fragment, const FetchOptions& options,
                                          const api::LookupAnswer* begun) {
  using namespace std::chrono;
  STITCH_TRY(check_mode());
  const auto until = steady_clock::now() + milliseconds(options.deadline_ms);
  api::LookupRequest request = request_for(fragment, options);
  std::optional<api::LookupAnswer> missed;  // the first answer was: what is stored by the next was made for this call
  if (begun != nullptr && begun->source != api::LookupAnswer::Source::store) missed = *begun;
  while (true) {
    STITCH_ASSIGN(api::LookupAnswer answer, look_up(request));
    if (missed && answer.plan && answer.source == api::LookupAnswer::Source::store) {
      answer.source = api::LookupAnswer::Source::predicted;
      answer.closest_plan = missed->closest_plan;
      answer.differed = missed->differed;
    }
    if (!missed && !answer.plan) missed = answer;
    if (answer.plan) {
      if (answer.plan->parameters.size() != fragment.parameters().size() ||
          answer.plan->results.size() != fragment.results().size()) {
        return make_error(ErrorKind::corrupt, "plan {} is not one for this fragment", answer.plan->id.hex());
      }
      if (options.plan && answer.plan->id != *options.plan) STITCH_TRY(take(*options.plan, answer));
      const bool predicted = answer.source == api::LookupAnswer::Source::predicted;
      activity_->add(predicted ? Event::plan_predicted : Event::plan_stored);
      return answer;
    }
    if (!request.predict.value_or(true)) {
      activity_->add(Event::miss);
      return make_error(ErrorKind::not_found, "no plan for fragment {} is stored{}{}", answer.fragment.hex(),
                        answer.closest_plan ? "; the nearest differs in " : "",
                        answer.closest_plan ? fmt::to_string(fmt::join(answer.differed, ", ")) : "");
    }
    const auto left = duration_cast<milliseconds>(until - steady_clock::now()).count();
    if (left <= 0) {
      activity_->add(Event::deadline_passed);
      return make_error(ErrorKind::timeout, "no plan for fragment {} within {} ms{}", answer.fragment.hex(),
                        options.deadline_ms, answer.job ? fmt::format("; job {} makes one", *answer.job) : "");
    }
    // The server was too busy to predict: it answered before the deadline.
    std::this_thread::sleep_for(milliseconds(std::min<std::int64_t>(left, 100)));
    request = request_for(fragment, options);  // the client may be frozen by now
    request.deadline_ms = left;
  }
}

Status Client::take(const Hash128& id, api::LookupAnswer& answer) {
  STITCH_ASSIGN(api::Plan wanted, plan(id));
  if (wanted.fragment != answer.plan->fragment || wanted.target.device != answer.plan->target.device) {
    return make_error(ErrorKind::not_found, "plan {} is of fragment {} on {}, not of {} on {}", id.hex(),
                      wanted.fragment.hex(), wanted.target.device, answer.plan->fragment.hex(),
                      answer.plan->target.device);
  }
  answer.plan = std::move(wanted);
  return {};
}

Result<api::Plan> Client::plan(const Hash128& id) {
  return ask<api::Plan>({.target = fmt::format("/v1/plans/{}", id.hex())});
}

Result<graph::Graph> Client::fragment(const Hash128& key) {
  HttpCall call{.target = fmt::format("/v1/fragments/{}", key.hex()), .accept = "application/json"};
  call.timeout_seconds = options_.timeout_seconds;
  STITCH_ASSIGN(const HttpAnswer answer, send(std::move(call)));
  if (answer.status != 200) return api::decode_error(answer.body, encoding_of(answer));
  const nlohmann::json document = nlohmann::json::parse(answer.body, nullptr, false);
  if (!document.is_object() || !document.contains("graph"))
    return make_error(ErrorKind::parse, "fragment {}: the server's answer has no graph", key.hex());
  return graph::from_document(document["graph"]);
}

Result<api::Program> Client::program(const Sha256& model, api::CodeInside inside) {
  STITCH_ASSIGN(FetchedProgram fetched, program_unless(model, {}, inside));
  if (!fetched.program)
    return make_error(ErrorKind::corrupt, "program of {}: not modified, and never sent", model.hex());
  return *std::move(fetched.program);
}

Result<FetchedProgram> Client::program_unless(const Sha256& model, std::string_view tag, api::CodeInside inside) {
  trace::Phase phase("fetch program", {{"model", model.hex()}});
  Result<FetchedProgram> fetched = trace::noted(phase, requested_program(model, tag, inside));
  if (fetched) phase.add({"modified", fetched->program.has_value()});
  if (!fetched || !fetched->program) return fetched;
  trace_plans(*fetched->program, "store");
  trace_missing(*fetched->program);
  return fetched;
}

Result<FetchedProgram> Client::requested_program(const Sha256& model, std::string_view tag, api::CodeInside inside) {
  HttpCall call{.target = fmt::format("/v1/programs/{}{}", model.hex(), code_query(inside)),
                .accept = std::string(cbor),
                .if_none_match = std::string(tag)};
  call.timeout_seconds = options_.timeout_seconds;
  STITCH_ASSIGN(const HttpAnswer answer, send(call));
  if (answer.status == 304) return FetchedProgram{std::nullopt, std::string(tag)};
  if (answer.status == 404 && !predicts({})) activity_->add(Event::miss);
  if (answer.status != 200) return api::decode_error(answer.body, encoding_of(answer));
  STITCH_ASSIGN(api::Program program, api::decode_program(answer.body, encoding_of(answer)));
  activity_->add(Event::program);
  activity_->add(Event::plan_stored, planned_in(program));
  return FetchedProgram{std::move(program), answer.etag};
}

Status Client::take_locked(const api::LockedProgram& locked, api::Program& program) {
  for (api::ProgramFragment& fragment : program.fragments) {
    const api::LockedFragment* const of = api::fragment_in(locked, fragment.key);
    if (of == nullptr) continue;
    if (!of->plan) {
      fragment.plan.reset();
      fragment.why_none = "the lock has no plan for it";
      continue;
    }
    if (fragment.plan && fragment.plan->id == *of->plan) continue;
    Result<api::Plan> found = plan(*of->plan);
    if (found && found->fragment != fragment.key)
      found = make_error(ErrorKind::not_found, "it is one of fragment {}", found->fragment.hex());
    if (!found && found.error().kind != ErrorKind::not_found) return found.error();
    if (!found) {
      return make_error(ErrorKind::constraint, "line {} of the lock: plan {} of fragment {}: {}", of->line,
                        of->plan->hex(), fragment.key.hex(), found.error().message);
    }
    fragment.plan = *std::move(found);
    fragment.why_none.clear();
  }
  return {};
}

Status Client::look_up_plans(api::Program& program, const FetchOptions& options) {
  using namespace std::chrono;
  const auto until = steady_clock::now() + milliseconds(options.deadline_ms);
  const api::LockedProgram* const locked = api::locked_in(options.lock, program);
  std::vector<api::ProgramFragment*> missing;
  for (api::ProgramFragment& fragment : program.fragments) {
    const bool is_locked = locked != nullptr && api::fragment_in(*locked, fragment.key) != nullptr;
    if (!fragment.plan && !is_locked) missing.push_back(&fragment);
  }
  // Begun, all of them, before any is waited for: the server predicts several at a time. What goes wrong shows below.
  FetchOptions at_once = options;
  at_once.deadline_ms = 0;
  std::map<const api::ProgramFragment*, api::LookupAnswer> begun;
  for (const api::ProgramFragment* fragment : missing) {
    if (!predicts(options)) break;
    if (auto answer = look_up(request_for(fragment->graph, at_once))) begun.emplace(fragment, *std::move(answer));
  }
  for (api::ProgramFragment* fragment : missing) {
    FetchOptions left = options;
    left.deadline_ms = std::max<std::int64_t>(0, duration_cast<milliseconds>(until - steady_clock::now()).count());
    const auto first = begun.find(fragment);
    auto found = fetch_begun(fragment->graph, left, first != begun.end() ? &first->second : nullptr);
    if (found) {
      // A canonical graph's plan has its order.
      if (!std::ranges::is_sorted(found->parameter_order) || !std::ranges::is_sorted(found->result_order))
        return make_error(ErrorKind::corrupt, "fragment {}: its graph is not canonical", fragment->key.hex());
      fragment->plan = std::move(found->plan);
      fragment->why_none.clear();
      continue;
    }
    using enum ErrorKind;
    const ErrorKind kind = found.error().kind;
    if (kind == timeout || kind == unavailable || kind == parse || kind == corrupt) return found.error();
    fragment->why_none = found.error().message;
  }
  return {};
}

Result<api::Program> Client::make_program(std::string model, const FetchOptions& options) {
  trace::Phase phase("make program", {{"name", options.name}, {"bytes", model.size()}});
  Result<api::Program> program = trace::noted(phase, made_program(std::move(model), options));
  if (program) phase.add({"program", program->id.hex()});
  return program;
}

Result<api::Program> Client::made_program(std::string model, const FetchOptions& options) {
  HttpCall call{.method = "POST",
                .target = with_name("/v1/programs", options.name),
                .content_type = "application/octet-stream",
                .accept = std::string(cbor)};
  if (!options.products.empty()) call.target += "&products=" + encoded(options.products);
  if (options.constraints.any()) call.target += fmt::format("&constraints={}", to_string(options.constraints));
  call.body = std::move(model);
  constexpr double longest_outline_seconds = 60;  // then the server gives it up
  call.timeout_seconds = options_.timeout_seconds + std::max(longest_outline_seconds, options.deadline_ms * 1e-3);
  STITCH_ASSIGN(const HttpAnswer answer, send(std::move(call)));
  if (answer.status != 200) return api::decode_error(answer.body, encoding_of(answer));
  STITCH_ASSIGN(api::Program program, api::decode_program(answer.body, encoding_of(answer)));
  if (options.device && !plans_for(*options.device)) {  // those are for the server's own target
    for (api::ProgramFragment& fragment : program.fragments) fragment.plan.reset();
  }
  activity_->add(Event::program);
  activity_->add(Event::plan_stored, planned_in(program));
  trace_plans(program, "store");
  if (const auto* locked = api::locked_in(options.lock, program)) STITCH_TRY(take_locked(*locked, program));
  STITCH_TRY(look_up_plans(program, options));
  if (options.complete && !predicts(options)) STITCH_TRY(check_complete(program));
  const auto planned = std::ranges::find_if(program.fragments, [](const auto& each) { return each.plan.has_value(); });
  if (planned != program.fragments.end()) program.target = planned->plan->target;
  std::set<Sha256> known;
  for (const api::ProgramFragment& fragment : program.fragments) {
    if (!fragment.plan) continue;
    for (const Sha256& hash : api::code_of(*fragment.plan)) {
      if (!known.insert(hash).second) continue;
      STITCH_ASSIGN(std::string bytes, artifact(hash));
      program.artifacts.push_back({hash, std::move(bytes)});
    }
  }
  return program;
}

Result<std::string> Client::artifact(const Sha256& hash) {
  trace::Phase phase("artifact", {{"hash", hash.hex()}});
  return trace::noted(phase, fetched_artifact(hash, phase));
}

Result<std::string> Client::fetched_artifact(const Sha256& hash, trace::Phase& phase) {
  const bool cached = !options_.cache.empty();
  if (cached) {
    if (auto bytes = artifacts_.find(hash)) {
      activity_->add(Event::artifact_kept);
      phase.add({"source", "folder"});
      phase.add({"bytes", bytes->size()});
      return *std::move(bytes);
    }
  }
  HttpCall call{.target = fmt::format("/v1/artifacts/{}", hash.hex()), .accept = std::string(cbor)};
  call.timeout_seconds = options_.timeout_seconds;
  STITCH_ASSIGN(HttpAnswer answer, send(call));
  if (answer.status != 200) return api::decode_error(answer.body, encoding_of(answer));
  if (sha256(answer.body) != hash) {
    return make_error(ErrorKind::corrupt, "artifact {}: the server sent other bytes", hash.hex());
  }
  activity_->add(Event::artifact_fetched);
  phase.add({"source", "server"});
  phase.add({"bytes", answer.body.size()});
  // A folder that cannot be written costs time, not the artifact.
  if (cached) (void)artifacts_.store(hash, answer.body).ok();
  return std::move(answer.body);
}

// ---- work

Result<api::Submitted> Client::submit_fragment(const graph::Graph& fragment, std::string_view name,
                                               std::optional<std::int64_t> trials) {
  STITCH_TRY(may_be_tuned());
  activity_->add(Event::tuning);
  HttpCall call{.method = "POST", .target = with_name("/v1/fragments", name), .content_type = std::string(cbor)};
  if (trials) call.target += fmt::format("&trials={}", *trials);
  call.body = graph::encode(fragment, Encoding::cbor);
  return traced(name, ask<api::Submitted>(std::move(call)));
}

Result<api::Submitted> Client::submit_model(std::string bytes, std::string_view name, std::int64_t trials,
                                            const graph::Constraints& constraints) {
  STITCH_TRY(may_be_tuned());
  activity_->add(Event::tuning);
  HttpCall call{.method = "POST", .target = with_name("/v1/models", name), .content_type = "application/octet-stream"};
  if (trials > 0) call.target += fmt::format("&trials={}", trials);
  if (constraints.any()) call.target += fmt::format("&constraints={}", to_string(constraints));
  call.body = std::move(bytes);
  return traced(name, ask<api::Submitted>(std::move(call)));
}

Result<api::JobStatus> Client::job(std::int64_t id) {
  return ask<api::JobStatus>({.target = fmt::format("/v1/jobs/{}", id)});
}

Result<api::JobStatus> Client::cancel(std::int64_t id) {
  return ask<api::JobStatus>(
      {.method = "POST", .target = fmt::format("/v1/jobs/{}/cancel", id), .content_type = std::string(cbor)});
}

Status Client::follow(std::int64_t job, std::int64_t after, const std::function<bool(const api::JobEvent&)>& sink) {
  using namespace std::chrono;
  auto give_up = steady_clock::now() + duration<double>(options_.timeout_seconds);
  while (true) {
    bool wanted = true, told = false;
    std::optional<Error> bad;
    EventParser parser([&](const ServerEvent& event) {
      if (event.kind == "error") {
        bad = api::decode_error(event.data, Encoding::json);
        return false;
      }
      const auto message = api::decode_message<api::JobEvent>(event.data, Encoding::json);
      if (!message) {
        bad = message.error();
        return false;
      }
      after = message->sequence;
      told = true;
      give_up = steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(options_.timeout_seconds));
      return wanted = sink(*message);
    });
    HttpCall call{.target = fmt::format("/v1/jobs/{}/events", job), .accept = "text/event-stream"};
    call.last_event_id = std::to_string(after);
    call.secret = secret(false);
    call.timeout_seconds = options_.timeout_seconds;
    STITCH_TRY(check_not_ended());
    auto via = Connection::open(address_, options_.timeout_seconds, options_.calls);
    Result<HttpAnswer> answer = via ? (*via)->follow(call, [&](std::string_view piece) { return parser.feed(piece); })
                                    : Result<HttpAnswer>(via.error());
    if (bad) return *bad;
    if (!wanted) return {};
    if (answer && answer->status != 200) return api::decode_error(answer->body, encoding_of(*answer));
    if (answer && !told) {
      // The stream ended with nothing left to tell: with the job, or with the server.
      const Result<api::JobStatus> status = this->job(job);
      if (status && status->finished()) return {};
    }
    if (steady_clock::now() > give_up) {
      return answer ? make_error(ErrorKind::timeout, "job {}: no event within {} s", job, options_.timeout_seconds)
                    : answer.error();
    }
    if (!told) std::this_thread::sleep_for(milliseconds(100));
  }
}

Result<std::string> Client::metrics() {
  HttpCall call{.target = "/metrics", .accept = "text/plain"};
  call.timeout_seconds = options_.timeout_seconds;
  STITCH_ASSIGN(HttpAnswer answer, send(std::move(call)));
  if (answer.status != 200) return api::decode_error(answer.body, encoding_of(answer));
  return std::move(answer.body);
}

Result<api::PromotionFeed> Client::promotions(std::int64_t after, std::int64_t wait_ms) {
  HttpCall call{.target = fmt::format("/v1/promotions?after={}&wait_ms={}", after, wait_ms)};
  call.timeout_seconds = options_.timeout_seconds + wait_ms * 1e-3;
  return ask<api::PromotionFeed>(std::move(call));
}

}  // namespace stitch::client
