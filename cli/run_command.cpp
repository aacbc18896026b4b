#include <cstdio>
#include <map>

#include "api/package_document.h"
#include "api/program_lock.h"
#include "base/device_class.h"
#include "base/npy.h"
#include "base/trace.h"
#include "cli/commands.h"
#include "cli/emulate/kernel_argument.h"
#include "cli/interruption.h"
#include "cli/run/run_report.h"
#include "cli/run/step_log.h"
#include "cli/run/step_trace.h"
#include "client/cuda_executor.h"
#include "client/host/library_call.h"
#include "client/host_memory.h"
#include "client/open_executor.h"
#include "client/open_program.h"
#include "client/stream_program.h"
#include "client/trace/plan_trace.h"
#include "graph/simplify.h"
#include "profiler/verify/input_source.h"
#include "tuning/devices/device_set.h"
#include "tuning/programs/locked_plan.h"
#include "tuning/programs/model_program.h"
#include "tuning/programs/program_price.h"

namespace stitch::cli {
namespace {

struct RunOptions {
  CommonOptions common;
  std::filesystem::path model, output, program, lock, write_lock, trace, database;
  std::vector<std::string> inputs;
  std::uint64_t seed = 1;
  std::string distribution = "mixed";
  tuning::ProductsBy products = tuning::ProductsBy::library;
  std::string against;
  bool check = false, whole = false, outline = false, price = false, tunes = false;
};

/// "NAME=FILE" of every --input, by name.
Result<std::map<std::string, std::string>> input_files(const RunOptions& options, const api::Program& program) {
  std::map<std::string, std::string> files;
  for (const std::string& option : options.inputs) {
    const std::size_t at = option.find('=');
    if (at == std::string::npos)
      return make_error(ErrorKind::invalid_argument, "--input {}: NAME=FILE.npy is wanted", option);
    const std::string name = option.substr(0, at);
    const bool known = std::ranges::any_of(program.parameters, [&](const auto& port) { return port.name == name; });
    if (!known) {
      std::string all;
      for (const api::ProgramPort& port : program.parameters) all += (all.empty() ? "" : ", ") + port.name;
      return make_error(ErrorKind::invalid_argument, "--input {}: the model has no input of that name; it has {}",
                        option, all);
    }
    if (!files.emplace(name, option.substr(at + 1)).second)
      return make_error(ErrorKind::invalid_argument, "--input {}: was given before", option);
  }
  return files;
}

/// The elements of a NumPy file; of bf16 and f8, which NumPy has not, as bytes ("V2").
Status fill_from_file(std::string_view file, const graph::TensorType& type, std::span<std::byte> into) {
  STITCH_ASSIGN(const NpyArray array, parse_npy(file));
  const bool holds = array.type == npy_type_of(type.dtype) || array.type == fmt::format("V{}", byte_size(type.dtype));
  if (!holds || array.shape != type.dims) {
    return make_error(ErrorKind::invalid_argument, "it holds {}{}, the model takes {}", array.type,
                      graph::to_string(array.shape), graph::to_string(type));
  }
  std::ranges::transform(array.data, into.begin(), [](char c) { return static_cast<std::byte>(c); });
  return {};
}

/// Every parameter from its file, or by the seed.
Result<std::vector<client::HostMemory>> make_inputs(const RunOptions& options, const api::Program& program,
                                                    const FileSystem& files) {
  STITCH_ASSIGN(const auto named, input_files(options, program));
  profiler::Distribution distribution = profiler::Distribution::mixed;
  for (const profiler::Distribution each : profiler::default_distributions()) {
    if (to_string(each) == options.distribution) distribution = each;
  }
  std::vector<client::HostMemory> inputs;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const api::ProgramPort& port = program.parameters[p];
    inputs.emplace_back(port.type.bytes());
    if (const auto file = named.find(port.name); file != named.end()) {
      STITCH_ASSIGN(const std::string bytes, files.read(file->second));
      const Status filled = fill_from_file(bytes, port.type, inputs.back().span());
      if (!filled) return filled.error().within(fmt::format("--input {}={}", port.name, file->second));
      continue;
    }
    std::optional<profiler::InputSource::Range> range;
    if (port.low && port.high) range = {*port.low, *port.high};
    profiler::InputSource(port.type, distribution, options.seed + p, range)(0, inputs.back().span());
  }
  return inputs;
}

/// "0.logits.npy": what a name has beyond letters, digits, '.', '-' and '_' becomes '_'.
std::string file_name(const api::ProgramPort& port, std::size_t position) {
  std::string name = port.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; }, '_');
  return fmt::format("{}.{}.npy", position, name);
}

Status write_outputs(const RunOptions& options, const api::Program& program,
                     const std::vector<client::HostMemory>& outputs, FileSystem& files) {
  if (options.output.empty()) return {};
  STITCH_TRY(files.make_directories(options.output));
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const api::ProgramPort& port = program.results[r];
    const std::string_view bytes(reinterpret_cast<const char*>(outputs[r].span().data()), outputs[r].span().size());
    const NpyArray array{npy_type_of(port.type.dtype), port.type.dims, std::string(bytes)};
    STITCH_TRY(files.publish(options.output / file_name(port, r), encode_npy(array)));
  }
  return {};
}

/// The model's results beside the reference of the whole of it: what steps that are right by themselves do not show.
Status check_whole(const graph::Graph& graph, std::string_view architecture,
                   const std::vector<client::HostMemory>& inputs, const std::vector<client::HostMemory>& outputs,
                   Check check, RunReport& report) {
  std::vector<std::vector<std::byte>> given;
  for (const client::HostMemory& input : inputs) given.emplace_back(input.span().begin(), input.span().end());
  std::vector<std::span<const std::byte>> results;
  for (const client::HostMemory& output : outputs) results.emplace_back(output.span());
  report.whole.emplace();
  report.whole->kind = "model";
  return compare_with_reference(graph, given, results, client::longest_contraction(graph), architecture, check,
                                *report.whole);
}

Result<ExitCode> outline(const RunOptions& options, const api::Program& program, const tuning::Tuner& tuner,
                         const std::stop_token& stop) {
  std::int64_t results = 0;
  for (const api::ProgramPort& port : program.results) results += api::arena_bytes_of(port.type.bytes());
  RunReport report;
  report.model = program.model;
  report.library = "not run";
  report.arena = program.regions[0].arena_bytes;
  report.lower_bound = program.regions[0].lower_bound_bytes;
  report.eager_peak = program.regions[0].eager_bytes;
  report.results = results;
  for (const api::ProgramPort& port : program.parameters) report.parameters += port.type.bytes();
  for (const api::ProgramRegion& region : program.regions) {
    for (const api::ProgramStep& step : region.steps) {
      StepRow row;
      row.kind = api::kind_of(step);
      row.name = region.name.empty() ? step.name : region.name + ", " + step.name;
      row.runs = 1;
      row.bytes = step.bytes;
      report.steps.push_back(std::move(row));
    }
  }
  if (options.price) {
    STITCH_ASSIGN(const auto prices, tuning::price_steps(program, tuner, stop));
    report.price = tuning::sum_of(prices);
    for (std::size_t s = 0; s < prices.size(); ++s) report.steps[s].predicted_us = prices[s].us;
  }
  std::printf("%s\n", options.common.json ? to_json(report, false).c_str() : to_table(report, false).c_str());
  return ExitCode::success;
}

Status write_program(const RunOptions& options, const api::Program& program, FileSystem& files) {
  if (options.program.empty()) return {};
  const bool json = options.program.extension() == ".json";
  return files.publish(options.program,
                       api::encode_program(program, json ? graph::Encoding::json : graph::Encoding::cbor));
}

/// What --lock has; nothing without it.
Result<std::vector<api::LockedProgram>> read_lock(const RunOptions& options, const FileSystem& files) {
  if (options.lock.empty()) return std::vector<api::LockedProgram>();
  STITCH_ASSIGN(const std::string text, files.read(options.lock));
  auto locked = api::parse_lock(text);
  return locked ? std::move(locked) : locked.error().within(options.lock.string());
}

/// Writes the program's lock, and refuses a program that is not what --lock says.
Status compare_with_lock(const RunOptions& options, const api::Program& program, FileSystem& files) {
  if (!options.write_lock.empty()) STITCH_TRY(files.publish(options.write_lock, api::lock_of(program)));
  if (options.lock.empty()) return {};
  STITCH_ASSIGN(const std::string lock, files.read(options.lock));
  const Status same = api::check_lock(lock, program);
  return same ? same : same.error().within(options.lock.string());
}

/// The number of the GPU that --device names; nothing: the emulated device.
std::optional<int> gpu_of(const RunOptions& options) { return tuning::gpu_number(options.common.device); }

/// For --trace.
template <class Traced>
Status write_trace(const RunOptions& options, const Traced& traced, FileSystem& files) {
  return options.trace.empty() ? Status() : files.publish(options.trace, to_json(traced()));
}

/// What the steps took, for whoever traces this process.
void trace_steps(const RunReport& report) {
  for (const StepRow& row : report.steps) {
    trace::event("step", {{"name", row.name},
                          {"kind", row.kind},
                          {"by", to_string(row.by)},
                          {"runs", row.runs},
                          {"launches", row.launches},
                          {"us", row.us.value_or(1e6 * row.seconds)},
                          {"clock", row.us ? "GPU" : "host"}});
  }
}

/// On the emulated device step by step; on a GPU on a stream, or, where that cannot be and where steps are checked,
/// step by step on host memory.
Result<RunReport> run_on_device(const RunOptions& options, const api::Program& program,
                                const std::vector<tuning::ProgramPrice>& prices, client::Inputs from,
                                client::Outputs to, StepLog& log, FileSystem& files) {
  const std::optional<int> gpu = gpu_of(options);
  std::string why_by_steps;
  client::OpenExecutor opened;
  if (gpu) {
    STITCH_ASSIGN(auto executor, client::CudaExecutor::create(*gpu));
    Result<std::unique_ptr<client::StreamProgram>> streamed = make_error(ErrorKind::unsupported, "steps are checked");
    if (!options.check) streamed = client::StreamProgram::open(program, *executor);
    if (streamed) {
      STITCH_ASSIGN(const client::ProgramTime time, (*streamed)->run_timed(from, to));
      RunReport report = report_of(**streamed, time, prices);
      report.on = fmt::format("a stream of {}", options.common.device);
      STITCH_TRY(write_trace(
          options, [&] { return trace_of(program, time, report.on); }, files));
      return report;
    }
    if (streamed.error().kind != ErrorKind::unsupported) return streamed.error();
    why_by_steps = streamed.error().message;
    opened.executor = std::move(executor);
  } else {
    STITCH_ASSIGN(opened, client::open_executor(client::DeviceKind::emulated, 0));
  }
  STITCH_ASSIGN(const auto runner, client::ProgramRunner::open(program, *opened.executor));
  StepTrace steps(program, log);
  STITCH_TRY(runner->run(from, to, options.trace.empty() ? static_cast<client::StepObserver*>(&log) : &steps));
  RunReport report = report_of(*runner, log);
  report.on = gpu ? options.common.device : "the emulated device";
  report.why_by_steps = why_by_steps;
  STITCH_TRY(write_trace(
      options, [&] { return steps.trace(report.on); }, files));
  return report;
}

/// What is known of a program that was made of a model, for its report.
struct OfModel {
  const graph::Graph* whole = nullptr;            ///< when its results are to be checked
  std::vector<tuning::ProgramPrice> prices = {};  ///< of the steps of its first region, when they are to be told
  bool was_made = true;                           ///< just now; false: it came as a file
};

/// Runs what was opened, and prints what became of it.
Result<ExitCode> run_program(const RunOptions& options, api::Program program, const OfModel& model, FileSystem& files) {
  STITCH_TRY(compare_with_lock(options, program, files));
  STITCH_ASSIGN(const std::vector<client::HostMemory> inputs, make_inputs(options, program, files));
  std::vector<client::HostMemory> outputs;
  for (const api::ProgramPort& port : program.results) outputs.emplace_back(port.type.bytes());
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (const client::HostMemory& input : inputs) from.emplace_back(input.span());
  for (const client::HostMemory& output : outputs) to.emplace_back(output.span());
  const Check check = options.against.empty() ? Check::reference : Check::reference_and_eager;
  StepLog log(program, options.check ? check : Check::none);
  trace::event("program", {{"program", program.id.hex()},
                           {"name", program.model},
                           {"device", program.target.device},
                           {"fragments", program.fragments.size()}});
  client::trace_plans(program, model.was_made ? "made" : "file");
  client::trace_missing(program);
  std::optional<trace::Phase> phase(std::in_place, "run", std::initializer_list<trace::Field>{{"name", program.model}});
  STITCH_ASSIGN(RunReport report, run_on_device(options, program, model.prices, from, to, log, files));
  phase.reset();
  trace_steps(report);
  if (!model.prices.empty()) report.price = tuning::sum_of(model.prices);
  STITCH_TRY(write_outputs(options, program, outputs, files));
  if (model.whole != nullptr)
    STITCH_TRY(check_whole(*model.whole, program.target.architecture, inputs, outputs, check, report));
  const bool checked = options.check;
  std::printf("%s\n", options.common.json ? to_json(report, checked).c_str() : to_table(report, checked).c_str());
  const bool right = log.wrong() == 0 && (!report.whole || report.whole->wrong == 0);
  return right ? ExitCode::success : ExitCode::failure;
}

/// The program of a package that fits the GPU of --target best, or else what --device names.
Result<api::Program> program_of(const RunOptions& options, api::Package package) {
  if (options.common.target.empty()) {
    const std::optional<int> gpu = gpu_of(options);
    STITCH_ASSIGN(
        const client::OpenExecutor opened,
        client::open_executor(gpu ? client::DeviceKind::cuda : client::DeviceKind::emulated, gpu.value_or(0)));
    return client::program_for(std::move(package), *opened.executor);
  }
  STITCH_ASSIGN(const DeviceClass device, find_device_class(options.common.target));
  return client::program_for(std::move(package), device.spec);
}

/// Whether it asks for what only a model's graph, or planning, gives.
bool is_of_a_model(const RunOptions& options) {
  return options.whole || options.outline || options.price || options.tunes || !options.program.empty() ||
         !options.database.empty();
}

/// A package runs by one of its programs.
Result<ExitCode> run_package(const RunOptions& options, std::string_view bytes, FileSystem& files) {
  if (is_of_a_model(options)) {
    return make_error(ErrorKind::invalid_argument, "{}: a package, and no model: it can be run and its steps checked",
                      options.model.string());
  }
  auto package = api::decode_package(bytes);
  if (!package) return package.error().within(options.model.string());
  auto program = program_of(options, *std::move(package));
  if (!program) return program.error().within(options.model.string());
  return run_program(options, *std::move(program), {.was_made = false}, files);
}

/// A program runs as it is: nothing is planned, and no compiler is needed.
Result<ExitCode> run_file(const RunOptions& options, std::string_view bytes, FileSystem& files) {
  if (is_of_a_model(options)) {
    return make_error(ErrorKind::invalid_argument, "{}: a program, and no model: it can be run and its steps checked",
                      options.model.string());
  }
  const bool json = options.model.extension() == ".json";
  auto program = api::decode_program(bytes, json ? graph::Encoding::json : graph::Encoding::cbor);
  if (!program) return program.error().within(options.model.string());
  return run_program(options, *std::move(program), {.was_made = false}, files);
}

Result<ExitCode> run(const RunOptions& options) {
  RealFileSystem files;
  STITCH_ASSIGN(const std::string bytes, files.read(options.model));
  if (api::looks_like_package(bytes)) return run_package(options, bytes, files);
  if (api::looks_like_program(bytes)) return run_file(options, bytes, files);
  const Interruption interruption;
  tuning::TunerOptions tuning_options;
  tuning_options.compiles = !options.outline;
  tuning_options.products = options.products;
  if (!options.lock.empty()) tuning_options.stitch.keep = tuning::locked_candidates();
  STITCH_ASSIGN(const auto session, Session::open(options.common, tuning_options, {options.database}));
  std::unique_ptr<tuning::RememberingTuner> memory;
  if (session->store != nullptr) {
    STITCH_ASSIGN(memory, tuning::RememberingTuner::open(*session->store, *session->tuner, session->clock));
  }
  STITCH_ASSIGN(const std::vector<api::LockedProgram> lock, read_lock(options, files));
  const std::string name = options.model.filename().string();
  import::ImportOptions importing;
  importing.constraints = options.common.constraints;
  std::optional<trace::Phase> phase(std::in_place, "import", std::initializer_list<trace::Field>{{"name", name}});
  auto imported = trace::noted(*phase, import::import_bytes(bytes, name, importing));
  if (!imported) return imported.error().within(options.model.string());
  const tuning::ProgramRequest request{.name = name,
                                       .source = sha256(bytes),
                                       .tunes = options.tunes,
                                       .memory = memory.get(),
                                       .progress = progress_display(options.common.quiet),
                                       .stop = interruption.token(),
                                       .lock = lock};
  const graph::Graph whole = imported->graph;
  phase.emplace("plan", std::initializer_list<trace::Field>{{"name", name}});
  auto program = options.outline ? tuning::outline_program(*std::move(imported), *session->tuner, request)
                                 : tuning::make_program(*imported, *session->tuner, request);
  phase.reset();
  if (!program) return program.error().within(options.model.string());
  STITCH_TRY(write_program(options, *program, files));
  if (options.outline) return outline(options, *program, *session->tuner, interruption.token());
  OfModel model{options.whole ? &whole : nullptr, {}, true};
  if (options.price) {
    STITCH_ASSIGN(model.prices, tuning::price_steps(*program, *session->tuner, interruption.token()));
  }
  return run_program(options, *std::move(program), model, files);
}

}  // namespace

void add_run_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "Run a whole model: on the emulated device with library calls on the host, or on a GPU");
  command
      ->add_option("model", options->model,
                   "model file: HLO text, ONNX or fragment (may be gzipped), a program or a package")
      ->required();
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  command->add_option("--input", options->inputs, "NAME=FILE.npy: an input or weight; others are random, by the seed");
  command->add_option("--output", options->output, "folder for the results, a NumPy file each");
  add_products_option(*command, options->products);
  command->add_option("--seed", options->seed, "of the inputs that no file gives")->capture_default_str();
  const std::vector<profiler::Distribution> all = profiler::default_distributions();
  std::vector<std::string> distributions(all.size());
  std::ranges::transform(all, distributions.begin(), [](auto each) { return std::string(to_string(each)); });
  command->add_option("--distribution", options->distribution, "of the same inputs' values")
      ->check(CLI::IsMember(distributions))
      ->capture_default_str();
  command->add_flag("--check", options->check, "compare every step with the float64 reference of what it was given");
  command->add_flag("--check-model", options->whole, "compare the results with the reference of the whole model");
  command
      ->add_option("--against", options->against,
                   "eager: with a check, also how far operators that run one at a time are from the reference")
      ->check(CLI::IsMember({"eager"}));
  CLI::Option* tune = command->add_flag(
      "--tune", options->tunes,
      "of a model: verify the plans' kernels on the device first, and on gpu:N measure several of each");
  command->add_option(
      "--db", options->database,
      "of a model: database whose plans are taken, and that keeps what has to be made; by default none");
  command->add_option("--program", options->program, "write the program here: FILE.json, or CBOR with its code inside");
  command->add_option("--write-lock", options->write_lock,
                      "write the ids of the plans and the hashes of their code here");
  command->add_option("--lock", options->lock, "run only what this lock says");
  CLI::Option* trace = command->add_option(
      "--trace", options->trace,
      "write the steps of the run here, as chrome://tracing and Perfetto read them: by events of a GPU, or host time");
  CLI::Option* outline = command->add_flag("--outline", options->outline, "compile and run nothing: steps and memory");
  command->add_flag(
      "--price", options->price,
      "of a model: launches, library calls and bytes of a run, and what it and its steps are predicted to take");
  outline->excludes("--check")
      ->excludes("--check-model")
      ->excludes("--output")
      ->excludes("--input")
      ->excludes(trace)
      ->excludes(tune);
  command->callback([options, command, &code] {
    if (!options->against.empty() && !options->check && !options->whole)
      throw CLI::ValidationError("--against", "needs --check or --check-model");
    // By default a GPU gets a program that its stream takes.
    if (command->count("--products") == 0 && gpu_of(*options)) {
      const bool library = library::StreamLibraries().are_there();
      options->products = library ? tuning::ProductsBy::stream : tuning::ProductsBy::ours;
    }
    const Result<ExitCode> result = run(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
