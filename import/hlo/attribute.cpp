#include "import/hlo/attribute.h"

#include <algorithm>
#include <array>

#include "import/hlo/scanner.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;

/// Window and padding figures enter products of three in shape inference.
constexpr std::int64_t largest_figure = std::int64_t{1} << 31;

Result<std::int64_t> figure(Scanner& scanner) {
  const Position at = scanner.position();
  STITCH_ASSIGN(const std::int64_t value, scanner.integer("a number"));
  if (value > largest_figure || value < -largest_figure) return parse_error(at, "the number is out of range");
  return value;
}

/// "1_2_0x3_4": rows of figures; '_' inside, 'x' between. An 'x' or '_' is no part of a number, so integers suffice.
Result<std::vector<Dims>> figure_rows(Scanner& scanner) {
  std::vector<Dims> rows;
  do {
    Dims row;
    do {
      STITCH_ASSIGN(const std::int64_t value, figure(scanner));
      row.push_back(value);
    } while (scanner.take("_"));
    rows.push_back(std::move(row));
  } while (scanner.take("x"));
  return rows;
}

Result<Dims> figure_column(Scanner& scanner, std::size_t rank) {
  const Position at = scanner.position();
  STITCH_ASSIGN(const std::vector<Dims> rows, figure_rows(scanner));
  Dims column;
  for (const Dims& row : rows) {
    if (row.size() != 1) return parse_error(at, "expected one number per dimension");
    column.push_back(row[0]);
  }
  if (column.size() != rank) return parse_error(at, fmt::format("{} dimensions where {} are", column.size(), rank));
  return column;
}

Status window_padding(Scanner& scanner, std::size_t rank, WindowText& window) {
  const Position at = scanner.position();
  STITCH_ASSIGN(const std::vector<Dims> rows, figure_rows(scanner));
  if (rows.size() != rank) return parse_error(at, fmt::format("{} dimensions where {} are", rows.size(), rank));
  for (std::size_t d = 0; d < rank; ++d) {
    if (rows[d].size() != 2) return parse_error(at, "expected LOW_HIGH per dimension");
    window.low[d] = rows[d][0];
    window.high[d] = rows[d][1];
  }
  return {};
}

Status window_field(Scanner& scanner, std::size_t rank, WindowText& window) {
  const Position at = scanner.position();
  const std::string_view field = scanner.word();
  STITCH_TRY(scanner.expect("=", "in the window"));
  if (field == "pad") return window_padding(scanner, rank, window);
  if (field == "rhs_reversal") {
    STITCH_ASSIGN(const Dims flags, figure_column(scanner, rank));
    std::transform(flags.begin(), flags.end(), window.reversal.begin(), [](std::int64_t flag) { return flag != 0; });
    return {};
  }
  struct Field {
    std::string_view name;
    Dims WindowText::*member;
  };
  constexpr std::array<Field, 4> fields = {{{"size", &WindowText::sizes},
                                            {"stride", &WindowText::strides},
                                            {"lhs_dilate", &WindowText::base_dilation},
                                            {"rhs_dilate", &WindowText::window_dilation}}};
  for (const Field& row : fields) {
    if (row.name != field) continue;
    STITCH_ASSIGN(window.*row.member, figure_column(scanner, rank));
    return {};
  }
  return parse_error(at, fmt::format("the window has an unknown field '{}'", field));
}

/// One part of dim_labels; `batch` and `feature` are the letters of the two dimensions that are not spatial.
Result<DimLabels::Side> label_side(std::string_view labels, char batch, char feature, Position at) {
  DimLabels::Side side;
  if (labels.size() < 2) return parse_error(at, fmt::format("dim_labels: '{}' is too short", labels));
  side.spatial.assign(labels.size() - 2, -1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const char c = labels[i];
    std::int64_t* slot = nullptr;
    if (c == batch) {
      slot = &side.batch;
    } else if (c == feature) {
      slot = &side.feature;
    } else if (c >= '0' && static_cast<std::size_t>(c - '0') < side.spatial.size()) {
      slot = &side.spatial[c - '0'];
    }
    if (slot == nullptr || *slot >= 0) return parse_error(at, fmt::format("dim_labels: bad '{}' in '{}'", c, labels));
    *slot = i;
  }
  return side;
}

}  // namespace

const Attribute* find_attribute(const Instruction& instruction, std::string_view key) {
  for (const Attribute& attribute : instruction.attributes) {
    if (attribute.key == key) return &attribute;
  }
  return nullptr;
}

std::string_view text_attribute(const Instruction& instruction, std::string_view key, std::string_view fallback) {
  const Attribute* attribute = find_attribute(instruction, key);
  return attribute == nullptr ? fallback : attribute->value;
}

Result<const Attribute*> require_attribute(const Instruction& instruction, std::string_view key) {
  if (const Attribute* attribute = find_attribute(instruction, key)) return attribute;
  return parse_error(instruction.at,
                     fmt::format("{} '{}' lacks the attribute '{}'", instruction.opcode, instruction.name, key));
}

Result<Dims> list_attribute(const Instruction& instruction, std::string_view key) {
  const Attribute* attribute = find_attribute(instruction, key);
  Dims list;
  if (attribute == nullptr) return list;
  Scanner scanner(attribute->value, attribute->at);
  STITCH_TRY(scanner.expect("{", fmt::format("in attribute '{}'", key)));
  while (!scanner.take("}")) {
    if (!list.empty()) STITCH_TRY(scanner.expect(",", "between numbers"));
    STITCH_ASSIGN(const std::int64_t value, scanner.integer("a number"));
    list.push_back(value);
  }
  return list;
}

Result<std::int64_t> integer_attribute(const Instruction& instruction, std::string_view key) {
  STITCH_ASSIGN(const Attribute* attribute, require_attribute(instruction, key));
  Scanner scanner(attribute->value, attribute->at);
  return scanner.integer(fmt::format("a number for '{}'", key));
}

Result<std::int64_t> integer_attribute(const Instruction& instruction, std::string_view key, std::int64_t fallback) {
  if (find_attribute(instruction, key) == nullptr) return fallback;
  return integer_attribute(instruction, key);
}

Result<bool> flag_attribute(const Instruction& instruction, std::string_view key) {
  const Attribute* attribute = find_attribute(instruction, key);
  if (attribute == nullptr || attribute->value == "false") return false;
  if (attribute->value == "true") return true;
  return parse_error(attribute->at, fmt::format("attribute '{}' is neither true nor false", key));
}

Result<std::vector<std::string_view>> names_attribute(const Attribute& attribute) {
  std::vector<std::string_view> names;
  Scanner scanner(attribute.value, attribute.at);
  const bool list = scanner.take("{");
  while (!list || !scanner.take("}")) {
    if (!names.empty()) STITCH_TRY(scanner.expect(",", "between names"));
    STITCH_ASSIGN(const std::string_view name, scanner.name("a computation's name"));
    names.push_back(name);
    if (!list) break;
  }
  return names;
}

std::string_view unquoted(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return value;
  return value.substr(1, value.size() - 2);
}

Result<SliceText> slice_attribute(const Instruction& instruction) {
  STITCH_ASSIGN(const Attribute* attribute, require_attribute(instruction, "slice"));
  Scanner scanner(attribute->value, attribute->at);
  SliceText slice;
  STITCH_TRY(scanner.expect("{", "in attribute 'slice'"));
  while (!scanner.take("}")) {
    if (!slice.starts.empty()) STITCH_TRY(scanner.expect(",", "between the ranges of a slice"));
    STITCH_TRY(scanner.expect("[", "in attribute 'slice'"));
    STITCH_ASSIGN(const std::int64_t start, scanner.integer("a start"));
    STITCH_TRY(scanner.expect(":", "between start and limit"));
    STITCH_ASSIGN(const std::int64_t limit, scanner.integer("a limit"));
    std::int64_t stride = 1;
    if (scanner.take(":")) {
      STITCH_ASSIGN(stride, scanner.integer("a stride"));
    }
    STITCH_TRY(scanner.expect("]", "in attribute 'slice'"));
    slice.starts.push_back(start);
    slice.limits.push_back(limit);
    slice.strides.push_back(stride);
  }
  return slice;
}

Result<PaddingText> padding_attribute(const Instruction& instruction) {
  PaddingText padding;
  const Attribute* attribute = find_attribute(instruction, "padding");
  if (attribute == nullptr) return padding;  // a scalar has none
  Scanner scanner(attribute->value, attribute->at);
  STITCH_ASSIGN(const std::vector<Dims> rows, figure_rows(scanner));
  for (const Dims& row : rows) {
    if (row.size() < 2 || row.size() > 3) return parse_error(attribute->at, "expected LOW_HIGH or LOW_HIGH_INTERIOR");
    padding.low.push_back(row[0]);
    padding.high.push_back(row[1]);
    padding.interior.push_back(row.size() == 3 ? row[2] : 0);
  }
  return padding;
}

Result<WindowText> window_attribute(const Instruction& instruction, std::size_t rank) {
  const Dims zeros(rank, 0), ones(rank, 1);
  WindowText window{ones, ones, zeros, zeros, ones, ones, std::vector<bool>(rank, false)};
  const Attribute* attribute = find_attribute(instruction, "window");
  if (attribute == nullptr) return window;
  Scanner scanner(attribute->value, attribute->at);
  STITCH_TRY(scanner.expect("{", "in attribute 'window'"));
  while (!scanner.take("}")) STITCH_TRY(window_field(scanner, rank, window));
  return window;
}

Result<DimLabels> dim_labels_attribute(const Instruction& instruction) {
  STITCH_ASSIGN(const Attribute* attribute, require_attribute(instruction, "dim_labels"));
  const std::string_view value = attribute->value;
  const std::size_t underscore = value.find('_');
  const std::size_t arrow = value.find("->");
  if (underscore == std::string_view::npos || arrow == std::string_view::npos || arrow < underscore) {
    return parse_error(attribute->at, "dim_labels: expected INPUT_KERNEL->OUTPUT");
  }
  DimLabels labels;
  const std::string_view kernel = value.substr(underscore + 1, arrow - underscore - 1);
  STITCH_ASSIGN(labels.input, label_side(value.substr(0, underscore), 'b', 'f', attribute->at));
  STITCH_ASSIGN(labels.kernel, label_side(kernel, 'i', 'o', attribute->at));
  STITCH_ASSIGN(labels.output, label_side(value.substr(arrow + 2), 'b', 'f', attribute->at));
  return labels;
}

}  // namespace stitch::import::hlo
