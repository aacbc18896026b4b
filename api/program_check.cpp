#include <algorithm>
#include <optional>
#include <set>

#include "api/program_document.h"
#include "api/program_lifetimes.h"
#include "graph/in_place.h"

// What must hold between the parts of a program, so that running it never leaves the memory that it has.
namespace stitch::api {
namespace {

using graph::TensorType;
using Storage = ProgramValue::Storage;

/// Types of a graph's parameters and results.
std::vector<TensorType> parameter_types(const graph::Graph& graph) {
  std::vector<TensorType> types;
  for (const graph::NodeId id : graph.parameters()) types.push_back(graph.node(id).type());
  return types;
}
std::vector<TensorType> result_types(const graph::Graph& graph) {
  std::vector<TensorType> types;
  for (const graph::Value value : graph.results()) types.push_back(graph.type(value));
  return types;
}

/// A reshape is the same memory under another type.
bool same_memory(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.elements() == b.elements();
}

class RegionCheck {
 public:
  RegionCheck(const Program& program, std::size_t index, std::set<int>& run)
      : program_(program), region_(program.regions[index]), index_(index), run_(run) {}

  Status check() {
    STITCH_TRY(check_values());
    STITCH_TRY(check_ports());
    available_.assign(region_.values.size(), false);
    for (const int value : region_.parameters) available_[value] = true;
    for (std::size_t s = 0; s < region_.steps.size(); ++s) {
      const Status status = check_step(region_.steps[s]);
      if (!status) return status.error().within(fmt::format("steps[{}]", s));
    }
    for (std::size_t r = 0; r < region_.results.size(); ++r) {
      if (!available_[region_.results[r]]) return wrong("results[{}]: no step writes it", r);
    }
    return check_memory();
  }

 private:
  template <class... Args>
  static Error wrong(fmt::format_string<Args...> format, Args&&... args) {
    return make_error(ErrorKind::parse, format, std::forward<Args>(args)...);
  }

  [[nodiscard]] bool is_value(int value) const { return value >= 0 && value < std::ssize(region_.values); }
  [[nodiscard]] const TensorType& type(int value) const { return region_.values[value].type; }

  Status check_values() {
    for (std::size_t v = 0; v < region_.values.size(); ++v) {
      const ProgramValue& value = region_.values[v];
      const auto handed_in = [&](const std::vector<int>& list) {
        return value.place < std::ssize(list) && list[value.place] == static_cast<int>(v);
      };
      bool sound = true;
      switch (value.storage) {
        case Storage::parameter: sound = handed_in(region_.parameters); break;
        case Storage::result: sound = handed_in(region_.results); break;
        case Storage::arena:
          sound = value.place % arena_alignment == 0 && value.place <= region_.arena_bytes &&
                  arena_bytes_of(value.type.bytes()) <= region_.arena_bytes - value.place;
          break;
        case Storage::lent: STITCH_TRY(check_lent(v)); break;
      }
      if (value.lender && value.storage != Storage::lent)
        return wrong("values[{}].lender: memory of its own is nobody's", v);
      if (!sound) return wrong("values[{}].place: {} is no {} of the region", v, value.place, to_string(value.storage));
    }
    return {};
  }

  /// That a value lies inside of what its lender is.
  Status check_lent(std::size_t v) {
    const ProgramValue& value = region_.values[v];
    const bool exists = value.lender && *value.lender >= 0 && *value.lender < std::ssize(region_.results);
    const int lender = exists ? region_.results[*value.lender] : -1;
    if (!is_value(lender) || region_.values[lender].storage != Storage::result)
      return wrong("values[{}].lender: no result of the region lends its memory", v);
    const std::int64_t bytes = type(lender).bytes();
    if (value.place % arena_alignment != 0 || value.place > bytes || value.type.bytes() > bytes - value.place) {
      return wrong("values[{}].place: {} bytes at {} do not lie inside of result {}, which has {}", v,
                   value.type.bytes(), value.place, *value.lender, bytes);
    }
    return {};
  }

  Status check_ports() {
    for (std::size_t p = 0; p < region_.parameters.size(); ++p) {
      const int value = region_.parameters[p];
      const bool sound = is_value(value) && region_.values[value].storage == Storage::parameter &&
                         region_.values[value].place == static_cast<std::int64_t>(p);
      if (!sound) return wrong("parameters[{}]: value {} is not its memory", p, value);
    }
    for (std::size_t r = 0; r < region_.results.size(); ++r) {
      const int value = region_.results[r];
      if (!is_value(value)) return wrong("results[{}]: there is no value {}", r, value);
      const ProgramValue& found = region_.values[value];
      const bool own = found.storage == Storage::result && found.place == static_cast<std::int64_t>(r);
      const bool in_place = index_ > 0 && r < region_.parameters.size() && region_.parameters[r] == value;
      if (!own && !in_place) return wrong("results[{}]: value {} is not its memory", r, value);
    }
    return {};
  }

  Status check_step(const ProgramStep& step) {
    for (std::size_t i = 0; i < step.parameters.size(); ++i) {
      const int value = step.parameters[i];
      if (!is_value(value)) return wrong("parameters[{}]: there is no value {}", i, value);
      if (!available_[value]) {
        const std::string& name = region_.values[value].name;
        return wrong("parameters[{}]: value {} is read before it is written{}", i, value,
                     name.empty() ? "" : fmt::format(" ('{}', {})", name, graph::to_string(type(value))));
      }
    }
    std::set<int> written;
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      const int value = step.results[i];
      if (!is_value(value)) return wrong("results[{}]: there is no value {}", i, value);
      const bool in_place = std::ranges::count(step.parameters, value) > 0;
      if (!written.insert(value).second || (available_[value] && !in_place))
        return wrong("results[{}]: value {} is written twice", i, value);
    }
    STITCH_TRY(std::visit([&](const auto& work) { return check_work(step, work); }, step.work));
    for (const int value : step.results) available_[value] = true;
    return {};
  }

  Status check_types(const std::vector<int>& values, const std::vector<TensorType>& types, std::string_view list) {
    if (values.size() != types.size()) return wrong("{}: {} values, {} are needed", list, values.size(), types.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!same_memory(type(values[i]), types[i])) {
        return wrong("{}[{}]: value {} is {}, {} is needed", list, i, values[i], graph::to_string(type(values[i])),
                     graph::to_string(types[i]));
      }
    }
    return {};
  }

  Status check_work(const ProgramStep& step, const FragmentStep& work) {
    if (work.fragment < 0 || work.fragment >= std::ssize(program_.fragments))
      return wrong("fragment.index: there is no fragment {}", work.fragment);
    const graph::Graph& graph = program_.fragments[work.fragment].graph;
    STITCH_TRY(check_types(step.parameters, parameter_types(graph), "parameters"));
    STITCH_TRY(check_types(step.results, result_types(graph), "results"));
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      const auto found = std::ranges::find(step.parameters, step.results[i]);
      if (found == step.parameters.end()) continue;
      const auto updated = graph::updated_parameter(graph, graph.results()[i]);
      const std::size_t position = found - step.parameters.begin();
      if (updated != position || std::ranges::count(step.parameters, step.results[i]) > 1)
        return wrong("results[{}]: value {} is a parameter that the fragment does not update in place", i, *found);
    }
    return {};
  }

  Status check_work(const ProgramStep& step, const LibraryStep& work) {
    if (work.call < 0 || work.call >= std::ssize(program_.calls))
      return wrong("library.index: there is no call {}", work.call);
    const graph::Graph& graph = program_.calls[work.call].graph;
    STITCH_TRY(check_types(step.parameters, parameter_types(graph), "parameters"));
    STITCH_TRY(check_types(step.results, result_types(graph), "results"));
    return check_apart(step);
  }

  /// That no result is among the parameters, where nothing is done in place.
  static Status check_apart(const ProgramStep& step) {
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      if (std::ranges::count(step.parameters, step.results[i]) > 0)
        return wrong("results[{}]: value {} is a parameter too", i, step.results[i]);
    }
    return {};
  }

  /// A region that a step runs stands behind this one, and no other step runs it.
  Status check_region(int region, std::string_view name) {
    const bool sound = region > static_cast<int>(index_) && region < std::ssize(program_.regions);
    if (!sound || !run_.insert(region).second) return wrong("{}: region {} cannot be run here", name, region);
    return {};
  }

  Status check_scratch(int scratch, std::int64_t needed) {
    if (scratch == -1 && needed == 0) return {};
    if (!is_value(scratch) || !region_.values[scratch].is_placed() || type(scratch).bytes() < needed)
      return wrong("scratch: value {} does not hold the regions' arena of {} bytes", scratch, needed);
    return {};
  }

  [[nodiscard]] std::vector<TensorType> types_of(const ProgramRegion& region, const std::vector<int>& values) const {
    std::vector<TensorType> types;
    for (const int value : values)
      types.push_back(value >= 0 && value < std::ssize(region.values) ? region.values[value].type : TensorType());
    return types;
  }

  Status check_work(const ProgramStep& step, const LoopStep& work) {
    STITCH_TRY(check_region(work.body, "loop.body"));
    const ProgramRegion& body = program_.regions[work.body];
    STITCH_TRY(check_types(step.parameters, types_of(body, body.parameters), "parameters"));
    STITCH_TRY(check_types(step.results, types_of(body, body.parameters), "results"));
    STITCH_TRY(check_types(step.results, types_of(body, body.results), "results"));
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      const auto same = std::ranges::count(step.parameters, step.results[i]);
      if (same > 1 || (same == 1 && step.parameters[i] != step.results[i]))
        return wrong("results[{}]: value {} is another parameter of the loop", i, step.results[i]);
    }
    if ((work.condition < 0) != (work.trip_count >= 0))
      return wrong("loop.condition: there is one exactly when the trip count is not known");
    std::int64_t arena = body.arena_bytes;
    if (work.condition >= 0) {
      STITCH_TRY(check_region(work.condition, "loop.condition"));
      const ProgramRegion& condition = program_.regions[work.condition];
      STITCH_TRY(check_types(step.results, types_of(condition, condition.parameters), "results"));
      const auto truth = types_of(condition, condition.results);
      if (truth != std::vector{TensorType{graph::DType::pred, {}}})
        return wrong("loop.condition: region {} gives no truth", work.condition);
      arena = std::max(arena, condition.arena_bytes);
    }
    STITCH_TRY(check_scratch(work.scratch, arena));
    if (work.spares.size() != step.results.size())
      return wrong("loop.spares: {} for {} results", work.spares.size(), step.results.size());
    for (std::size_t i = 0; i < work.spares.size(); ++i) {
      const bool in_place = body.results[i] == body.parameters[i];
      if (in_place != (work.spares[i] == -1)) return wrong("loop.spares[{}]: is needed unless in place", i);
      if (in_place) continue;
      if (!is_value(work.spares[i]) || !same_memory(type(work.spares[i]), type(step.results[i])) ||
          !region_.values[work.spares[i]].is_placed())
        return wrong("loop.spares[{}]: value {} is no memory for result {}", i, work.spares[i], i);
    }
    return {};
  }

  Status check_work(const ProgramStep& step, const BranchStep& work) {
    if (work.regions.empty()) return wrong("branch.regions: there are none");
    const bool selects = !step.parameters.empty() && type(step.parameters[0]).elements() == 1 &&
                         !graph::is_floating(type(step.parameters[0]).dtype);
    if (!selects) return wrong("parameters[0]: selects no branch");
    const std::vector<int> arguments(step.parameters.begin() + 1, step.parameters.end());
    std::int64_t arena = 0;
    for (const int index : work.regions) {
      STITCH_TRY(check_region(index, "branch.regions"));
      const ProgramRegion& region = program_.regions[index];
      STITCH_TRY(check_types(arguments, types_of(region, region.parameters), "parameters"));
      STITCH_TRY(check_types(step.results, types_of(region, region.results), "results"));
      arena = std::max(arena, region.arena_bytes);
      for (std::size_t r = 0; r < region.results.size(); ++r) {
        const int value = region.results[r];
        const bool own =
            value >= 0 && value < std::ssize(region.values) && region.values[value].storage == Storage::result;
        if (!own) return wrong("branch.regions: result {} of region {} has no memory of its own", r, index);
      }
    }
    STITCH_TRY(check_scratch(work.scratch, arena));
    return check_apart(step);
  }

  Status check_work(const ProgramStep& step, const CopyStep& work) {
    if (step.parameters.size() != 1 || step.results.size() != 1) return wrong("copy: not one value to another");
    if (type(step.parameters[0]).bytes() != work.bytes || type(step.results[0]).bytes() != work.bytes)
      return wrong("copy.bytes: {} are not those of its values", work.bytes);
    return check_apart(step);
  }

  Status check_work(const ProgramStep& step, const ForeignStep&) { return check_apart(step); }

  /// That values in use at the same time are apart, and that nobody is in a result's memory once that is in use.
  Status check_memory() {
    const std::vector<Lifetime> lifetimes = lifetimes_of(region_);
    const auto start = [&](int v) {
      const ProgramValue& value = region_.values[v];
      return std::pair(value.lender.value_or(-1), value.place);
    };
    std::vector<int> placed;
    for (int v = 0; v < std::ssize(region_.values); ++v) {
      const ProgramValue& value = region_.values[v];
      if (!value.is_placed() || lifetimes[v].empty()) continue;
      placed.push_back(v);
      if (value.lender && lifetimes[v].meets(lifetimes[region_.results[*value.lender]]))
        return wrong("values[{}]: lies in result {} while that is in use", v, *value.lender);
    }
    std::ranges::sort(placed, {}, start);
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const int a = placed[i];
      const auto [lender, from] = start(a);
      const std::pair end(lender, from + arena_bytes_of(type(a).bytes()));
      for (std::size_t j = i + 1; j < placed.size() && start(placed[j]) < end; ++j) {
        if (lifetimes[a].meets(lifetimes[placed[j]]))
          return wrong("values[{}]: shares memory with value {} while both are in use", a, placed[j]);
      }
    }
    return {};
  }

  const Program& program_;
  const ProgramRegion& region_;
  const std::size_t index_;
  std::set<int>& run_;  ///< regions that steps run, so far
  std::vector<bool> available_;
};

Status check_plan(const ProgramFragment& fragment) {
  if (!fragment.plan) return {};
  if (fragment.plan->fragment != fragment.key)
    return make_error(ErrorKind::parse, "plan.fragment: {} is not the fragment's key", fragment.plan->fragment.hex());
  if (fragment.plan->parameters != parameter_types(fragment.graph) ||
      fragment.plan->results != result_types(fragment.graph))
    return make_error(ErrorKind::parse, "plan: its parameters and results are not those of the fragment");
  return {};
}

Status check_outer(const Program& program) {
  if (program.regions.empty()) return make_error(ErrorKind::parse, "regions: there are none");
  const ProgramRegion& model = program.regions[0];
  const auto check = [&](const std::vector<ProgramPort>& ports, const std::vector<int>& values,
                         std::string_view list) -> Status {
    if (ports.size() != values.size())
      return make_error(ErrorKind::parse, "{}: {}, the first region has {}", list, ports.size(), values.size());
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].type != model.values[values[i]].type)
        return make_error(ErrorKind::parse, "{}[{}].type: not that of value {}", list, i, values[i]);
    }
    return {};
  };
  STITCH_TRY(check(program.parameters, model.parameters, "parameters"));
  return check(program.results, model.results, "results");
}

}  // namespace

Status check_program(const Program& program) {
  std::set<int> run;
  for (std::size_t f = 0; f < program.fragments.size(); ++f) {
    const Status status = check_plan(program.fragments[f]);
    if (!status) return status.error().within(fmt::format("fragments[{}]", f));
  }
  for (std::size_t r = 0; r < program.regions.size(); ++r) {
    const Status status = RegionCheck(program, r, run).check();
    if (!status) return status.error().within(fmt::format("regions[{}]", r));
  }
  return check_outer(program);
}

}  // namespace stitch::api
