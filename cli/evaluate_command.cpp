#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "cli/commands.h"
#include "cli/emulate/kernel_argument.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "import/import.h"

namespace stitch::cli {
namespace {

struct EvaluateCommand {
  std::filesystem::path model, output;
  std::vector<std::string> inputs;   ///< NAME=FILE.npy
  std::vector<std::string> extents;  ///< DIMENSION=N
  bool bounds = false;
  bool round = false;
  bool json = false;
};

std::string_view bytes_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<std::pair<std::string, std::string>> split_at_equals(const std::string& text, const char* form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return make_error(ErrorKind::invalid_argument, "{}: expected {}", text, form);
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

/// Arrays by the names that they were given.
Result<std::map<std::string, NpyArray>> read_arrays(const EvaluateCommand& command, const FileSystem& files) {
  std::map<std::string, NpyArray> arrays;
  for (const std::string& text : command.inputs) {
    STITCH_ASSIGN(const auto named, split_at_equals(text, "NAME=FILE.npy"));
    STITCH_ASSIGN(const std::string bytes, files.read(named.second));
    Result<NpyArray> array = parse_npy(bytes);
    if (!array) return array.error().within(named.second);
    if (!arrays.emplace(named.first, std::move(*array)).second) {
      return make_error(ErrorKind::invalid_argument, "two inputs are named '{}'", named.first);
    }
  }
  return arrays;
}

/// The types under which an array may hold elements of `dtype`: NumPy itself has neither bf16 nor f8.
bool holds(const NpyArray& array, graph::DType dtype) {
  return array.type == npy_type_of(dtype) || array.type == fmt::format("V{}", graph::byte_size(dtype)) ||
         (graph::is_floating(dtype) && graph::byte_size(dtype) == 1 && array.type == "f1");
}

Result<graph::ConstantAttributes> constant_of(const NpyArray& array, graph::DType dtype, const std::string& name) {
  if (!holds(array, dtype)) {
    return make_error(ErrorKind::invalid_argument, "input '{}': an array of {}, the model's parameter is {}", name,
                      array.type, graph::to_string(dtype));
  }
  graph::ConstantAttributes constant;
  constant.type = {dtype, array.shape};
  constant.data.resize(array.data.size());
  std::ranges::transform(array.data, constant.data.begin(), [](char c) { return static_cast<std::byte>(c); });
  return constant;
}

/// The model with open extents as `--extent` has them and its small inputs known, as a framework would compile it.
Result<import::Imported> import_for(const EvaluateCommand& command, const std::map<std::string, NpyArray>& arrays) {
  import::ImportOptions options;
  for (const std::string& text : command.extents) {
    STITCH_ASSIGN(const auto named, split_at_equals(text, "DIMENSION=N"));
    char* end = nullptr;
    const std::int64_t extent = std::strtoll(named.second.c_str(), &end, 10);
    if (*end != 0 || extent < 0) return make_error(ErrorKind::invalid_argument, "{}: expected DIMENSION=N", text);
    options.extents.emplace_back(named.first, extent);
  }
  constexpr std::int64_t most_known_elements = 64;
  for (const auto& [name, array] : arrays) {
    const Result<graph::DType> dtype = dtype_of_npy(array.type);
    if (!dtype || array.count() > most_known_elements) continue;
    STITCH_ASSIGN(graph::ConstantAttributes known, constant_of(array, *dtype, name));
    options.known_inputs.emplace_back(name, std::move(known));
  }
  return import::import_file(command.model, options);
}

Result<std::vector<graph::Tensor>> arguments_of(const import::Imported& imported,
                                                const std::map<std::string, NpyArray>& arrays) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t i = 0; i < imported.parameters.size(); ++i) {
    const std::string& name = imported.parameters[i];
    const graph::TensorType& type = imported.graph.node(imported.graph.parameters()[i]).results[0];
    auto found = arrays.find(name);
    if (found == arrays.end()) found = arrays.find(std::to_string(i));
    if (found == arrays.end()) {
      return make_error(ErrorKind::invalid_argument, "no --input for parameter {}, '{}', {}", i, name,
                        graph::to_string(type));
    }
    STITCH_ASSIGN(const graph::ConstantAttributes constant, constant_of(found->second, type.dtype, name));
    if (constant.type != type) {
      return make_error(ErrorKind::invalid_argument, "input '{}' is {}, the model's parameter is {}", found->first,
                        graph::to_string(constant.type), graph::to_string(type));
    }
    arguments.push_back(graph::tensor_from(constant));
  }
  return arguments;
}

/// Names of files: what a name of a result has beyond letters, digits, '.', '-' and '_' becomes '_'.
std::string file_name_of(std::size_t position, std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-' && c != '_'; }, '_');
  return fmt::format("{}.{}", position, name);
}

NpyArray array_of(const graph::Tensor& tensor) {
  return {npy_type_of(tensor.type.dtype), tensor.type.dims, std::string(bytes_of(graph::to_bytes(tensor)))};
}

NpyArray bounds_of(const graph::Tensor& tensor) {
  graph::Tensor bounds = graph::Tensor::zeros({graph::DType::f64, tensor.type.dims});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) bounds.floats[i] = tensor.bound(i);
  return array_of(bounds);
}

Result<ExitCode> evaluate_model(const EvaluateCommand& command) {
  RealFileSystem files;
  STITCH_ASSIGN(const auto arrays, read_arrays(command, files));
  STITCH_ASSIGN(const import::Imported imported, import_for(command, arrays));
  for (const auto& [name, array] : arrays) {
    const bool is_position = std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_position || std::ranges::find(imported.parameters, name) != imported.parameters.end()) continue;
    return make_error(ErrorKind::invalid_argument, "the model has no parameter '{}' (it has {})", name,
                      fmt::join(imported.parameters, ", "));
  }
  STITCH_ASSIGN(const std::vector<graph::Tensor> arguments, arguments_of(imported, arrays));
  graph::EvaluateOptions options;
  options.bounds = command.bounds;
  options.round = command.round;
  STITCH_ASSIGN(const std::vector<graph::Tensor> results, graph::evaluate(imported.graph, arguments, options));
  STITCH_TRY(files.make_directories(command.output));
  nlohmann::ordered_json listing = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string file = file_name_of(i, imported.results[i]);
    STITCH_TRY(files.publish(command.output / (file + ".npy"), encode_npy(array_of(results[i]))));
    if (command.bounds) {
      STITCH_TRY(files.publish(command.output / (file + ".bound.npy"), encode_npy(bounds_of(results[i]))));
    }
    const std::string type = graph::to_string(results[i].type);
    listing.push_back({{"result", imported.results[i]}, {"type", type}, {"file", file + ".npy"}});
    if (!command.json) std::puts(fmt::format("{} {}", type, (command.output / (file + ".npy")).string()).c_str());
  }
  if (command.json) std::printf("%s\n", nlohmann::ordered_json{{"results", listing}}.dump().c_str());
  return ExitCode::success;
}

}  // namespace

void add_evaluate_command(CLI::App& app, ExitCode& code) {
  auto command = std::make_shared<EvaluateCommand>();
  CLI::App* added = app.add_subcommand("evaluate", "What a model computes, by the reference evaluator in float64");
  added->add_option("model", command->model, "HLO text, an ONNX file or a fragment")->required();
  added->add_option("--input", command->inputs,
                    "NAME=FILE.npy for each parameter, or its position instead of the name");
  added->add_option("--output", command->output, "folder that gets a .npy file for each result")->required();
  added->add_option("--extent", command->extents, "DIMENSION=N for an extent that the model leaves open");
  added->add_flag("--bounds", command->bounds, "also write how far a correct kernel may be from each element");
  added->add_flag("--round", command->round, "round every value on the way to its type");
  added->add_flag("--json", command->json, "print one JSON object");
  added->callback([command, &code] {
    const Result<ExitCode> result = evaluate_model(*command);
    code = result ? *result : report(result.error(), command->json);
  });
}

}  // namespace stitch::cli
