#include "lab/differential/differential_case.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/gzip.h"
#include "graph/codec/codec_constant.h"

namespace stitch::lab {
namespace {

using nlohmann::json;

constexpr std::int64_t most_file_bytes = std::int64_t{2} << 30;
constexpr std::int64_t most_rank = 64;

Result<graph::ConstantAttributes> tensor_from_document(const json& document) {
  graph::ConstantAttributes tensor;
  const auto name = document.at("type").get<std::string>();
  const auto dtype = graph::dtype_from_name(name);
  if (!dtype) return make_error(ErrorKind::parse, "'{}' is no element type", name);
  tensor.type = {*dtype, document.at("dims").get<graph::Dims>()};
  if (tensor.type.rank() > most_rank || std::ranges::any_of(tensor.type.dims, [](auto n) { return n < 0; })) {
    return make_error(ErrorKind::parse, "{} is no shape", graph::to_string(tensor.type));
  }
  const auto bytes = graph::from_base64(document.at("data").get_ref<const std::string&>());
  if (!bytes) return make_error(ErrorKind::parse, "its data are no base64");
  std::int64_t wanted = graph::byte_size(*dtype);
  for (const std::int64_t extent : tensor.type.dims) {
    if (extent != 0 && wanted > most_file_bytes / extent) return make_error(ErrorKind::parse, "its shape is too large");
    wanted *= extent;
  }
  if (static_cast<std::int64_t>(bytes->size()) != wanted) {
    return make_error(ErrorKind::parse, "{} bytes of data for {}", bytes->size(), graph::to_string(tensor.type));
  }
  tensor.data.resize(bytes->size());
  std::ranges::transform(*bytes, tensor.data.begin(), [](char c) { return static_cast<std::byte>(c); });
  return tensor;
}

Result<std::vector<graph::ConstantAttributes>> tensors_from(const json& documents, std::string_view kind) {
  std::vector<graph::ConstantAttributes> tensors;
  for (const json& document : documents) {
    Result<graph::ConstantAttributes> tensor = tensor_from_document(document);
    if (!tensor) return tensor.error().within(fmt::format("{} {}", kind, tensors.size()));
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

Result<DifferentialCase> case_from(const json& document) {
  DifferentialCase one;
  one.name = document.at("name").get<std::string>();
  one.subject = document.at("subject").get<std::string>();
  one.simplify = document.value("simplify", true);
  if (document.contains("model_base64")) {
    auto bytes = graph::from_base64(document["model_base64"].get_ref<const std::string&>());
    if (!bytes) return make_error(ErrorKind::parse, "its model is no base64");
    one.model = std::move(*bytes);
  } else {
    one.model = document.at("model").get<std::string>();
  }
  STITCH_ASSIGN(one.inputs, tensors_from(document.at("inputs"), "input"));
  STITCH_ASSIGN(one.outputs, tensors_from(document.at("outputs"), "output"));
  for (const json& input : document["inputs"]) {
    if (input.contains("name")) one.names.push_back(input["name"].get<std::string>());
  }
  if (!one.names.empty() && one.names.size() != one.inputs.size()) {
    return make_error(ErrorKind::parse, "some of its inputs have names and some have none");
  }
  return one;
}

Result<DifferentialFile> file_from(const json& document) {
  DifferentialFile file;
  file.implementation = document.at("implementation").get<std::string>();
  file.versions = document.at("versions").get<std::map<std::string, std::string>>();
  file.flushes_subnormals = document.value("flushes_subnormals", false);
  for (const json& one : document.at("cases")) {
    Result<DifferentialCase> read = case_from(one);
    if (!read) return read.error().within(fmt::format("case {} ({})", file.cases.size(), one.value("name", "?")));
    file.cases.push_back(std::move(*read));
  }
  return file;
}

}  // namespace

Result<DifferentialFile> read_differential_file(const std::filesystem::path& path, const FileSystem& files) {
  STITCH_ASSIGN(std::string text, files.read(path));
  if (is_gzip(text)) {
    Result<std::string> unpacked = gunzip(text, most_file_bytes);
    if (!unpacked) return unpacked.error().within(path.string());
    text = std::move(*unpacked);
  }
  try {
    Result<DifferentialFile> file = file_from(json::parse(text));
    if (!file) return file.error().within(path.string());
    return file;
  } catch (const json::exception& error) {
    return make_error(ErrorKind::parse, "{} holds no cases: {}", path.string(), error.what());
  }
}

}  // namespace stitch::lab
