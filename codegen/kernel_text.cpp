#include "codegen/kernel_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/spelling.h"
#include "graph/literal.h"

namespace stitch::codegen {
namespace {

using kernel::Buffer;

void emit_table(Writer& out, int number, const graph::ConstantAttributes& constant) {
  const graph::DType dtype = constant.type.dtype;
  std::string values;
  for (std::int64_t i = 0; i < constant.type.elements(); ++i) {
    values += fmt::format("{}{}", i == 0 ? "" : ", ", stored_literal(dtype, graph::element_bits(constant, i)));
  }
  out.line("__device__ const {} table{}[{}] = {{{}}};", storage_type(dtype), number,
           std::max<std::int64_t>(constant.type.elements(), 1), values);
  out.blank();
}

}  // namespace

void emit_preamble(Writer& out, const std::string& comment, std::string_view header) {
  if (!comment.empty()) out.append(comment);
  if (!header.empty()) out.line("#include \"stitch/{}\"", header);
  out.line("#include \"stitch/kernel.cuh\"");
  out.blank();
  out.line("namespace {{");
  out.blank();
  out.line("using namespace stitch;");
  out.blank();
}

void emit_namespace_end(Writer& out) {
  out.line("}}  // namespace");
  out.blank();
}

std::string stored_literal(graph::DType dtype, std::uint64_t bits) {
  // 16- and 8-bit floats and pred are given by their bits, and so is what no literal of the language names.
  if (needs_widening(dtype)) return fmt::format("{{{:#x}}}", bits);
  if (!graph::is_floating(dtype) || std::isfinite(graph::load_element(dtype, reinterpret_cast<std::byte*>(&bits))))
    return literal(dtype, bits);
  return fmt::format("__builtin_bit_cast({}, {:#x}{})", storage_type(dtype), bits,
                     dtype == graph::DType::f64 ? "ull" : "u");
}

void emit_tables(Writer& out, const graph::Graph& graph, const kernel::KernelProgram& program) {
  std::set<Buffer> done;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      for (const kernel::Item& item : group.structure.program->items()) {
        if (item.kind != kernel::Item::Kind::load || item.buffer.kind != Buffer::Kind::table) continue;
        if (!done.insert(item.buffer).second) continue;
        emit_table(out, item.buffer.number, graph.node(item.buffer.number).as<graph::ConstantAttributes>());
      }
    }
  }
}

std::string describe(const graph::Graph& graph, const kernel::GroupProgram& group) {
  std::map<std::string_view, int> counts;
  for (const kernel::Item& item : group.structure.program->items()) {
    if (item.kind == kernel::Item::Kind::compute && item.origin.node >= 0) ++counts[graph::to_string(item.op)];
  }
  std::string text;
  for (const kernel::Anchor& anchor : group.structure.anchors) {
    if (anchor.kind == kernel::Anchor::Kind::store) continue;
    const graph::Node& node = graph.node(anchor.node);
    text += fmt::format("{}{}{} of %{}", text.empty() ? "" : ", ",
                        anchor.kind == kernel::Anchor::Kind::partial ? "partial " : "",
                        node.op == graph::Op::reduce ? graph::to_string(node.as<graph::ReduceAttributes>().kind)
                                                     : graph::to_string(node.op),
                        anchor.node);
  }
  std::string operators;
  for (const auto& [name, count] : counts)
    operators += fmt::format("{}{} {}", operators.empty() ? "" : ", ", count, name);
  if (!operators.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", operators);
  return text.empty() ? "copy" : text;
}

std::string launch_bounds(int threads, int blocks_per_sm) {
  if (blocks_per_sm < 1) return fmt::format("__launch_bounds__({})", threads);
  return fmt::format("__launch_bounds__({}, {})", threads, blocks_per_sm);
}

std::string pointer_parameter(const GroupPointers::Pointer& pointer) {
  const bool constant = pointer.buffer.kind == Buffer::Kind::input;
  return fmt::format("{}{}*{} {}", constant ? "const " : "", storage_type(pointer.dtype),
                     pointer.overlaps ? "" : " __restrict__", pointer.name);
}

void emit_wait(Writer& out, const std::vector<GroupPointers::Pointer>& pointers) {
  std::vector<std::string> names;
  for (const GroupPointers::Pointer& each : pointers) names.push_back(each.name);
  out.line("await_predecessor({});", fmt::join(names, ", "));
}

void append_body(Writer& out, const std::string& body) {
  std::size_t start = 0;
  while (start < body.size()) {
    const std::size_t end = body.find('\n', start);
    const std::string text = body.substr(start, end - start);
    if (text.empty()) {
      out.blank();
    } else if (text.starts_with('#')) {
      out.append(text + "\n");
    } else {
      out.line("{}", text);
    }
    start = end + 1;
  }
}

}  // namespace stitch::codegen
