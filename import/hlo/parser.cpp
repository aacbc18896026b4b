#include "import/hlo/parser.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_map>

#include "graph/dtype.h"
#include "import/hlo/scanner.h"

namespace stitch::import::hlo {
namespace {

constexpr int deepest_shape = 64;

/// The IR's dtype of an HLO element type. XLA's "f8e4m3" has infinities; the IR's f8e4m3 is the finite one ("fn").
std::optional<graph::DType> dtype_of(std::string_view element) {
  if (element == "f8e4m3") return std::nullopt;
  if (element == "f8e4m3fn") return graph::DType::f8e4m3;
  return graph::dtype_from_name(element);
}

Status parse_layout(Scanner& scanner, Shape& shape) {
  const Position at = scanner.position();
  STITCH_ASSIGN(const std::string_view layout, scanner.balanced());
  Scanner inside(layout.substr(1), at);
  while (std::isdigit(static_cast<unsigned char>(inside.peek())) != 0) {
    STITCH_ASSIGN(const std::int64_t dimension, inside.integer("a dimension"));
    shape.minor_to_major.push_back(dimension);
    if (!inside.take(",")) break;
  }
  shape.tiled = layout.find("T(") != std::string_view::npos;
  return {};
}

Status parse_extents(Scanner& scanner, Shape& shape) {
  std::int64_t elements = 1;
  while (!scanner.take("]")) {
    if (!shape.dims.empty() || shape.dynamic) STITCH_TRY(scanner.expect(",", "between extents"));
    if (scanner.take("?")) {
      shape.dynamic = true;
      shape.dims.push_back(1);
      continue;
    }
    shape.dynamic |= scanner.take("<=");
    const Position at = scanner.position();
    STITCH_ASSIGN(const std::int64_t extent, scanner.integer("an extent"));
    if (extent < 0) return parse_error(at, "an extent is negative");
    shape.dims.push_back(extent);
    if (!graph::multiply_extent(elements, extent)) return parse_error(at, "the shape has too many elements");
  }
  return {};
}

Result<Shape> parse_shape(Scanner& scanner, int depth) {
  Shape shape;
  if (depth > deepest_shape) return scanner.error("the shape is nested too deeply");
  if (scanner.take("(")) {
    shape.kind = Shape::Kind::tuple;
    while (!scanner.take(")")) {
      if (!shape.elements.empty()) STITCH_TRY(scanner.expect(",", "between the shapes of a tuple"));
      STITCH_ASSIGN(Shape element, parse_shape(scanner, depth + 1));
      shape.elements.push_back(std::move(element));
    }
    return shape;
  }
  shape.element = scanner.word();
  if (shape.element.empty()) return scanner.error("expected a shape");
  STITCH_TRY(scanner.expect("[", "after the element type"));
  STITCH_TRY(parse_extents(scanner, shape));
  shape.dtype = dtype_of(shape.element);
  if (shape.element == "token" || shape.element == "opaque") shape.kind = Shape::Kind::other;
  if (scanner.here() == '{') STITCH_TRY(parse_layout(scanner, shape));
  return shape;
}

/// Where a shape stands that says nothing new.
Status skip_shape(Scanner& scanner) {
  const Result<Shape> shape = parse_shape(scanner, 0);
  return shape ? Status() : shape.error();
}

using Names = std::unordered_map<std::string_view, std::int32_t>;

/// Operands are names, in older text each behind its shape.
Status parse_operands(Scanner& scanner, const Names& names, Instruction& instruction) {
  while (!scanner.take(")")) {
    if (!instruction.operands.empty()) STITCH_TRY(scanner.expect(",", "between operands"));
    Position at = scanner.position();
    if (scanner.peek() == '(') {
      STITCH_TRY(skip_shape(scanner));
      at = scanner.position();
    }
    STITCH_ASSIGN(std::string_view name, scanner.name("an operand"));
    if (scanner.here() == '[') {
      STITCH_TRY(scanner.skip_balanced());
      if (scanner.here() == '{') STITCH_TRY(scanner.skip_balanced());
      at = scanner.position();
      STITCH_ASSIGN(name, scanner.name("an operand"));
    }
    const auto found = names.find(name);
    if (found == names.end()) return parse_error(at, fmt::format("operand '{}' is not defined before", name));
    instruction.operands.push_back(found->second);
  }
  return {};
}

Status parse_attributes(Scanner& scanner, std::vector<Attribute>& attributes) {
  while (scanner.take(",")) {
    Attribute attribute;
    attribute.key = scanner.word();
    if (attribute.key.empty()) return scanner.error("expected an attribute");
    STITCH_TRY(scanner.expect("=", "after the attribute's name"));
    attribute.at = scanner.position();
    STITCH_ASSIGN(attribute.value, scanner.attribute_value());
    attributes.push_back(attribute);
  }
  return {};
}

Result<Instruction> parse_instruction(Scanner& scanner, const Names& names) {
  Instruction instruction;
  instruction.at = scanner.position();
  STITCH_ASSIGN(instruction.name, scanner.name("an instruction"));
  STITCH_TRY(scanner.expect("=", "after the instruction's name"));
  STITCH_ASSIGN(instruction.shape, parse_shape(scanner));
  instruction.opcode = scanner.word();
  if (instruction.opcode.empty()) return scanner.error("expected an operator");
  if (instruction.opcode == "parameter" || instruction.opcode == "constant") {
    if (scanner.peek() != '(') return scanner.error("expected '('");
    instruction.payload_at = scanner.position();
    STITCH_ASSIGN(const std::string_view payload, scanner.balanced());
    instruction.payload = payload.substr(1, payload.size() - 2);
    ++instruction.payload_at.column;
  } else {
    STITCH_TRY(scanner.expect("(", "before the operands"));
    STITCH_TRY(parse_operands(scanner, names, instruction));
  }
  STITCH_TRY(parse_attributes(scanner, instruction.attributes));
  return instruction;
}

Status place_parameter(Computation& computation, std::int32_t index) {
  const Instruction& instruction = computation.instructions[index];
  Scanner scanner(instruction.payload, instruction.payload_at);
  STITCH_ASSIGN(const std::int64_t number, scanner.integer("a parameter's number"));
  if (!scanner.at_end()) return scanner.error("expected ')'");
  if (number < 0 || number > (std::int64_t{1} << 20)) {
    return parse_error(instruction.payload_at, fmt::format("there is no parameter {}", number));
  }
  const std::size_t at = number;
  if (computation.parameters.size() <= at) computation.parameters.resize(at + 1, -1);
  if (computation.parameters[at] >= 0) {
    return parse_error(instruction.at, fmt::format("parameter {} appears twice", number));
  }
  computation.parameters[at] = index;
  return {};
}

Status check_complete(const Computation& computation, Scanner& scanner) {
  if (computation.instructions.empty()) return scanner.error("the computation has no instructions");
  for (std::size_t i = 0; i < computation.parameters.size(); ++i) {
    if (computation.parameters[i] < 0) {
      return parse_error(computation.at, fmt::format("computation '{}' lacks parameter {}", computation.name, i));
    }
  }
  return {};
}

/// "%name (a: f32[]) -> f32[] {", or just "name {".
Status parse_signature(Scanner& scanner, Computation& computation) {
  computation.at = scanner.position();
  STITCH_ASSIGN(computation.name, scanner.name("a computation"));
  if (scanner.peek() == '(') STITCH_TRY(scanner.skip_balanced());
  if (scanner.take("->")) STITCH_TRY(skip_shape(scanner));
  return scanner.expect("{", "to begin the computation");
}

Result<Computation> parse_computation(Scanner& scanner) {
  Computation computation;
  STITCH_TRY(parse_signature(scanner, computation));
  Names names;
  bool has_root = false;
  while (scanner.peek() != '}') {
    if (scanner.at_end()) return scanner.error(fmt::format("computation '{}' is not closed", computation.name));
    const std::int32_t index = computation.instructions.size();
    Scanner ahead = scanner;
    const bool root = ahead.word() == "ROOT";
    if (root) scanner = ahead;
    if (root && has_root) return scanner.error("the computation has two roots");
    has_root |= root;
    if (root || !has_root) computation.root = index;
    STITCH_ASSIGN(Instruction instruction, parse_instruction(scanner, names));
    if (!names.emplace(instruction.name, index).second) {
      return parse_error(instruction.at, fmt::format("'{}' is defined twice", instruction.name));
    }
    const bool is_parameter = instruction.opcode == "parameter";
    computation.instructions.push_back(std::move(instruction));
    if (is_parameter) STITCH_TRY(place_parameter(computation, index));
  }
  STITCH_TRY(check_complete(computation, scanner));
  scanner.take("}");
  std::vector<Attribute> ignored;
  STITCH_TRY(parse_attributes(scanner, ignored));
  return computation;
}

/// "{1, 0}"
Result<std::vector<std::int64_t>> parse_path(Scanner& scanner) {
  std::vector<std::int64_t> path;
  STITCH_TRY(scanner.expect("{", "to begin a tuple's index"));
  while (!scanner.take("}")) {
    if (!path.empty()) STITCH_TRY(scanner.expect(",", "between indices"));
    STITCH_ASSIGN(const std::int64_t index, scanner.integer("an index"));
    path.push_back(index);
  }
  return path;
}

/// "{ {0}: (1, {}, may-alias), {1}: (2, {}, must-alias) }". Whether a result must take the memory is nothing that we
/// would treat otherwise: whoever runs the plan passes one buffer or two.
Result<std::vector<Alias>> parse_aliases(const Attribute& attribute) {
  Scanner scanner(attribute.value, attribute.at);
  std::vector<Alias> aliases;
  STITCH_TRY(scanner.expect("{", "to begin the aliases"));
  while (!scanner.take("}")) {
    if (!aliases.empty()) STITCH_TRY(scanner.expect(",", "between aliases"));
    Alias alias;
    alias.at = scanner.position();
    STITCH_ASSIGN(alias.result, parse_path(scanner));
    STITCH_TRY(scanner.expect(":", "behind the result's index"));
    STITCH_TRY(scanner.expect("(", "to begin the parameter"));
    STITCH_ASSIGN(alias.parameter, scanner.integer("a parameter's number"));
    STITCH_TRY(scanner.expect(",", "behind the parameter's number"));
    STITCH_ASSIGN(alias.element, parse_path(scanner));
    if (scanner.take(",")) {
      const Position at = scanner.position();
      const std::string_view kind = scanner.word();
      if (kind != "may-alias" && kind != "must-alias")
        return parse_error(at, fmt::format("'{}' is neither may-alias nor must-alias", kind));
    }
    STITCH_TRY(scanner.expect(")", "to end the parameter"));
    aliases.push_back(std::move(alias));
  }
  return aliases;
}

/// The tables of source locations that newer versions print between header and computations: numbered lines.
void skip_source_tables(Scanner& scanner) {
  constexpr std::array<std::string_view, 4> titles = {"FileNames", "FunctionNames", "FileLocations", "StackFrames"};
  for (;;) {
    Scanner ahead = scanner;
    const std::string_view title = ahead.word();
    if (std::find(titles.begin(), titles.end(), title) == titles.end()) return;
    scanner = ahead;
    while (std::isdigit(static_cast<unsigned char>(scanner.peek())) != 0) scanner.skip_line();
  }
}

}  // namespace

Result<Shape> parse_shape(Scanner& scanner) { return parse_shape(scanner, 0); }

Result<Module> parse_module(std::string_view text) {
  Scanner scanner(text);
  Module module;
  if (scanner.word() != "HloModule") return parse_error({1, 1}, "expected 'HloModule'");
  STITCH_ASSIGN(module.name, scanner.name("the module's name"));
  std::vector<Attribute> attributes;
  STITCH_TRY(parse_attributes(scanner, attributes));
  for (const Attribute& attribute : attributes) {
    if (attribute.key != "input_output_alias") continue;
    STITCH_ASSIGN(module.aliases, parse_aliases(attribute));
  }
  skip_source_tables(scanner);
  Names names;
  std::optional<std::int32_t> entry;
  while (!scanner.at_end()) {
    const std::int32_t index = module.computations.size();
    Scanner ahead = scanner;
    const bool is_entry = ahead.word() == "ENTRY";
    if (is_entry) {
      if (entry) return scanner.error("the module has two entries");
      scanner = ahead;
      entry = index;
    }
    STITCH_ASSIGN(Computation computation, parse_computation(scanner));
    if (!names.emplace(computation.name, index).second) {
      return parse_error(computation.at, fmt::format("computation '{}' is defined twice", computation.name));
    }
    module.computations.push_back(std::move(computation));
  }
  // XLA would take the last computation; but a file that was cut off ends without one, too.
  if (!entry) return scanner.error("the module has no ENTRY computation");
  module.entry = *entry;
  return module;
}

}  // namespace stitch::import::hlo
