#include "tuning/programs/region_pieces.h"

#include <algorithm>

#include "graph/in_place.h"
#include "tuning/programs/operand_groups.h"
#include "tuning/programs/product_groups.h"
#include "tuning/programs/row_groups.h"
#include "tuning/programs/site_parts.h"
#include "tuning/programs/sum_groups.h"

namespace stitch::tuning {

using graph::NodeId;
using graph::Op;
using graph::Value;

namespace {

graph::CutGraph cut_region(const graph::Graph& graph, bool carried,
                           const std::function<bool(const graph::Graph&)>& whole_loop,
                           const graph::Constraints& constraints, const graph::OwnCall& own, bool quick_layouts) {
  graph::CutOptions options;
  options.library.own = own;
  options.library.quick_layouts = quick_layouts;
  options.carried = carried;
  options.whole_loop = whole_loop;
  options.constraints = constraints;
  return graph::cut(graph, options);
}

}  // namespace

RegionPieces::RegionPieces(const graph::Graph& graph, bool carried,
                           const std::function<bool(const graph::Graph&)>& whole_loop,
                           const graph::Constraints& constraints, const graph::OwnCall& own, bool quick_layouts,
                           const PartsApart& apart, const SumsBefore& sums)
    : graph_(graph),
      carried_(carried),
      sums_(sums),
      cut_(cut_region(sums.graph == nullptr ? graph : *sums.graph, carried, whole_loop, constraints, own,
                      quick_layouts)) {
  if (sums.sums != nullptr) cut_ = in_two_steps(*sums.sums, std::move(cut_));
  for (const graph::FragmentSite& site : cut_.fragments) {
    std::vector<graph::FragmentSite> parts;
    if (apart.concern(site)) parts = large_parts_of(site, apart.least_bytes);
    for (graph::FragmentSite& part : parts) add_fragment(parts_.emplace_back(std::move(part)));
    if (parts.empty()) add_fragment(site);
  }
  for (const graph::LibraryCall& call : cut_.calls) {
    pieces_.push_back({distinct(call.operands), call.results(), &call, call.root,
                       call.epilogue.empty() ? call.root : call.epilogue.back()});
  }
  for (const NodeId id : cut_.others) {
    RegionPiece piece{graph.node(id).operands, {}, id, id, id};
    for (int r = 0; r < std::ssize(graph.node(id).results); ++r) piece.writes.push_back({id, r});
    pieces_.push_back(std::move(piece));
  }
  for (const NodeId id : graph.parameters()) made_.insert({id, 0});
  for (const RegionPiece& piece : pieces_) made_.insert(piece.writes.begin(), piece.writes.end());
  for (RegionPiece& piece : pieces_) {
    if (const auto* const* call = std::get_if<const graph::LibraryCall*>(&piece.work)) read_what_is_made(piece, **call);
  }
  if (own) merge(own);
  if (sums_.sums != nullptr) settle_sums();
}

void RegionPieces::merge(const graph::OwnCall& own) {
  const auto joined = [&](const graph::Graph& one) { return own(one, true); };
  merge_rows(own);
  merge_sums(joined);
  merge_products(joined);
  merge_operands(own);
}

void RegionPieces::add_fragment(const graph::FragmentSite& site) {
  const bool computes = !site.nodes.empty();
  pieces_.push_back({site.arguments, site.results, &site, computes ? site.nodes.front() : graph_.size(),
                     computes ? site.nodes.back() : graph_.size()});
}

std::vector<graph::FragmentSite> RegionPieces::large_parts_of(const graph::FragmentSite& site,
                                                              std::int64_t least) const {
  std::vector<graph::FragmentSite> large;
  std::vector<Value> others;
  for (graph::FragmentSite& part : parts_of(graph_, site)) {
    std::int64_t bytes = 0;
    for (const Value result : part.results) bytes += graph_.type(result).bytes();
    if (bytes >= least) {
      large.push_back(std::move(part));
    } else {
      others.insert(others.end(), part.results.begin(), part.results.end());
    }
  }
  if (large.size() + (others.empty() ? 0 : 1) < 2) return {};
  if (others.empty()) return large;
  Result<graph::FragmentSite> rest = with_other_results(graph_, site, std::move(others));
  if (!rest) return {};
  large.push_back(*std::move(rest));
  return large;
}

std::vector<RegionPiece> RegionPieces::parted(const std::set<const graph::FragmentSite*>& kept) {
  std::set<Value> products;
  for (const RegionPiece& piece : pieces_) {
    if (is_one_product(graph_, piece)) products.insert(piece.writes.begin(), piece.writes.end());
  }
  std::vector<RegionPiece> found;
  for (const RegionPiece& piece : pieces_) {
    const auto* const* site = std::get_if<const graph::FragmentSite*>(&piece.work);
    const auto is_product = [&](Value value) { return products.contains(memory_of(value)); };
    const auto is_slice = [&](NodeId id) { return graph_.node(id).op == Op::slice; };
    const bool may_be_gates = site != nullptr && !kept.contains(*site) &&
                              std::ranges::any_of(piece.reads, is_product) &&
                              std::ranges::any_of((*site)->nodes, is_slice);
    std::vector<graph::FragmentSite> parts;
    if (may_be_gates) parts = parts_of(graph_, **site);
    if (parts.size() < 2) {
      found.push_back(piece);
      continue;
    }
    for (graph::FragmentSite& part : parts) {
      const graph::FragmentSite& own = parts_.emplace_back(std::move(part));
      whole_.emplace(&own, *site);
      found.push_back({own.arguments, own.results, &own, own.nodes.front(), own.nodes.back()});
    }
  }
  return found;
}

void RegionPieces::merge_rows(const graph::OwnCall& own) {
  // A fragment is parted where every part has a product: what is left of another would be a kernel as before.
  std::set<const graph::FragmentSite*> kept;
  const auto memory = [&](Value value) { return memory_of(value); };
  for (;;) {
    std::vector<RegionPiece> pieces = parted(kept);
    std::vector<RowGroup> groups = group_rows(graph_, pieces, memory, own, sums_.sums);
    std::vector<bool> gone(pieces.size(), false);
    for (const RowGroup& group : groups) gone[group.rows] = true;
    const std::size_t before = kept.size();
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const auto* const* site = std::get_if<const graph::FragmentSite*>(&pieces[p].work);
      if (site != nullptr && !gone[p] && whole_.contains(*site)) kept.insert(whole_.at(*site));
    }
    if (kept.size() > before) continue;
    pieces_ = std::move(pieces);
    for (RowGroup& group : groups) take(group);
    drop(gone);
    for (RowGroup& group : groups) {
      if (!group.rest) continue;
      const graph::FragmentSite& rest = parts_.emplace_back(*std::move(group.rest));
      if (sums_.sums->adds_up(rest)) rests_.insert(&rest);
      add_fragment(rest);
    }
    return;
  }
}

void RegionPieces::settle_sums() {
  const auto is_cut = [&](const graph::FragmentSite* site) {
    return std::ranges::any_of(cut_.fragments, [&](const graph::FragmentSite& each) { return &each == site; });
  };
  for (RegionPiece& piece : pieces_) {
    const auto* const* site = std::get_if<const graph::FragmentSite*>(&piece.work);
    if (site == nullptr || rests_.contains(*site) || is_cut(*site)) continue;
    if (std::ranges::none_of((*site)->nodes, [&](NodeId id) { return sums_.sums->origin[id] < 0; })) continue;
    graph::FragmentSite& own = parts_.emplace_back(**site);
    Result<graph::Graph> settled = in_one_step(*sums_.sums, *sums_.graph, own);
    if (!settled) continue;  // as it is
    own.graph = *std::move(settled);
    piece.work = &own;
  }
  add_up_together();
}

void RegionPieces::add_up_together() {
  PieceDependencies waits(pieces_, [&](Value value) { return memory_of(value); });
  PieceGroup all;
  graph::FragmentSite sum;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto* const* site = std::get_if<const graph::FragmentSite*>(&pieces_[p].work);
    if (site == nullptr || !rests_.contains(*site)) continue;
    PieceGroup more = all;
    more.push_back(p);
    if (more.size() > 1 && waits.wait_for_one_another(more)) continue;
    auto both = all.empty() ? Result<graph::FragmentSite>(**site) : together(graph_, sum, **site);
    if (!both) continue;
    sum = *std::move(both);
    all = std::move(more);
  }
  if (all.size() < 2) return;
  std::vector<bool> gone(pieces_.size(), false);
  for (const std::size_t p : all) gone[p] = true;
  drop(gone);
  add_fragment(parts_.emplace_back(std::move(sum)));
}

void RegionPieces::take(RowGroup& group) {
  RegionPiece& product = pieces_[group.product];
  const RegionPiece& rows = pieces_[group.rows];
  product.reads = std::move(group.reads);
  product.writes = std::move(group.writes);
  made_.insert(product.writes.begin(), product.writes.end());
  product.first = std::max(product.first, rows.first);
  product.last = std::max(product.last, rows.last);
  const auto* call = std::get<const graph::LibraryCall*>(product.work);
  if (const auto* const* site = std::get_if<const graph::FragmentSite*>(&rows.work)) {
    product.work = ProductAndRows{call, *site};
  } else {
    product.work = MergedCalls{call, std::get<const graph::LibraryCall*>(rows.work)};
  }
}

void RegionPieces::merge_sums(const std::function<bool(const graph::Graph&)>& own) {
  std::vector<bool> gone(pieces_.size(), false);
  for (SumGroup& group : group_sums(
           graph_, pieces_, [&](Value value) { return memory_of(value); }, own)) {
    SummedCalls sum;
    RegionPiece& last = pieces_[group.pieces.back()];
    for (const std::size_t p : group.pieces) {
      const RegionPiece& piece = pieces_[p];
      last.first = std::max(last.first, piece.first);
      last.last = std::max(last.last, piece.last);
      const auto* rows = std::get_if<ProductAndRows>(&piece.work);
      sum.calls.push_back(rows != nullptr ? rows->product : std::get<const graph::LibraryCall*>(piece.work));
      if (rows != nullptr) sum.rows = rows->rows;
      gone[p] = true;
    }
    last.reads = std::move(group.reads);
    last.writes = std::move(group.writes);
    last.work = std::move(sum);
    gone[group.pieces.back()] = false;
  }
  drop(gone);
}

void RegionPieces::merge_products(const std::function<bool(const graph::Graph&)>& own) {
  std::vector<bool> gone(pieces_.size(), false);
  for (const PieceGroup& group : group_products(
           graph_, pieces_, [&](Value value) { return memory_of(value); }, own)) {
    RegionPiece merged;
    MergedCalls calls;
    for (const std::size_t p : group) {
      const RegionPiece& piece = pieces_[p];
      merged.reads.insert(merged.reads.end(), piece.reads.begin(), piece.reads.end());
      merged.writes.insert(merged.writes.end(), piece.writes.begin(), piece.writes.end());
      merged.first = std::max(merged.first, piece.first);
      merged.last = std::max(merged.last, piece.last);
      calls.push_back(std::get<const graph::LibraryCall*>(piece.work));
      gone[p] = true;
    }
    merged.reads = distinct(merged.reads);
    merged.work = std::move(calls);
    pieces_[group[0]] = std::move(merged);
    gone[group[0]] = false;
  }
  drop(gone);
}

void RegionPieces::merge_operands(const graph::OwnCall& own) {
  const auto in_place = [&](const RegionPiece& piece) {
    for (std::size_t r = 0; r < piece.writes.size(); ++r) {
      if (updated_parameter(piece, r) >= 0) return true;
    }
    return false;
  };
  std::vector<bool> gone(pieces_.size(), false);
  for (OperandGroup& group : group_operands(
           graph_, pieces_, [&](Value value) { return memory_of(value); }, in_place, own)) {
    RegionPiece& product = pieces_[group.product];
    product.reads = std::move(group.reads);
    ++product.computed;
    RegionPiece& maker = pieces_[group.maker];
    made_.erase(group.operand);
    made_.insert(group.writes.begin(), group.writes.end());
    gone[group.maker] = !rewrite(maker, std::move(group.writes));
  }
  drop(gone);
}

bool RegionPieces::rewrite(RegionPiece& maker, std::vector<Value> writes) {
  maker.writes = std::move(writes);
  const auto* const* site = std::get_if<const graph::FragmentSite*>(&maker.work);
  if (maker.writes.empty() || site == nullptr) return !maker.writes.empty();
  // Its own nodes lead to what it writes: whatever else this is made of, it reads.
  graph::FragmentSite& own = parts_.emplace_back(*with_other_results(graph_, **site, maker.writes));
  maker.work = &own;
  maker.reads = own.arguments;
  return true;
}

void RegionPieces::drop(const std::vector<bool>& gone) {
  std::vector<RegionPiece> kept;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (!gone[p]) kept.push_back(std::move(pieces_[p]));
  }
  pieces_ = std::move(kept);
}

void RegionPieces::read_what_is_made(RegionPiece& piece, const graph::LibraryCall& call) const {
  const auto is_made = [&](Value value) { return made_.contains(memory_of(value)); };
  std::vector<Value> reads;
  bool complete = true;
  for (const Value value : piece.reads) {
    if (is_made(value)) {
      reads.push_back(value);
    } else {
      complete = false;
    }
  }
  if (complete) return;
  for (Value value : call.viewed) {
    const auto is_layout = [&] {
      const Op op = graph_.node(value.node).op;
      return graph::info(op).category == graph::OpCategory::layout && graph_.node(value.node).operands.size() == 1;
    };
    while (!is_made(value) && is_layout()) value = graph_.node(value.node).operands[0];
    reads.push_back(value);
  }
  piece.reads = distinct(reads);
}

Value RegionPieces::memory_of(Value value) const {
  while (!made_.contains(value) && graph_.node(value.node).op == Op::reshape)
    value = graph_.node(value.node).operands[0];
  return value;
}

int RegionPieces::updated_parameter(const RegionPiece& piece, std::size_t result) const {
  const auto* const* site = std::get_if<const graph::FragmentSite*>(&piece.work);
  if (!carried_ || site == nullptr) return -1;
  const graph::Graph& fragment = (*site)->graph;
  const auto updated = graph::updated_parameter(fragment, fragment.results()[result]);
  if (!updated) return -1;
  const Value tensor = memory_of(piece.reads[*updated]);
  const auto parameters = graph_.parameters();
  const auto found = std::ranges::find(parameters, tensor.node);
  return found == parameters.end() ? -1 : static_cast<int>(found - parameters.begin());
}

}  // namespace stitch::tuning
