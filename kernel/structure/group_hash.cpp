#include "kernel/structure/group_hash.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stitch::kernel {
namespace {

class GroupHasher {
 public:
  GroupHasher(const graph::Graph& graph, const GroupStructure& group)
      : graph_(graph), group_(group), program_(*group.program) {}

  Hash128 hash() {
    const GroupAxes& axes = program_.axes();
    numbers(axes.extents);
    number(group_.partial_axis);
    number(group_.slab_axis);
    number(group_.partial_of >= 0 ? 1 : 0);
    number(group_.sweep_count);
    number(program_.items().size());
    for (const Item& item : program_.items()) add(item);
    numbers(group_.item_sweep);
    number(group_.anchors.size());
    for (const Anchor& anchor : group_.anchors) add(anchor);
    return hash_bytes(std::as_bytes(std::span(words_)));
  }

 private:
  template <class Number>
  void number(Number value) {
    words_.push_back(static_cast<std::uint64_t>(value));
  }
  template <class Numbers>
  void numbers(const Numbers& list) {
    number(list.size());
    for (const auto value : list) number(value);
  }

  void add(const Item& item) {
    number(item.kind);
    number(item.op);
    number(item.combiner);
    number(item.comparison);
    number(item.dtype);
    number(item.origin.node < 0 ? 1 : 0);  // named or inline
    numbers(item.operands);
    expression(item.index);
    number(item.low);
    number(item.high);
    number(item.bits);
    number(item.guard);
    number(item.axes.bits());
    if (item.kind == Item::Kind::load) add(item.buffer);
  }

  void add(const Anchor& anchor) {
    number(anchor.kind);
    // Its accumulators are two numbers each; those of an arg-reduction show by its items.
    if (anchor.combiner == graph::Op::max_exp_sum) number(anchor.combiner);
    number(anchor.dtype);
    number(anchor.guard);
    number(anchor.axes.bits());
    number(anchor.reduced.bits());
    number(anchor.sweep);
    numbers(anchor.items);
    numbers(anchor.results);
    number(anchor.buffers.size());
    for (const Buffer& buffer : anchor.buffers) add(buffer);
    number(anchor.addresses.size());
    for (const Index address : anchor.addresses) expression(address);
  }

  void add(const Buffer& buffer) {
    const auto [found, fresh] = buffers_.try_emplace(buffer, buffers_.size());
    number(found->second);
    if (!fresh) return;
    number(buffer.kind);
    switch (buffer.kind) {
      case Buffer::Kind::input: return number(graph_.node(graph_.parameters()[buffer.number]).type().bytes());
      case Buffer::Kind::output: return number(graph_.type(graph_.results()[buffer.number]).bytes());
      case Buffer::Kind::table: return number(graph_.node(buffer.number).type().bytes());
      case Buffer::Kind::scratch: break;
    }
  }

  void expression(Index index) {
    if (index < 0) return number(-1);
    const auto [found, fresh] = expressions_.try_emplace(index, expressions_.size());
    number(found->second);
    if (!fresh) return;
    const IndexPool& pool = program_.pool();
    number(pool.kind(index));
    number(pool.low(index));
    number(pool.high(index));
    switch (pool.kind(index)) {
      case IndexPool::Kind::constant: return;
      case IndexPool::Kind::variable: {
        const std::vector<Index>& axes = program_.axes().variables;
        number(std::find(axes.begin(), axes.end(), index) - axes.begin());
        return number(program_.dynamic_item(index));
      }
      case IndexPool::Kind::sum:
        number(pool.constant_part(index));
        number(pool.terms(index).size());
        for (const IndexPool::Term& term : pool.terms(index)) {
          number(term.coefficient);
          expression(term.atom);
        }
        return;
      case IndexPool::Kind::quotient:
      case IndexPool::Kind::remainder: number(pool.divisor(index)), expression(pool.dividend(index));
    }
  }

  const graph::Graph& graph_;
  const GroupStructure& group_;
  const ScalarProgram& program_;
  std::vector<std::uint64_t> words_;
  std::map<Buffer, std::size_t> buffers_;
  std::unordered_map<Index, std::size_t> expressions_;
};

}  // namespace

Hash128 group_hash(const graph::Graph& graph, const GroupStructure& group) { return GroupHasher(graph, group).hash(); }

}  // namespace stitch::kernel
