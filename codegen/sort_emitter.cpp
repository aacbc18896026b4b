#include "codegen/sort_emitter.h"

#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::SortPlan;

namespace {

std::string_view word_type(SortPlan::Word word) {
  switch (word) {
    case SortPlan::Word::u32: return "u32";
    case SortPlan::Word::u64: return "u64";
    case SortPlan::Word::pair: break;
  }
  return "KeyAndPlace";
}

}  // namespace

SortEmitter::SortEmitter(GroupScope& scope, int anchor)
    : scope_(scope),
      group_(scope.group),
      out_(scope.out),
      axes_(scope),
      items_(scope),
      loads_(scope),
      anchor_(scope.anchor(anchor)),
      node_(scope.graph.node(anchor_.node)),
      plan_(kernel::sort_plan(group_.structure, group_.mapping, scope.schedule.threads)),
      in_lines_(axes_.range_guard(kernel::AxisSet::first(axes_.count()) - anchor_.reduced, false)) {}

std::string SortEmitter::title() const {
  const auto& a = node_.as<graph::SortAttributes>();
  std::string text = fmt::format("// lines of {} in {} order", plan_.length, a.descending ? "descending" : "ascending");
  if (a.count < plan_.length) text += fmt::format(", the first {}", a.count);
  text += fmt::format(": {} thread{} a line", plan_.threads, plan_.threads == 1 ? "" : "s");
  return text + (plan_.elements > 1 ? fmt::format(", {} elements each", plan_.elements) : "");
}

void SortEmitter::emit() {
  const std::string_view word = word_type(plan_.word);
  out_.blank();
  out_.line("{}", title());
  out_.line("{} words[{}];", word, plan_.elements);
  out_.line("const int thread = threadIdx.x % {};", plan_.threads);
  emit_keys();
  if (plan_.pitch > 0) {
    out_.line("{0}* const line = reinterpret_cast<{0}*>(shared{1}) + threadIdx.x / {2} * {3};", word,
              offset_text(scope_.frame.shared_held), plan_.threads, plan_.pitch);
  }
  out_.line("sort_line<{}, {}>(words, {}, thread);", plan_.threads, plan_.elements,
            plan_.pitch > 0 ? "line" : fmt::format("static_cast<{}*>(nullptr)", word));
  emit_results();
  // The next tile writes where the slowest thread of the line may still read.
  if (plan_.pitch > 0) out_.line("line_is_read<{}>();", plan_.threads);
}

void SortEmitter::open_words(std::int64_t words) {
  out_.line("#pragma unroll");
  out_.open("for (int r = 0; r < {}; ++r)", words);
  out_.line("const int at = r * {} + thread;", plan_.threads);
}

void SortEmitter::emit_place(const std::string& place) {
  std::int64_t inner = plan_.length;
  for (const int a : anchor_.reduced) {
    const std::int64_t extent = group_.extents[a];
    inner /= extent;
    std::string digit = inner > 1 ? fmt::format("{} / {}", place, inner) : place;
    if (inner * extent < plan_.length) digit = fmt::format("({}) % {}", digit, extent);
    out_.line("const int {} = {};", axes_.name(a), digit);
  }
}

void SortEmitter::emit_keys() {
  const graph::DType dtype = scope_.graph.type(node_.operands[0]).dtype;
  const std::string_view word = word_type(plan_.word);
  const bool fills = plan_.padded() > plan_.length;
  const int depth = out_.depth();
  open_words(plan_.elements);
  emit_place(fills ? fmt::format("(at < {} ? at : 0)", plan_.length) : "at");
  loads_.emit_uniform(kernel::needed_by(scope_.program, anchor_.items[0]));
  const std::string key = fmt::format("sort_word<{}, {}>(narrow<{}>(static_cast<{}>({})), at)", word,
                                      node_.as<graph::SortAttributes>().descending, storage_type(dtype),
                                      compute_type(dtype), items_.value(anchor_.items[0], false));
  out_.line("words[r] = {};", fills ? fmt::format("at < {} ? {} : word_behind<{}>(at)", plan_.length, key, word) : key);
  out_.close(out_.depth() - depth);
}

void SortEmitter::emit_results() {
  const std::int64_t count = node_.as<graph::SortAttributes>().count;
  const int depth = out_.depth();
  open_words((count + plan_.threads - 1) / plan_.threads);
  const bool all = count % plan_.threads == 0;
  const std::string guard = both(all ? "" : fmt::format("at < {}", count), in_lines_);
  if (!guard.empty()) out_.open("if ({})", guard);
  // Addresses are those of the rank, what is stored there is what stands at the element's place.
  for (std::size_t b = 0; b < anchor_.buffers.size(); ++b) {
    out_.line("{}* to{};", storage_type(node_.type(anchor_.results[b]).dtype), b);
  }
  out_.open();
  emit_place("at");
  for (std::size_t b = 0; b < anchor_.buffers.size(); ++b) {
    out_.line("to{} = {} + {};", b, scope_.pointers.name(anchor_.buffers[b]),
              items_.address(anchor_.addresses[b], false));
  }
  out_.close();
  for (std::size_t b = 0; b < anchor_.buffers.size(); ++b) emit_result(b);
  out_.close(out_.depth() - depth);
}

void SortEmitter::emit_result(std::size_t buffer) {
  const int result = anchor_.results[buffer];
  const graph::DType dtype = node_.type(result).dtype;
  if (result == 0) {
    out_.line("*to{} = value_of<{}, {}>(words[r]);", buffer, storage_type(dtype),
              node_.as<graph::SortAttributes>().descending);
    return;
  }
  out_.open();
  out_.line("const int place = place_of(words[r]);");
  emit_place("place");
  const ItemId item = anchor_.items[1 + buffer];
  loads_.emit_uniform(kernel::needed_by(scope_.program, item));
  out_.line("*to{} = narrow<{}>(static_cast<{}>({}));", buffer, storage_type(dtype), compute_type(dtype),
            items_.value(item, false));
  out_.close();
}

}  // namespace stitch::codegen
