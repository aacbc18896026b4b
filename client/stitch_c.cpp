#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "api/program_in_place.h"
#include "base/version.h"
#include "client/client.h"
#include "client/open_executor.h"
#include "client/open_program.h"
#include "client/plan_handle.h"
#include "client/stitch.h"
#include "graph/codec/codec.h"

// The C interface over the C++ one: no exception and no C++ type crosses it.

struct stitch_client {
  std::unique_ptr<stitch::client::Client> client;
};

struct stitch_plan {
  stitch::client::OpenExecutor executor;
  std::vector<std::int64_t> parameter_bytes, result_bytes;
  std::vector<stitch::api::InPlace> in_place;
  std::unique_ptr<stitch::client::PlanHandle> handle;  ///< last: its watcher uses the others
};

struct stitch_program {
  std::vector<std::int64_t> input_bytes, output_bytes;
  std::vector<stitch::api::InPlace> in_place;
  std::unique_ptr<stitch::client::OpenProgram> program;
};

namespace {

using stitch::Error;
using stitch::ErrorKind;
using stitch::Status;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

/// One code per kind of error; STITCH_OK comes before the first.
stitch_code code_of(ErrorKind kind) {
  static_assert(static_cast<int>(ErrorKind::internal) + 1 == STITCH_INTERNAL);
  static_assert(static_cast<int>(ErrorKind::unavailable) + 1 == STITCH_UNAVAILABLE);
  static_assert(static_cast<int>(ErrorKind::constraint) + 1 == STITCH_CONSTRAINT);
  return static_cast<stitch_code>(static_cast<int>(kind) + 1);
}

stitch_code fail(const Error& error) {
  last_error() = error.message;
  return code_of(error.kind);
}

/// Runs the body of a function of the interface.
stitch_code guarded(const std::function<Status()>& body) noexcept {
  try {
    last_error().clear();
    const Status status = body();
    return status ? STITCH_OK : fail(status.error());
  } catch (const std::bad_alloc&) {
    return STITCH_RESOURCE_EXHAUSTED;
  } catch (const std::exception& exception) {
    return fail({ErrorKind::internal, exception.what()});
  } catch (...) {
    return STITCH_INTERNAL;
  }
}

stitch::Result<stitch::graph::Constraints> constraints_of(const char* words) {
  return words == nullptr ? stitch::graph::Constraints{} : stitch::graph::parse_constraints(words);
}

Status need(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return make_error(ErrorKind::invalid_argument, "{} is NULL", name);
}

template <std::size_t size>
void copy_text(const std::string& from, char (&into)[size]) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(into, from.data(), length);
  into[length] = '\0';
}

/// Gives the caller as much of the record as it knows of.
template <class Record>
Status hand_over(Record record, Record* into) {
  STITCH_TRY(need(into, "info"));
  const std::size_t size = into->size;
  if (size < sizeof(std::size_t)) {
    return make_error(ErrorKind::invalid_argument, "info->size is {}: set it to sizeof *info", size);
  }
  record.size = size;
  std::memcpy(static_cast<void*>(into), &record, std::min(size, sizeof record));
  return {};
}

template <class Byte, class Pointer>
stitch::Result<std::vector<std::span<Byte>>> spans_of(Pointer pointers, const std::vector<std::int64_t>& bytes,
                                                      const char* name) {
  if (!bytes.empty()) STITCH_TRY(need(pointers, name));
  std::vector<std::span<Byte>> spans;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > 0 && pointers[i] == nullptr)
      return make_error(ErrorKind::invalid_argument, "{}[{}] is NULL", name, i);
    spans.emplace_back(static_cast<Byte*>(pointers[i]), bytes[i]);
  }
  return spans;
}

stitch::Result<stitch::client::DeviceKind> kind_of(stitch_device device) {
  switch (device) {
    case STITCH_DEVICE_EMULATED: return stitch::client::DeviceKind::emulated;
    case STITCH_DEVICE_CUDA: return stitch::client::DeviceKind::cuda;
  }
  return make_error(ErrorKind::invalid_argument, "device {} is none", static_cast<int>(device));
}

std::vector<std::int64_t> bytes_of(const std::vector<stitch::graph::TensorType>& types) {
  std::vector<std::int64_t> bytes;
  for (const auto& type : types) bytes.push_back(type.bytes());
  return bytes;
}

Status pair_at(const std::vector<stitch::api::InPlace>& pairs, std::size_t index, std::size_t* from, std::size_t* to) {
  STITCH_TRY(need(from, "where the parameter is to be told"));
  STITCH_TRY(need(to, "where the result is to be told"));
  if (index >= pairs.size()) {
    return make_error(ErrorKind::invalid_argument, "there is no pair {}; there are {}", index, pairs.size());
  }
  *from = static_cast<std::size_t>(pairs[index].parameter);
  *to = static_cast<std::size_t>(pairs[index].result);
  return {};
}

Status hand_over(stitch::Result<std::unique_ptr<stitch::client::OpenProgram>> opened, stitch_program** into) {
  if (!opened) return opened.error();
  auto program = std::make_unique<stitch_program>();
  program->program = *std::move(opened);
  program->input_bytes = bytes_of(program->program->inputs());
  program->output_bytes = bytes_of(program->program->outputs());
  program->in_place = stitch::api::in_place_of(program->program->program());
  *into = program.release();
  return {};
}

}  // namespace

extern "C" {

int stitch_api_version(void) { return STITCH_API_VERSION; }
const char* stitch_version(void) { return stitch::tool_version.data(); }
const char* stitch_last_error(void) { return last_error().c_str(); }

const char* stitch_code_name(stitch_code status) {
  if (status == STITCH_OK) return "ok";
  if (status < STITCH_OK || status > STITCH_INTERNAL) return "unknown";
  return to_string(static_cast<ErrorKind>(static_cast<int>(status) - 1)).data();
}

stitch_code stitch_client_open(const char* server, const char* cache, stitch_client** client) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    *client = nullptr;
    stitch::client::ClientOptions options;
    if (server != nullptr) options.server = server;
    if (cache != nullptr) options.cache = cache;
    auto opened = std::make_unique<stitch_client>();
    STITCH_ASSIGN(opened->client, stitch::client::Client::open(options));
    *client = opened.release();
    return {};
  });
}

void stitch_client_close(stitch_client* client) { delete client; }

stitch_code stitch_client_freeze(stitch_client* client) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    client->client->activity().freeze();
    return {};
  });
}

stitch_code stitch_client_get_counts(const stitch_client* client, stitch_client_counts* counts) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    using enum stitch::client::Event;
    const stitch::client::Activity& activity = client->client->activity();
    stitch_client_counts record{};
    record.plans_stored = activity.count(plan_stored);
    record.plans_predicted = activity.count(plan_predicted);
    record.misses = activity.count(miss);
    record.deadlines_passed = activity.count(deadline_passed);
    record.tunings = activity.count(tuning);
    record.programs = activity.count(program);
    record.artifacts_kept = activity.count(artifact_kept);
    record.artifacts_fetched = activity.count(artifact_fetched);
    record.plans_loaded = activity.count(plan_loaded);
    record.swaps = activity.count(swap);
    return hand_over(record, counts);
  });
}

stitch_code stitch_plan_fetch(stitch_client* client, const void* fragment, size_t fragment_bytes,
                              stitch_encoding encoding, stitch_device device, int64_t deadline_ms, stitch_plan** plan) {
  return stitch_plan_fetch_on(client, fragment, fragment_bytes, encoding, device, 0, deadline_ms, plan);
}

stitch_code stitch_plan_fetch_on(stitch_client* client, const void* fragment, size_t fragment_bytes,
                                 stitch_encoding encoding, stitch_device device, int ordinal, int64_t deadline_ms,
                                 stitch_plan** plan) {
  return stitch_plan_fetch_under(client, fragment, fragment_bytes, encoding, device, ordinal, nullptr, deadline_ms,
                                 plan);
}

stitch_code stitch_plan_fetch_under(stitch_client* client, const void* fragment, size_t fragment_bytes,
                                    stitch_encoding encoding, stitch_device device, int ordinal,
                                    const char* constraints, int64_t deadline_ms, stitch_plan** plan) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    STITCH_TRY(need(fragment, "fragment"));
    STITCH_TRY(need(plan, "plan"));
    *plan = nullptr;
    const std::string_view bytes(static_cast<const char*>(fragment), fragment_bytes);
    const auto form = encoding == STITCH_CBOR ? stitch::graph::Encoding::cbor : stitch::graph::Encoding::json;
    STITCH_ASSIGN(stitch::graph::Graph graph, stitch::graph::decode(bytes, form));
    auto fetched = std::make_unique<stitch_plan>();
    STITCH_ASSIGN(const auto kind, kind_of(device));
    STITCH_ASSIGN(fetched->executor, stitch::client::open_executor(kind, ordinal));
    stitch::client::FetchOptions options;
    options.deadline_ms = deadline_ms;
    options.name = graph.name;
    STITCH_ASSIGN(options.constraints, constraints_of(constraints));
    STITCH_ASSIGN(fetched->handle, stitch::client::PlanHandle::fetch(*client->client, *fetched->executor.executor,
                                                                     std::move(graph), std::move(options)));
    fetched->parameter_bytes = bytes_of(fetched->handle->parameters());
    fetched->result_bytes = bytes_of(fetched->handle->results());
    fetched->in_place = fetched->handle->in_place();
    *plan = fetched.release();
    return {};
  });
}

void stitch_plan_release(stitch_plan* plan) { delete plan; }

size_t stitch_plan_parameter_count(const stitch_plan* plan) {
  return plan == nullptr ? 0 : plan->parameter_bytes.size();
}
size_t stitch_plan_result_count(const stitch_plan* plan) { return plan == nullptr ? 0 : plan->result_bytes.size(); }
int64_t stitch_plan_parameter_bytes(const stitch_plan* plan, size_t index) {
  return index < stitch_plan_parameter_count(plan) ? plan->parameter_bytes[index] : 0;
}
int64_t stitch_plan_result_bytes(const stitch_plan* plan, size_t index) {
  return index < stitch_plan_result_count(plan) ? plan->result_bytes[index] : 0;
}

size_t stitch_plan_in_place_count(const stitch_plan* plan) { return plan == nullptr ? 0 : plan->in_place.size(); }
stitch_code stitch_plan_in_place(const stitch_plan* plan, size_t index, size_t* parameter, size_t* result) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(plan, "plan"));
    return pair_at(plan->in_place, index, parameter, result);
  });
}

stitch_code stitch_plan_get_info(const stitch_plan* plan, stitch_plan_info* info) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(plan, "plan"));
    const stitch::api::Plan from = plan->handle->plan();
    stitch_plan_info made{};
    copy_text(from.id.hex(), made.id);
    copy_text(from.label, made.label);
    made.launches = from.launches.size();
    made.swaps = plan->handle->swaps();
    made.predicted_us = from.predicted_us;
    made.measured_us = from.measured_us.value_or(-1);
    made.verified_share = from.verified_share;
    made.workspace_bytes = from.workspace_bytes;
    made.stale = plan->handle->stale() ? 1 : 0;
    made.uncertainty_us = from.uncertainty_us;
    return hand_over(made, info);
  });
}

stitch_code stitch_plan_run(stitch_plan* plan, const void* const* parameters, void* const* results) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(plan, "plan"));
    STITCH_ASSIGN(const auto inputs, spans_of<const std::byte>(parameters, plan->parameter_bytes, "parameters"));
    STITCH_ASSIGN(const auto outputs, spans_of<std::byte>(results, plan->result_bytes, "results"));
    return plan->handle->run(inputs, outputs);
  });
}

stitch_code stitch_plan_launch(stitch_plan* plan, const uint64_t* parameters, const uint64_t* results, void* stream) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(plan, "plan"));
    if (!plan->parameter_bytes.empty()) STITCH_TRY(need(parameters, "parameters"));
    if (!plan->result_bytes.empty()) STITCH_TRY(need(results, "results"));
    return plan->handle->launch({parameters, plan->parameter_bytes.size()}, {results, plan->result_bytes.size()},
                                stream);
  });
}

stitch_code stitch_plan_check_for_update(stitch_plan* plan, int64_t wait_ms, int* swapped) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(plan, "plan"));
    STITCH_ASSIGN(const bool changed, plan->handle->check_for_update(wait_ms));
    if (swapped != nullptr) *swapped = changed ? 1 : 0;
    return {};
  });
}

stitch_code stitch_plan_watch(stitch_plan* plan, void (*told)(stitch_code status, void* context), void* context) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(plan, "plan"));
    plan->handle->watch([told, context](const Status& status) {
      const stitch_code code = status ? STITCH_OK : fail(status.error());
      if (told != nullptr) told(code, context);
    });
    return {};
  });
}

stitch_code stitch_program_open(const void* document, size_t size, stitch_device device, int ordinal,
                                stitch_program** program) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(document, "document"));
    STITCH_TRY(need(program, "program"));
    *program = nullptr;
    STITCH_ASSIGN(const auto kind, kind_of(device));
    const std::string_view bytes(static_cast<const char*>(document), size);
    return hand_over(stitch::client::OpenProgram::open(bytes, kind, ordinal), program);
  });
}

stitch_code stitch_program_fetch(stitch_client* client, const char* name, const void* model, size_t size,
                                 const char* products, stitch_device device, int ordinal, int64_t deadline_ms,
                                 stitch_program** program) {
  return stitch_program_fetch_under(client, name, model, size, products, device, ordinal, nullptr, deadline_ms,
                                    program);
}

stitch_code stitch_program_fetch_under(stitch_client* client, const char* name, const void* model, size_t size,
                                       const char* products, stitch_device device, int ordinal, const char* constraints,
                                       int64_t deadline_ms, stitch_program** program) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    STITCH_TRY(need(name, "name"));
    STITCH_TRY(need(model, "model"));
    STITCH_TRY(need(program, "program"));
    *program = nullptr;
    STITCH_ASSIGN(const auto kind, kind_of(device));
    STITCH_ASSIGN(auto executor, stitch::client::open_executor(kind, ordinal));
    stitch::client::FetchOptions options;
    options.deadline_ms = deadline_ms;
    options.name = name;
    options.device = executor.executor->traits();
    if (products != nullptr) options.products = products;
    STITCH_ASSIGN(options.constraints, constraints_of(constraints));
    STITCH_ASSIGN(auto made, client->client->make_program(std::string(static_cast<const char*>(model), size), options));
    return hand_over(stitch::client::OpenProgram::open(std::move(made), std::move(executor)), program);
  });
}

void stitch_program_release(stitch_program* program) { delete program; }

size_t stitch_program_input_count(const stitch_program* program) {
  return program == nullptr ? 0 : program->input_bytes.size();
}
size_t stitch_program_output_count(const stitch_program* program) {
  return program == nullptr ? 0 : program->output_bytes.size();
}
int64_t stitch_program_input_bytes(const stitch_program* program, size_t index) {
  return index < stitch_program_input_count(program) ? program->input_bytes[index] : 0;
}
int64_t stitch_program_output_bytes(const stitch_program* program, size_t index) {
  return index < stitch_program_output_count(program) ? program->output_bytes[index] : 0;
}
const char* stitch_program_input_name(const stitch_program* program, size_t index) {
  if (index >= stitch_program_input_count(program)) return "";
  return program->program->program().parameters[index].name.c_str();
}
const char* stitch_program_output_name(const stitch_program* program, size_t index) {
  if (index >= stitch_program_output_count(program)) return "";
  return program->program->program().results[index].name.c_str();
}

size_t stitch_program_in_place_count(const stitch_program* program) {
  return program == nullptr ? 0 : program->in_place.size();
}
stitch_code stitch_program_in_place(const stitch_program* program, size_t index, size_t* input, size_t* output) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(program, "program"));
    return pair_at(program->in_place, index, input, output);
  });
}

stitch_code stitch_program_get_info(const stitch_program* program, stitch_program_info* info) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(program, "program"));
    const stitch::client::OpenProgram& from = *program->program;
    stitch_program_info made{};
    copy_text(from.program().id.hex(), made.id);
    made.can_launch = from.can_launch() ? 1 : 0;
    made.arena_bytes = from.program().regions[0].arena_bytes;
    made.workspace_bytes = from.workspace_bytes();
    made.fallbacks = std::ssize(from.fallbacks());
    return hand_over(made, info);
  });
}

stitch_code stitch_program_run(stitch_program* program, const void* const* inputs, void* const* outputs) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(program, "program"));
    STITCH_ASSIGN(const auto from, spans_of<const std::byte>(inputs, program->input_bytes, "inputs"));
    STITCH_ASSIGN(const auto to, spans_of<std::byte>(outputs, program->output_bytes, "outputs"));
    return program->program->run(from, to);
  });
}

stitch_code stitch_program_launch(stitch_program* program, const uint64_t* inputs, const uint64_t* outputs,
                                  void* stream) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(program, "program"));
    if (!program->input_bytes.empty()) STITCH_TRY(need(inputs, "inputs"));
    if (!program->output_bytes.empty()) STITCH_TRY(need(outputs, "outputs"));
    return program->program->launch({inputs, program->input_bytes.size()}, {outputs, program->output_bytes.size()},
                                    stream);
  });
}

stitch_code stitch_submit_model(stitch_client* client, const char* name, const void* bytes, size_t size, int64_t* job) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    STITCH_TRY(need(name, "name"));
    STITCH_TRY(need(bytes, "bytes"));
    STITCH_ASSIGN(const auto submitted,
                  client->client->submit_model(std::string(static_cast<const char*>(bytes), size), name));
    if (job != nullptr) *job = submitted.job;
    return {};
  });
}

stitch_code stitch_job_get_info(stitch_client* client, int64_t job, stitch_job_info* info) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    STITCH_ASSIGN(const auto status, client->client->job(job));
    stitch_job_info made{};
    copy_text(status.state, made.state);
    made.progress = status.progress;
    copy_text(status.error ? status.error->message : status.message, made.message);
    return hand_over(made, info);
  });
}

stitch_code stitch_job_cancel(stitch_client* client, int64_t job) {
  return guarded([&]() -> Status {
    STITCH_TRY(need(client, "client"));
    STITCH_ASSIGN(const auto status, client->client->cancel(job));
    return {};
  });
}

}  // extern "C"
