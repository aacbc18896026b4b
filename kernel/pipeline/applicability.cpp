#include "kernel/pipeline/applicability.h"

#include <algorithm>

#include "base/result.h"

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;

/// Where a buffer is filled.
struct FillSite {
  const TileStatement* copy = nullptr;
  const std::vector<TileStatement>* body = nullptr;  ///< that the copy stands in
  std::size_t position = 0;
  int loop = -1;  ///< innermost around it
};

void find_fill_sites(const std::vector<TileStatement>& body, int buffer, int loop, std::vector<FillSite>& sites) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind == Kind::copy && body[i].to.buffer == buffer) sites.push_back({&body[i], &body, i, loop});
    if (body[i].kind == Kind::loop) find_fill_sites(body[i].body, buffer, body[i].loop, sites);
  }
}

std::vector<FillSite> fill_sites(const TileNest& nest, int buffer) {
  std::vector<FillSite> sites;
  find_fill_sites(nest.body, buffer, -1, sites);
  return sites;
}

bool reads_buffer(const TileStatement& s, int buffer) {
  const auto is = [buffer](const TileAccess& access) { return access.buffer == buffer; };
  if (s.kind == Kind::copy && is(s.from)) return true;
  if (std::ranges::any_of(s.reads, is)) return true;
  return std::ranges::any_of(s.body, [buffer](const TileStatement& inner) { return reads_buffer(inner, buffer); });
}

std::string obstacle_alone(const TileNest& nest, int buffer) {
  const std::vector<FillSite> sites = fill_sites(nest, buffer);
  if (sites.size() != 1) return fmt::format("filled by {} copies", sites.size());
  const FillSite& site = sites[0];
  if (site.loop < 0) return "filled outside of any loop";
  if (site.copy->changes && !site.copy->staged) return "arithmetic between load and store";
  if (site.copy->waits && !site.copy->staged) return "filled through registers, not asynchronously";
  if (!nest.pool.depends_on(site.copy->to.tile, nest.loops[site.loop].variable))
    return fmt::format("the same tile in every turn of {}", nest.loops[site.loop].name);
  const bool used = std::any_of(site.body->begin() + static_cast<std::ptrdiff_t>(site.position), site.body->end(),
                                [buffer](const TileStatement& s) { return reads_buffer(s, buffer); });
  return used ? "" : "not used in the turn that fills it";
}

}  // namespace

std::int64_t turns_of(const TileNest& nest, int buffer) {
  const std::vector<FillSite> sites = fill_sites(nest, buffer);
  return sites.empty() || sites[0].loop < 0 ? 0 : nest.loops[sites[0].loop].extent;
}

std::vector<Applicability> applicability(const TileNest& nest) {
  std::vector<Applicability> all;
  for (int b = 0; b < static_cast<int>(nest.buffers.size()); ++b) {
    if (nest.buffers[b].scope != Scope::device) all.push_back({b, obstacle_alone(nest, b)});
  }
  for (Applicability& each : all) {
    if (!each.applies() || nest.buffers[each.buffer].scope != Scope::shared) continue;
    for (const Applicability& other : all) {
      const TileBuffer& beside = nest.buffers[other.buffer];
      if (beside.scope != Scope::shared || other.buffer == each.buffer) continue;
      const bool together = fill_sites(nest, each.buffer)[0].loop == fill_sites(nest, other.buffer)[0].loop;
      if (!other.applies() || !together) {
        each.obstacle = fmt::format("waited for together with {}", beside.name);
        break;
      }
    }
  }
  return all;
}

}  // namespace stitch::kernel::pipeline
