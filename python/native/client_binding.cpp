#include "python/native/client_binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "client/activity.h"
#include "client/client.h"
#include "client/http/calls_under_way.h"
#include "client/plan_handle.h"
#include "client/plan_watcher.h"
#include "client/why.h"
#include "graph/codec/codec.h"
#include "python/native/arrays.h"
#include "python/native/device_kind.h"
#include "python/native/errors.h"
#include "python/native/fragment_binding.h"
#include "python/native/launch_arguments.h"

namespace stitch::python {

namespace nb = nanobind;

namespace {

struct Client {
  std::shared_ptr<client::Client> client;
};

/// A plan with all that it runs on; its client lives as long as it does.
struct Plan : std::enable_shared_from_this<Plan> {
  std::shared_ptr<client::Client> client;
  client::OpenExecutor executor;
  std::vector<graph::TensorType> parameters, results;
  std::unique_ptr<client::PlanHandle> handle;  ///< last: it uses the others
};

/// What looks for better plans for all plans of the process; of a forked child its own, since it has no thread of its
/// parent's. It outlives static objects, with plans that nobody frees.
client::PlanWatcher& watcher() {
  static std::mutex mutex;
  static pid_t process = 0;
  static client::PlanWatcher* of_process = nullptr;
  const std::lock_guard lock(mutex);
  if (process != getpid()) {
    process = getpid();
    of_process = new client::PlanWatcher;
  }
  return *of_process;
}

/// What all clients of the process count, and by which they are frozen. It outlives static objects, as plans do.
const std::shared_ptr<client::Activity>& activity() {
  static const auto& of_process = *new std::shared_ptr<client::Activity>(std::make_shared<client::Activity>());
  return of_process;
}

/// The calls of the process's clients. They outlive static objects, as plans do.
const std::shared_ptr<client::CallsUnderWay>& calls() {
  static const auto& of_process =
      *new std::shared_ptr<client::CallsUnderWay>(std::make_shared<client::CallsUnderWay>());
  return of_process;
}

nb::dict counts() {
  nb::dict counts;
  for (const auto& [name, event] : client::event_names)
    counts[nb::str(name.data(), name.size())] = activity()->count(event);
  return counts;
}

std::shared_ptr<Plan> fetch(const Client& client, const Fragment& fragment, const std::string& device, int ordinal,
                            std::int64_t deadline_ms, bool improve, const std::string& constraints, bool predict,
                            std::optional<std::int64_t> max_workspace_bytes, const std::string& plan_id) {
  auto plan = std::make_shared<Plan>();
  plan->client = client.client;
  plan->executor = value_of(client::open_executor(value_of(device_kind(device)), ordinal), a_device);
  client::FetchOptions options;
  options.deadline_ms = deadline_ms;
  options.improve = improve;
  options.name = fragment.graph.name;
  options.constraints = value_of(graph::parse_constraints(constraints));
  options.predict = predict;
  options.max_workspace_bytes = max_workspace_bytes;
  if (!plan_id.empty()) {
    options.plan = Hash128::from_hex(plan_id);
    if (!options.plan) throw nb::value_error(fmt::format("plan_id '{}': 32 hex digits", plan_id).c_str());
  }
  plan->handle =
      value_of(client::PlanHandle::fetch(*plan->client, *plan->executor.executor, fragment.graph, std::move(options)));
  plan->parameters = plan->handle->parameters();
  plan->results = plan->handle->results();
  return plan;
}

void run(Plan& plan, const std::vector<Array>& parameters, const std::vector<WritableArray>& results) {
  const auto inputs = spans_of<const std::byte>(parameters, plan.parameters, "plan", "parameter");
  const auto outputs = spans_of<std::byte>(results, plan.results, "plan", "result");
  nb::gil_scoped_release released;
  check(plan.handle->run(inputs, outputs));
}

void launch(Plan& plan, nb::sequence parameters, nb::sequence results, std::uint64_t stream) {
  if (plan.executor.kind != client::DeviceKind::cuda) throw Failure{client::no_addresses()};
  const LaunchPlace place{"plan", plan.executor.ordinal, stream};
  const auto of = [](const std::vector<graph::TensorType>& types) {
    return [&types](std::size_t i) -> const graph::TensorType& { return types[i]; };
  };
  const auto from = addresses_of(std::move(parameters), plan.parameters.size(), of(plan.parameters), "parameter",
                                 Access::read, place);
  const auto to =
      addresses_of(std::move(results), plan.results.size(), of(plan.results), "result", Access::write, place);
  nb::gil_scoped_release released;
  check(plan.handle->launch(from, to, reinterpret_cast<void*>(stream)));
}

nb::bytes make_program(const Client& client, const Fragment& fragment, std::int64_t deadline_ms, bool improve,
                       const std::string& products, const std::string& device, int ordinal,
                       const std::string& constraints, bool predict, const std::string& lock) {
  std::string document;
  {
    nb::gil_scoped_release released;
    client::FetchOptions options;
    options.deadline_ms = deadline_ms;
    options.improve = improve;
    options.name = fragment.graph.name;
    options.products = products;
    options.constraints = value_of(graph::parse_constraints(constraints));
    options.predict = predict;
    if (!lock.empty()) options.lock = value_of(api::parse_lock(lock));
    options.device =
        value_of(client::open_executor(value_of(device_kind(device)), ordinal), a_device).executor->traits();
    const api::Program program =
        value_of(client.client->make_program(graph::encode(fragment.graph, graph::Encoding::cbor), options));
    document = api::encode_program(program, graph::Encoding::cbor);
  }
  return nb::bytes(document.data(), document.size());
}

nb::bytes program_of(const Plan& plan) {
  std::string document;
  {
    nb::gil_scoped_release released;
    document = api::encode_program(value_of(plan.handle->program()), graph::Encoding::cbor);
  }
  return nb::bytes(document.data(), document.size());
}

nb::dict why(const Client& client, const Fragment& fragment, const std::string& constraints, const std::string& device,
             int ordinal) {
  client::StoredPlan stored;
  {
    nb::gil_scoped_release released;
    client::FetchOptions options;
    options.name = fragment.graph.name;
    options.constraints = value_of(graph::parse_constraints(constraints));
    options.device =
        value_of(client::open_executor(value_of(device_kind(device)), ordinal), a_device).executor->traits();
    stored = value_of(client::why(*client.client, fragment.graph, std::move(options)));
  }
  const auto id = [](const std::optional<Hash128>& hash) { return hash ? nb::cast(hash->hex()) : nb::none(); };
  nb::dict differs;
  for (const client::KeyDifference& one : stored.differs)
    differs[one.field.c_str()] = nb::make_tuple(one.wanted, one.stored);
  nb::dict answer;
  answer["fragment"] = stored.fragment.hex();
  answer["device"] = stored.target.device;
  answer["plan"] = id(stored.plan);
  answer["closest"] = id(stored.closest);
  answer["differs"] = differs;
  return answer;
}

/// Hands a fragment in to be tuned in the background: the job's number, and whether somebody else's was joined.
std::pair<std::int64_t, bool> tune(const Client& client, const Fragment& fragment, std::optional<std::int64_t> trials,
                                   const std::string& constraints) {
  graph::Graph graph = fragment.graph;
  graph.constraints = graph.constraints | value_of(graph::parse_constraints(constraints));
  const api::Submitted submitted = value_of(client.client->submit_fragment(graph, graph.name, trials));
  return {submitted.job, submitted.joined};
}

/// Hands a whole graph in, likewise; `trials` of all its kernels together.
std::pair<std::int64_t, bool> tune_model(const Client& client, const Fragment& model, std::int64_t trials,
                                         const std::string& constraints) {
  const api::Submitted submitted =
      value_of(client.client->submit_model(graph::encode(model.graph, graph::Encoding::cbor), model.graph.name, trials,
                                           value_of(graph::parse_constraints(constraints))));
  return {submitted.job, submitted.joined};
}

/// Its state, and once it has failed why.
std::pair<std::string, std::string> job(const Client& client, std::int64_t number) {
  const api::JobStatus status = value_of(client.client->job(number));
  return {status.state, status.error ? status.error->message : std::string()};
}

std::vector<TypeTuple> tuples_of(const std::vector<graph::TensorType>& types) {
  std::vector<TypeTuple> tuples;
  for (const graph::TensorType& type : types) tuples.push_back(tuple_of(type));
  return tuples;
}

nb::dict info(const Plan& plan) {
  const api::Plan from = plan.handle->plan();
  nb::dict info;
  info["id"] = from.id.hex();
  info["fragment"] = from.fragment.hex();
  info["label"] = from.label;
  info["device"] = from.target.device;
  info["launches"] = from.launches.size();
  info["bytes"] = from.bytes;
  info["workspace_bytes"] = from.workspace_bytes;
  info["predicted_us"] = from.predicted_us;
  info["uncertainty_us"] = from.uncertainty_us;
  info["measured_us"] = from.measured_us;
  info["verified_share"] = from.verified_share;
  info["judged"] = from.judged;
  info["in_place"] = pairs_of(plan.handle->in_place());
  info["swaps"] = plan.handle->swaps();
  info["stale"] = plan.handle->stale();
  return info;
}

std::unique_ptr<Client> open(const std::optional<std::string>& server, const std::optional<std::string>& cache,
                             double timeout_seconds) {
  client::ClientOptions options;
  if (server) options.server = *server;
  if (cache) options.cache = *cache;
  options.timeout_seconds = timeout_seconds;
  options.activity = activity();
  options.calls = calls();
  auto client = std::make_unique<Client>();
  client->client = value_of(client::Client::open(options), a_server);
  return client;
}

}  // namespace

void bind_client(nb::module_& module) {
  module.def("default_socket_path", [] { return api::default_socket_path().string(); });
  module.attr("buffer_alignment") = client::buffer_alignment;

  nb::class_<Client>(module, "Client", "A stitchd and what was fetched from it. Safe to use from several threads.")
      .def(nb::new_(&open), nb::arg("server") = nb::none(), nb::arg("cache") = nb::none(),
           nb::arg("timeout_seconds") = 30.0, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("server_version", [](const Client& client) { return client.client->server().version; })
      .def("plan", &fetch, nb::arg("fragment"), nb::arg("device") = "emulated", nb::arg("ordinal") = 0,
           nb::arg("deadline_ms") = 10'000, nb::arg("improve") = true, nb::arg("constraints") = "",
           nb::arg("predict") = true, nb::arg("max_workspace_bytes") = nb::none(), nb::arg("plan_id") = "",
           nb::call_guard<nb::gil_scoped_release>(),
           "Fetches a plan and loads it, waiting up to deadline_ms for the server to find or predict one")
      .def("make_program", &make_program, nb::arg("fragment"), nb::arg("deadline_ms") = 60'000,
           nb::arg("improve") = true, nb::arg("products") = "", nb::arg("device") = "emulated", nb::arg("ordinal") = 0,
           nb::arg("constraints") = "", nb::arg("predict") = true, nb::arg("lock") = "",
           "The program of a whole graph as a CBOR document with its code inside, waiting up to deadline_ms for plans; "
           "lock: a lock's text, whose plans it has and no others")
      .def("why", &why, nb::arg("fragment"), nb::arg("constraints") = "", nb::arg("device") = "emulated",
           nb::arg("ordinal") = 0, "Which plan is stored for a fragment, or in what the nearest one's key differs")
      .def("tune", &tune, nb::arg("fragment"), nb::arg("trials") = nb::none(), nb::arg("constraints") = "",
           nb::call_guard<nb::gil_scoped_release>(),
           "Has a fragment tuned in the background: (number of the job, whether somebody else's was joined)")
      .def("tune_model", &tune_model, nb::arg("model"), nb::arg("trials") = 0, nb::arg("constraints") = "",
           nb::call_guard<nb::gil_scoped_release>(),
           "Has the fragments of a whole graph tuned in the background: as tune; trials: of all its kernels together")
      .def("job", &job, nb::arg("number"), nb::call_guard<nb::gil_scoped_release>(),
           "(state, what went wrong) of a job; \"done\", \"failed\" and \"cancelled\" are its ends")
      .def(
          "cancel", [](const Client& client, std::int64_t number) { value_of(client.client->cancel(number)); },
          nb::arg("number"), nb::call_guard<nb::gil_scoped_release>(), "Ends a job; what it has found stays");

  nb::class_<Plan>(module, "Plan", "A loaded plan; runs follow one another.")
      .def_prop_ro("parameters", [](const Plan& plan) { return tuples_of(plan.parameters); })
      .def_prop_ro("results", [](const Plan& plan) { return tuples_of(plan.results); })
      .def_prop_ro("info", &info)
      .def("run", &run, nb::arg("parameters"), nb::arg("results"),
           "Runs on arrays of the host (DLPack), dense and row-major, and waits")
      .def("launch", &launch, nb::arg("parameters"), nb::arg("results"), nb::arg("stream") = 0,
           "Enqueues on a CUstream with addresses or arrays of the GPU and does not wait")
      .def(
          "freeze", [](Plan& plan) { plan.handle->freeze(); }, nb::call_guard<nb::gil_scoped_release>(),
          "From now on no other plan takes its place")
      .def("to_program", &program_of, "The plan as a program of one step: a CBOR document with its code inside")
      .def(
          "check_for_update",
          [](Plan& plan, std::int64_t wait_ms) { return value_of(plan.handle->check_for_update(wait_ms)); },
          nb::arg("wait_ms") = 0, nb::call_guard<nb::gil_scoped_release>(),
          "Swaps in a better plan if the server has one; whether it did")
      .def(
          "watch",
          [](Plan& plan) {
            watcher().add(std::shared_ptr<client::PlanHandle>(plan.shared_from_this(), plan.handle.get()));
          },
          nb::call_guard<nb::gil_scoped_release>(),
          "From now on a thread does that, which all plans of the process share");
  module.def(
      "end_calls", [] { calls()->end(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Ends the calls to servers that are under way in the process, and all later ones");
  module.def("calls_ended", [] { return calls()->ended(); });
  module.def(
      "stop_watching", [] { watcher().stop(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Ends that thread; plans stay what they are from now on");
  module.def(
      "freeze", [] { activity()->freeze(); }, "From now on nothing is made for the process's clients");
  module.def("is_frozen", [] { return activity()->is_frozen(); });
  module.def("counts", &counts, "What the process's clients did, by name");
}

}  // namespace stitch::python
