#include "import/hlo/threefry.h"

#include <array>
#include <bit>
#include <map>

#include "base/random.h"
#include "import/hlo/element_program.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;
using graph::Graph;
using graph::TensorType;

constexpr std::size_t most_steps = 1024;  // the written-out function has about 150 for an element
constexpr int samples = 12;

/// The element of `parameter` that broadcasting puts at `index` of `result`; nothing when the shapes do not fit.
std::optional<std::int64_t> broadcast_source(const Dims& parameter, const Dims& result, std::int64_t index) {
  if (parameter.empty()) return 0;
  if (parameter.size() != result.size()) return std::nullopt;
  Dims at(result.size());
  for (std::size_t d = result.size(); d-- > 0;) {
    if (parameter[d] != result[d] && parameter[d] != 1) return std::nullopt;
    at[d] = parameter[d] == 1 ? 0 : index % result[d];
    index /= result[d];
  }
  std::int64_t source = 0;
  for (std::size_t d = 0; d < parameter.size(); ++d) source = source * parameter[d] + at[d];
  return source;
}

bool has_signature(const Graph& graph) {
  if (graph.parameters().size() != 4 || graph.results().size() != 2) return false;
  const TensorType& type = graph.type(graph.results()[0]);
  if (type.dtype != graph::DType::u32 || graph.type(graph.results()[1]) != type || type.elements() == 0) return false;
  for (const graph::NodeId id : graph.parameters()) {
    const TensorType& parameter = graph.node(id).type();
    if (parameter.dtype != graph::DType::u32 || !broadcast_source(parameter.dims, type.dims, 0)) return false;
  }
  return true;
}

/// One random trial at one element of the results.
bool agrees(const Graph& graph, std::int64_t index, Random& random) {
  const std::array<Element, 2> outputs = {{{graph.results()[0], index}, {graph.results()[1], index}}};
  const auto program = ElementProgram::compile(graph, outputs, most_steps);
  if (!program) return false;
  std::map<ElementProgram::Input, std::uint32_t> content;
  const auto word_at = [&](const ElementProgram::Input& input) {
    return content.try_emplace(input, static_cast<std::uint32_t>(random())).first->second;
  };
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < 4; ++i) {
    const Dims& dims = graph.node(graph.parameters()[i]).type().dims;
    const std::int64_t source = *broadcast_source(dims, graph.type(graph.results()[0]).dims, index);
    words[i] = word_at({static_cast<std::int64_t>(i), source});
  }
  std::vector<Scalar> inputs;
  for (const ElementProgram::Input& input : program->inputs()) inputs.push_back({word_at(input), 0});
  const auto results = program->run(inputs);
  if (!results) return false;
  const ThreefryBlock expected = threefry2x32(words[0], words[1], words[2], words[3]);
  return (*results)[0].integer == expected.x0 && (*results)[1].integer == expected.x1;
}

}  // namespace

ThreefryBlock threefry2x32(std::uint32_t key0, std::uint32_t key1, std::uint32_t x0, std::uint32_t x1) {
  constexpr std::array<std::array<int, 4>, 2> rotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<std::uint32_t, 3> key = {key0, key1, key0 ^ key1 ^ 0x1BD11BDAU};
  x0 += key[0];
  x1 += key[1];
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : rotations[group % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, rotation) ^ x0;
    }
    x0 += key[(group + 1) % 3];
    x1 += key[(group + 2) % 3] + group + 1;
  }
  return {x0, x1};
}

bool is_threefry2x32(const Graph& graph) {
  if (!has_signature(graph)) return false;
  const std::int64_t elements = graph.type(graph.results()[0]).elements();
  Random random(0x5717c4);
  for (int sample = 0; sample < samples; ++sample) {
    const std::int64_t index = random.below(elements);
    if (!agrees(graph, index, random)) return false;
  }
  return agrees(graph, 0, random) && agrees(graph, elements - 1, random);
}

}  // namespace stitch::import::hlo
