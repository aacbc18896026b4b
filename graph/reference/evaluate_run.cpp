#include "graph/reference/evaluate_run.h"

#include <algorithm>
#include <cmath>

#include "graph/literal.h"
#include "graph/reference/evaluate_accumulate.h"
#include "graph/reference/evaluate_chunk.h"
#include "graph/reference/evaluate_functions.h"

namespace stitch::graph::reference {
namespace {

bool is_chunked(const Node& node) { return is_elementwise(node.op) && !makes_random_bits(node.op); }

Error located(const Graph& graph, NodeId id, const Error& error) {
  const Node& node = graph.node(id);
  return error.within(node.name.empty() ? fmt::format("{} #{}", to_string(node.op), id)
                                        : fmt::format("{} '{}'", to_string(node.op), node.name));
}

}  // namespace

Evaluation::Evaluation(const Graph& graph, std::span<const Source> sources, const EvaluateOptions& options,
                       Memory& memory, bool restricted, AheadCache* ahead)
    : graph_(graph),
      sources_(sources),
      options_(options),
      memory_(memory),
      restricted_(restricted),
      ahead_(ahead != nullptr ? ahead : &own_ahead_) {}

Result<std::vector<std::vector<Block>>> Evaluation::run(const std::vector<Wanted>& wanted) {
  states_.resize(graph_.size());
  members_.resize(states_.size());
  for (const Node& node : graph_.nodes()) {
    first_slot_.push_back(slots_.size());
    slots_.resize(slots_.size() + node.results.size());
  }
  if (restricted_) restrict_reductions();
  for (const Wanted& want : wanted) {
    for (const Box& box : want.boxes) slot(want.value).region.add(box);
    if (!slot(want.value).region.empty()) state(want.value.node).wanted = true;
    ++slot(want.value).pending;
  }
  STITCH_TRY(demand_all());
  const std::vector<std::vector<NodeId>> read_by = users(graph_);
  plan_chunks(read_by);
  plan_one_sided(read_by);
  std::vector<std::vector<Block>> results;
  for (const Wanted& want : wanted) {
    if (state(want.value.node).live) STITCH_TRY(compute_from(want.value.node));
    std::vector<Block>& blocks = results.emplace_back();
    const Slot& from = slot(want.value);
    for (const Box& box : want.boxes) {
      if (box.empty()) {
        STITCH_ASSIGN(StorageRef nothing, memory_.make(graph_.type(want.value).dtype, 0, false));
        blocks.push_back({graph_.type(want.value).dtype, box, std::move(nothing), false});
        continue;
      }
      const std::vector<Block>& held = from.results.empty() ? from.blocks : from.results;
      STITCH_ASSIGN(Block block, extract(memory_, held[from.region.find(box)], box));
      if (state(want.value.node).may_be_one_sided) {
        STITCH_ASSIGN(block, without_one_sided(std::move(block)));
      }
      blocks.push_back(std::move(block));
    }
    slot(want.value).release();
  }
  return results;
}

OpContext Evaluation::context(NodeId id, std::size_t box) {
  const Node& node = graph_.node(id);
  NodeState& s = state(id);
  OpContext c{graph_, id, options_, memory_, {}, {}, s.kept, s.may_be_one_sided};
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    c.operands.push_back(i < s.reads.size() && s.reads[i] ? &slot(node.operands[i]) : nullptr);
  }
  if (box < s.indices.size()) c.indices = s.indices[box];
  return c;
}

// ---- plan

bool Evaluation::can_inline(NodeId id, const std::vector<NodeId>& users) {
  const NodeState& s = state(id);
  if (!is_chunked(graph_.node(id)) || s.wanted || s.uniform || slot({id, 0}).region.boxes().size() != 1) return false;
  const Box& box = slot({id, 0}).region.boxes()[0];
  NodeId root = -1;
  for (const NodeId user : users) {
    const NodeState& u = state(user);
    if (!u.live) continue;
    const Slot& user_slot = slot({user, 0});
    if (!is_chunked(graph_.node(user)) || u.uniform || user_slot.region.boxes().size() != 1 ||
        user_slot.region.boxes()[0] != box || (root >= 0 && u.root != root)) {
      return false;
    }
    root = u.root;
  }
  return root >= 0;
}

void Evaluation::plan_chunks(const std::vector<std::vector<NodeId>>& users) {
  // Splat constants, and what is computed from them alone, have one value: no need to compute it per element.
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    const bool moves = node.op == Op::broadcast || node.op == Op::reshape || node.op == Op::transpose ||
                       node.op == Op::slice || node.op == Op::reverse || is_chunked(node);
    if (node.op == Op::constant) {
      state(id).uniform = is_splat(node.as<ConstantAttributes>());
    } else if (moves) {
      state(id).uniform = std::all_of(node.operands.begin(), node.operands.end(),
                                      [&](const Value& operand) { return state(operand.node).uniform; });
    }
  }
  for (NodeId id = graph_.size(); id-- > 0;) {
    NodeState& s = state(id);
    if (!s.live) continue;
    s.inlined = can_inline(id, users[id]);
    s.root = id;
    if (!s.inlined) continue;
    for (const NodeId user : users[id]) {
      if (state(user).live) s.root = state(user).root;
    }
  }
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (state(id).inlined) members_[state(id).root].push_back(id);
  }
}

/// Nodes that are read only by those that know what a one-sided bound is; those that move it are read like that, too.
void Evaluation::plan_one_sided(const std::vector<std::vector<NodeId>>& users) {
  if (!options_.bounds || options_.round) return;
  const auto knows = [&](NodeId user) {
    const Node& node = graph_.node(user);
    if (node.op == Op::reduce) {
      const ReduceKind kind = node.as<ReduceAttributes>().kind;
      return kind == ReduceKind::max || kind == ReduceKind::min;
    }
    if (is_layout(node.op)) return state(user).may_be_one_sided;
    return is_chunked(node) || node.op == Op::max_exp_sum;
  };
  for (NodeId id = graph_.size(); id-- > 0;) {
    const DType dtype = graph_.node(id).results[0].dtype;
    if (!state(id).live || !is_floating(dtype) || dtype == DType::f8e4m3) continue;  // which has no infinity
    state(id).may_be_one_sided =
        std::ranges::all_of(users[id], [&](NodeId user) { return !state(user).live || knows(user); });
  }
}

// ---- compute

Status Evaluation::compute_from(NodeId id) {
  // Depth first, without recursion: graphs are deeper than stacks.
  std::vector<std::pair<NodeId, std::size_t>> stack{{id, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    NodeState& s = state(node);
    const std::vector<Value>& operands = graph_.node(node).operands;
    while (next < operands.size() && (!s.reads[next] || state(operands[next].node).done)) ++next;
    if (!s.done && next < operands.size()) {
      stack.emplace_back(operands[next].node, 0);
      continue;
    }
    if (!s.done && !s.inlined) {
      if (const Status status = compute(node); !status) return located(graph_, node, status.error());
    }
    s.done = true;
    stack.pop_back();
  }
  return {};
}

/// What EvaluateOptions::work_limit counts: of the node with those that are inlined into it. Bodies of loops and
/// branches count as they are evaluated.
double Evaluation::work_of(NodeId id) {
  const Node& node = graph_.node(id);
  const auto elements = [](const Region& region) {
    double sum = 0;
    for (const Box& box : region.boxes()) sum += 1 + box.elements();
    return sum;
  };
  const double results = elements(slot({id, 0}).region);
  double work = results * (1 + members_[id].size());
  if (is_contraction(node.op)) {
    // Products of an element, of n·k and k·m to n·m.
    const double a = graph_.type(node.operands[0]).elements(), b = graph_.type(node.operands[1]).elements();
    return results * std::max(1.0, std::sqrt(a * b / std::max<double>(1, node.type().elements())));
  }
  const OpCategory category = info(node.op).category;
  if (category != OpCategory::reduction && node.op != Op::scatter) return work;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (state(id).reads[i]) work += elements(slot(node.operands[i]).region);
  }
  return work;
}

Status Evaluation::compute(NodeId id) {
  STITCH_TRY(memory_.spend(work_of(id)));
  STITCH_TRY(compute_node(id));
  STITCH_TRY(doubt_blocks(id));
  release(id);
  for (const NodeId member : members_[id]) release(member);
  return {};
}

void Evaluation::release(NodeId id) {
  const Node& node = graph_.node(id);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!state(id).reads[i]) continue;
    slot(node.operands[i]).release();
  }
  state(id).indices.clear();
}

Status Evaluation::compute_node(NodeId id) {
  const Node& node = graph_.node(id);
  switch (node.op) {
    case Op::parameter: return compute_parameter(id);
    case Op::loop: return compute_loop(id);
    case Op::conditional: return compute_conditional(id);
    case Op::threefry2x32:
    case Op::philox4x32: return compute_random_bits(id);
    case Op::associative_scan: return compute_associative_scan(id);
    case Op::sort: return compute_sort(id);
    case Op::opaque:
      return make_error(ErrorKind::unsupported, "opaque operator '{}' cannot be evaluated",
                        node.as<OpaqueAttributes>().target);
    default: break;
  }
  Slot& to = slot({id, 0});
  const std::vector<Box> boxes(to.region.boxes().begin(), to.region.boxes().end());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (state(id).in_parts) {
      STITCH_ASSIGN(Block block, compute_in_parts(id, boxes[i]));
      to.blocks.push_back(std::move(block));
      continue;
    }
    if (is_chunked(node)) {
      STITCH_ASSIGN(Block block, compute_chunks(id, members_[id], boxes[i]));
      to.blocks.push_back(std::move(block));
      continue;
    }
    const OpContext c = context(id, i);
    if (node.op == Op::arg_reduce || node.op == Op::max_exp_sum) {
      STITCH_ASSIGN(std::vector<Block> both,
                    node.op == Op::arg_reduce ? evaluate_arg_reduce(c, boxes[i]) : evaluate_max_exp_sum(c, boxes[i]));
      to.blocks.push_back(std::move(both[0]));
      slot({id, 1}).blocks.push_back(std::move(both[1]));
      continue;
    }
    const auto evaluate = [&]() -> Result<Block> {
      switch (node.op) {
        case Op::constant:
        case Op::iota: return evaluate_source(c, boxes[i]);
        case Op::gather:
        case Op::scatter:
        case Op::dynamic_slice:
        case Op::dynamic_update_slice: return evaluate_index(c, boxes[i]);
        case Op::reduce: return evaluate_reduce(c, boxes[i]);
        case Op::scan: return evaluate_scan(c, boxes[i]);
        case Op::reduce_window:
        case Op::select_and_scatter: return evaluate_window(c, boxes[i]);
        case Op::dot:
        case Op::convolution: return evaluate_contraction(c, boxes[i]);
        default: return evaluate_layout(c, boxes[i]);
      }
    };
    STITCH_ASSIGN(Block block, evaluate());
    to.blocks.push_back(std::move(block));
  }
  return options_.round ? round_blocks(id) : Status{};
}

/// A quarter of what may be read at once for each part, since there are values on the way to the operand.
Result<Block> Evaluation::compute_in_parts(NodeId id, const Box& box) {
  const DType dtype = graph_.node(id).type().dtype;
  STITCH_ASSIGN(StorageRef storage, memory_.make(dtype, box.elements(), options_.bounds));
  storage->nonnegative = true;
  bool exact = true;
  const Dims strides = row_major_strides(box.size);
  const std::int64_t most = std::max<std::int64_t>(1, options_.most_reduced / 4 / elements_read(id));
  STITCH_TRY(for_each_slab(box, most, [&](const Box& piece) -> Status {
    Evaluation evaluation(graph_, sources_, options_, memory_, restricted_, ahead_);
    STITCH_ASSIGN(const auto blocks, evaluation.run({{{id, 0}, {piece}}}));
    STITCH_ASSIGN(const Block part, expanded(memory_, blocks[0][0]));
    copy_values({piece.size, row_major_strides(piece.size), strides}, part, 0, *storage, offset_in(box, piece.start));
    storage->nonnegative = storage->nonnegative && part.data->nonnegative;
    exact = exact && part.exact();
    return {};
  }));
  if (exact) storage->bounds.clear();
  return Block{dtype, box, std::move(storage), false};
}

/// Reductions and contractions, which compute; what moves values has rounded ones already.
Status Evaluation::round_blocks(NodeId id) {
  const OpCategory category = info(graph_.node(id).op).category;
  const bool computes =
      category == OpCategory::reduction || category == OpCategory::contraction || graph_.node(id).op == Op::scatter;
  if (!computes) return {};
  for (Block& block : slot({id, 0}).blocks) {
    if (!is_floating(block.dtype)) continue;
    Storage& data = *block.data;
    round_values(block.dtype, data.floats.data(), data.bounds.empty() ? nullptr : data.bounds.data(),
                 data.floats.size());
  }
  return {};
}

/// What operators read where doubt_infinities has something to say.
Status Evaluation::doubt_blocks(NodeId id) {
  if (!options_.bounds) return {};
  for (std::size_t r = 0; r < graph_.node(id).results.size(); ++r) {
    if (graph_.node(id).results[r].dtype != DType::f8e4m3) continue;
    Slot& s = slot({id, static_cast<std::int32_t>(r)});
    const bool any = std::ranges::any_of(s.blocks, [](const Block& block) {
      return std::ranges::any_of(block.data->floats, [](double value) { return std::isinf(value); });
    });
    if (!any) continue;
    s.results = s.blocks;
    for (Block& block : s.blocks) {
      const std::vector<double>& values = block.data->floats;
      STITCH_ASSIGN(StorageRef doubted, memory_.make(block.dtype, values.size(), true));
      doubted->floats = values;
      doubted->bounds = block.exact() ? std::vector<double>(values.size()) : block.data->bounds;
      doubted->nonnegative = block.data->nonnegative;
      doubt_infinities(values.data(), doubted->bounds.data(), values.size());
      block.data = std::move(doubted);
    }
  }
  return {};
}

/// As results have it: a one-sided bound is none.
Result<Block> Evaluation::without_one_sided(Block block) {
  if (std::ranges::none_of(block.data->bounds, [](double e) { return e < 0; })) return block;
  STITCH_ASSIGN(StorageRef storage, memory_.make(block.dtype, std::ssize(block.data->floats), true));
  storage->floats = block.data->floats;
  storage->nonnegative = block.data->nonnegative;
  std::ranges::transform(block.data->bounds, storage->bounds.begin(), [](double e) { return e < 0 ? unchecked : e; });
  block.data = std::move(storage);
  return block;
}

Status Evaluation::compute_parameter(NodeId id) {
  const auto parameters = graph_.parameters();
  const std::size_t index = std::find(parameters.begin(), parameters.end(), id) - parameters.begin();
  const TensorType& type = graph_.node(id).type();
  const Source& source = sources_[index];
  for (const Box& box : slot({id, 0}).region.boxes()) {
    if (source.block != nullptr) {
      STITCH_ASSIGN(Block block, extract(memory_, *source.block, box));
      slot({id, 0}).blocks.push_back(std::move(block));
      continue;
    }
    if (source.input == nullptr) return make_error(ErrorKind::internal, "argument {} was not expected", index);
    STITCH_ASSIGN(StorageRef storage, memory_.make(type.dtype, box.elements(), false));
    Tensor part{type, box, std::move(storage->floats), std::move(storage->integers), {}};
    STITCH_TRY((*source.input)(part));
    const std::size_t count = box.elements();
    if (part.floats.size() != (is_floating(type.dtype) ? count : 0) ||
        part.integers.size() != (is_floating(type.dtype) ? 0 : count) ||
        (!part.bounds.empty() && part.bounds.size() != count)) {
      return make_error(ErrorKind::invalid_argument, "argument {}: {} of {} came back with {} values", index,
                        to_string(box), to_string(type), part.floats.size() + part.integers.size());
    }
    storage->floats = std::move(part.floats);
    storage->integers = std::move(part.integers);
    if (options_.bounds) {
      storage->bounds = std::move(part.bounds);
      storage->nonnegative = is_floating(type.dtype);
      for (std::size_t i = 0; i < storage->floats.size() && storage->nonnegative; ++i) {
        storage->nonnegative = storage->floats[i] >= (storage->bounds.empty() ? 0 : storage->bounds[i]);
      }
    }
    slot({id, 0}).blocks.push_back({type.dtype, box, std::move(storage), false});
  }
  return {};
}

namespace {

std::uint32_t rotate_left(std::uint32_t x, unsigned by) { return x << by | x >> (32 - by); }

// Both by Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11: a block of words from a key, in place.

void threefry2x32(std::uint32_t key0, std::uint32_t key1, std::span<std::uint32_t> x) {
  std::uint32_t x0 = x[0], x1 = x[1];
  constexpr unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDA};
  x0 += keys[0];
  x1 += keys[1];
  for (unsigned group = 0; group < 5; ++group) {
    for (const unsigned rotation : rotations[group % 2]) {
      x0 += x1;
      x1 = rotate_left(x1, rotation) ^ x0;
    }
    x0 += keys[(group + 1) % 3];
    x1 += keys[(group + 2) % 3] + group + 1;
  }
  x[0] = x0;
  x[1] = x1;
}

void philox4x32(std::uint32_t key0, std::uint32_t key1, std::span<std::uint32_t> x) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * x[0], second = std::uint64_t{0xCD9E8D57} * x[2];
    x[0] = static_cast<std::uint32_t>(second >> 32) ^ x[1] ^ key0;
    x[2] = static_cast<std::uint32_t>(first >> 32) ^ x[3] ^ key1;
    x[1] = static_cast<std::uint32_t>(second);
    x[3] = static_cast<std::uint32_t>(first);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

}  // namespace

Status Evaluation::compute_random_bits(NodeId id) {
  const Node& node = graph_.node(id);
  const std::size_t words = node.results.size(), operands = node.operands.size();
  const std::vector<Box> boxes(slot({id, 0}).region.boxes().begin(), slot({id, 0}).region.boxes().end());
  for (const Box& box : boxes) {
    const OpContext c = context(id, 0);
    std::vector<Block> in;
    for (std::size_t i = 0; i < operands; ++i) {
      STITCH_ASSIGN(Block block, c.operand(i, box));
      in.push_back(std::move(block));
    }
    std::vector<StorageRef> out(words);
    for (StorageRef& word : out) {
      STITCH_ASSIGN(word, c.make(DType::u32, box, c.all_exact()));
    }
    for (std::size_t i = 0; i < out[0]->integers.size(); ++i) {
      std::uint32_t given[6];
      double reach = 0;
      for (std::size_t k = 0; k < operands; ++k) {
        const std::size_t at = in[k].uniform ? 0 : i;
        given[k] = static_cast<std::uint32_t>(in[k].data->integers[at]);
        if (!in[k].exact()) reach = std::max(reach, in[k].data->bounds[at]);
      }
      const std::span<std::uint32_t> counters(given + 2, words);
      (node.op == Op::philox4x32 ? philox4x32 : threefry2x32)(given[0], given[1], counters);
      for (std::size_t k = 0; k < words; ++k) {
        out[k]->integers[i] = counters[k];
        if (!out[k]->bounds.empty()) out[k]->bounds[i] = reach > 0 ? unchecked : 0;
      }
    }
    for (std::size_t k = 0; k < words; ++k) {
      slot({id, static_cast<std::int32_t>(k)}).blocks.push_back({DType::u32, box, std::move(out[k]), false});
    }
  }
  return {};
}

}  // namespace stitch::graph::reference
