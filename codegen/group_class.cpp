#include "codegen/group_class.h"

#include <algorithm>
#include <map>

#include "codegen/group_emitter.h"
#include "codegen/kernel_text.h"
#include "kernel/program/private_table.h"

namespace stitch::codegen {
namespace {

using kernel::GroupProgram;
using kernel::KernelProgram;

/// A group's text without its comments: those name nodes and extents, in which groups that share code may differ.
std::string without_comments(const std::string& body) {
  std::string code;
  for (std::size_t start = 0; start < body.size();) {
    const std::size_t end = std::min(body.find('\n', start), body.size() - 1);
    const std::size_t text = body.find_first_not_of(' ', start);
    if (body.compare(text, 2, "//") != 0) code.append(body, start, end + 1 - start);
    start = end + 1;
  }
  return code;
}

/// What a group's function takes: a parameter that the text does not mention is passed all the same.
std::string signature(const std::vector<GroupPointers::Pointer>& parameters) {
  std::string text;
  for (const GroupPointers::Pointer& each : parameters)
    text += fmt::format("{} {}{}\n", graph::to_string(each.dtype), each.name, each.overlaps ? " overlaps" : "");
  return text;
}

/// Packed element-wise groups of one axis differ only in length: the length becomes a variable.
bool can_vary_extent(const GroupProgram& group) {
  if (group.extents.size() != 1 || group.structure.partial_axis >= 0 || group.structure.slab_axis >= 0) return false;
  return std::ranges::all_of(group.structure.anchors,
                             [](const kernel::Anchor& a) { return a.kind == kernel::Anchor::Kind::store; });
}

GroupFrame frame_of(const graph::Graph& graph, const KernelProgram& program, std::size_t phase,
                    const GroupProgram& group) {
  GroupFrame frame;
  frame.shared_exchange = program.held_bytes();
  frame.shared_retained = kernel::resident_offset(program);
  frame.tiles_at_once = program.is_looped(phase) ? program.clusters() : 0;
  frame.after_sync = phase > 0;
  frame.only_group = program.phases.size() == 1 && program.phases[0].groups.size() == 1;
  // Of a loop over tiles the wait stands before it.
  frame.awaits = frame.only_group && !program.is_looped(phase);
  frame.private_table = kernel::private_table(graph, program, phase).has_value();
  frame.backwards = program.phases[phase].backwards;
  frame.passing = program.phases[phase].passing.buffers;
  frame.runtime_extent = program.phases[phase].groups.size() > 1 && can_vary_extent(group);
  frame.residence = kernel::Residence(program);
  return frame;
}

}  // namespace

std::int64_t GroupClass::tiles() const {
  std::int64_t total = 0;
  for (const Member& member : members) total += member.tiles;
  return total;
}

std::vector<GroupClass::Word> GroupClass::row() const {
  std::vector<Word> words;
  for (int p = 0; p < std::ssize(parameters); ++p) words.push_back({Word::Kind::pointer, p});
  if (runtime_extent) words.push_back({Word::Kind::extent});
  if (members.size() > 1) words.push_back({Word::Kind::first_tile});
  return words;
}

std::vector<GroupClass> classify(const graph::Graph& graph, const KernelProgram& program, std::size_t phase,
                                 std::span<const kernel::Buffer> overlapping, kernel::UnwaitedInputs unwaited) {
  std::vector<GroupClass> classes;
  std::map<std::string, std::size_t> by_text;
  for (const GroupProgram& group : program.phases[phase].groups) {
    GroupFrame frame = frame_of(graph, program, phase, group);
    frame.overlapping = overlapping;
    if (frame.awaits) frame.unwaited = kernel::unwaited_loads(program, unwaited);
    GroupEmitter emitter(graph, group, program.schedule, frame);
    const std::string body = emitter.emit();
    const std::vector<GroupPointers::Pointer> parameters = emitter.pointers().parameters();
    const auto [found, fresh] = by_text.try_emplace(signature(parameters) + without_comments(body), classes.size());
    if (fresh) {
      classes.push_back({body, describe(graph, group), frame.runtime_extent, emitter.leaves_cluster(), parameters, {}});
    }
    GroupClass::Member member{{}, group.extents.empty() ? 1 : group.extents[0], group.tiles};
    for (const GroupPointers::Pointer& each : parameters) member.buffers.push_back(each.buffer);
    classes[found->second].members.push_back(std::move(member));
  }
  return classes;
}

}  // namespace stitch::codegen
