#include "kernel/pipeline/nest.h"

#include <algorithm>

#include "base/result.h"

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;

class NestPrinter {
 public:
  explicit NestPrinter(const TileNest& nest) : nest_(nest) {}

  std::string print() {
    body(nest_.body, 0);
    return std::move(text_);
  }

 private:
  void body(const std::vector<TileStatement>& statements, int depth) {
    for (const TileStatement& each : statements) {
      text_ += std::string(2 * depth, ' ') + guards(each) + statement(each) + '\n';
      body(each.body, depth + 1);
    }
  }

  [[nodiscard]] std::string guards(const TileStatement& s) const {
    std::string text;
    for (const TileGuard& guard : s.guards) {
      text += fmt::format("if {} {} {}: ", to_string(nest_, guard.index),
                          guard.kind == TileGuard::Kind::below ? "<" : "==", guard.bound);
    }
    return text;
  }

  [[nodiscard]] std::string place(const TileAccess& access) const {
    const TileBuffer& buffer = nest_.buffers[access.buffer];
    if (buffer.scope == Scope::device) return buffer.name;
    return fmt::format("{}[{}]", buffer.name, to_string(nest_, access.stage));
  }

  [[nodiscard]] std::string statement(const TileStatement& s) const {
    switch (s.kind) {
      case Kind::loop: {
        const TileLoop& loop = nest_.loops[s.loop];
        return fmt::format("for {} in 0..{}{}", loop.name, loop.extent, loop.unrolled ? " unrolled" : "");
      }
      case Kind::copy:
        if (s.part == TileStatement::Part::load)
          return fmt::format("load {} {}", nest_.buffers[s.to.buffer].name, to_string(nest_, s.to.tile));
        if (s.part == TileStatement::Part::store)
          return fmt::format("store {} {}", place(s.to), to_string(nest_, s.to.tile));
        return fmt::format("copy {} <- {} {}", place(s.to), place(s.from), to_string(nest_, s.to.tile));
      case Kind::compute: {
        std::string text = "compute " + s.name;
        for (const TileAccess& read : s.reads) text += " " + place(read);
        return text;
      }
      case Kind::commit: return "commit";
      case Kind::wait: return fmt::format("wait {}", s.pending);
      case Kind::acquire: break;
    }
    return "acquire";
  }

  const TileNest& nest_;
  std::string text_;
};

}  // namespace

TileStatement tile_copy(TileAccess to, TileAccess from) {
  TileStatement copy;
  copy.kind = Kind::copy;
  copy.to = to;
  copy.from = from;
  return copy;
}

TileStatement tile_loop(int loop, std::vector<TileStatement> body) {
  TileStatement made;
  made.kind = Kind::loop;
  made.loop = loop;
  made.body = std::move(body);
  return made;
}

int TileNest::add_loop(std::string name, std::int64_t extent, bool unrolled) {
  const Index variable = pool.variable(0, std::max<std::int64_t>(0, extent - 1));
  loops.push_back({std::move(name), extent, variable, unrolled});
  return static_cast<int>(loops.size()) - 1;
}

int TileNest::add_buffer(std::string name, Scope scope) {
  buffers.push_back({std::move(name), scope});
  return static_cast<int>(buffers.size()) - 1;
}

std::string to_string(const TileNest& nest, Index index) {
  const IndexPool& pool = nest.pool;
  switch (pool.kind(index)) {
    case IndexPool::Kind::constant: return fmt::format("{}", pool.constant_part(index));
    case IndexPool::Kind::variable: {
      const auto named = [index](const TileLoop& loop) { return loop.variable == index; };
      const auto loop = std::ranges::find_if(nest.loops, named);
      return loop == nest.loops.end() ? "?" : loop->name;
    }
    case IndexPool::Kind::quotient:
      return fmt::format("({}) / {}", to_string(nest, pool.dividend(index)), pool.divisor(index));
    case IndexPool::Kind::remainder:
      return fmt::format("({}) % {}", to_string(nest, pool.dividend(index)), pool.divisor(index));
    case IndexPool::Kind::sum: break;
  }
  std::string text;
  for (const IndexPool::Term& term : pool.terms(index)) {
    if (!text.empty()) text += " + ";
    const std::string atom = to_string(nest, term.atom);
    text += term.coefficient == 1 ? atom : fmt::format("{} * {}", term.coefficient, atom);
  }
  if (pool.constant_part(index) != 0) text += fmt::format(" + {}", pool.constant_part(index));
  return text;
}

std::string to_string(const TileNest& nest) { return NestPrinter(nest).print(); }

}  // namespace stitch::kernel::pipeline
