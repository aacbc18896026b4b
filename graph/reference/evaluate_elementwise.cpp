#include <algorithm>

#include "graph/reference/evaluate_chunk.h"
#include "graph/reference/evaluate_run.h"

// Chunk by chunk through a cluster of element-wise nodes: only the root's values are stored.

namespace stitch::graph::reference {
namespace {

const double zeros[chunk_size] = {};

/// A block's values from one on; null where it has none of this kind (it has floats or integers).
template <class Values>
auto* at_offset(Values& values, std::size_t offset) {
  return values.empty() ? nullptr : values.data() + offset;
}

/// Where a step's operand comes from: a block outside the cluster, or an earlier step.
struct StepOperand {
  int step = -1;      ///< index of the step, or
  int external = -1;  ///< of the external block
};

/// A short array of one value; floats or integers, and bounds.
struct ChunkBuffer {
  std::vector<double> floats, bounds;
  std::vector<std::int64_t> integers;

  ChunkBuffer(DType dtype, bool bounded) {
    if (is_floating(dtype)) {
      floats.resize(chunk_size);
    } else {
      integers.resize(chunk_size);
    }
    if (bounded) bounds.resize(chunk_size);
  }
};

struct ChunkStep {
  const Node* node;
  Kernel kernel;
  Chunk chunk;
  Rounding rounding;
  StepOperand operands[3];
  bool bounded = false, rounds = false, nonnegative = false;
  int last_use = -1;  ///< step that reads it last
  int buffer = -1;    ///< -1: the root, which writes to the result
};

/// An operand from outside: dense, or uniform and then spread over one chunk.
struct External {
  Block block;
  std::vector<double> floats, bounds;
  std::vector<std::int64_t> integers;

  explicit External(Block value) : block(std::move(value)) {
    if (!block.uniform) return;
    const Storage& one = *block.data;
    if (!one.floats.empty()) floats.assign(chunk_size, one.floats[0]);
    if (!one.integers.empty()) integers.assign(chunk_size, one.integers[0]);
    if (!one.bounds.empty()) bounds.assign(chunk_size, one.bounds[0]);
  }
  [[nodiscard]] ChunkOperand at(std::size_t offset) const {
    ChunkOperand operand;
    const Storage& data = *block.data;
    if (block.uniform) {
      operand.floats = floats.data();
      operand.integers = integers.data();
      operand.bounds = bounds.empty() ? zeros : bounds.data();
    } else {
      operand.floats = at_offset(data.floats, offset);
      operand.integers = at_offset(data.integers, offset);
      operand.bounds = data.bounds.empty() ? zeros : data.bounds.data() + offset;
    }
    operand.nonnegative = data.nonnegative;
    return operand;
  }
};

/// A cluster made ready for one box.
class Program {
 public:
  Program(const Graph& graph, const EvaluateOptions& options) : graph_(graph), options_(options) {}

  /// Index of the external block of `value`, or -1 if it has none yet.
  [[nodiscard]] int find_external(Value value) const {
    for (std::size_t i = 0; i < external_values_.size(); ++i) {
      if (external_values_[i] == value) return i;
    }
    return -1;
  }
  [[nodiscard]] int find_step(NodeId id) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] == id) return i;
    }
    return -1;
  }
  void add_external(Value value, Block block) {
    external_values_.push_back(value);
    externals_.emplace_back(std::move(block));
  }
  [[nodiscard]] bool all_uniform() const {
    return std::all_of(externals_.begin(), externals_.end(), [](const External& e) { return e.block.uniform; });
  }

  void add_step(NodeId id, bool may_be_one_sided);
  void assign_buffers();
  /// Error: cancelled.
  Status run(std::int64_t elements, const Memory& memory, Storage& result);

  [[nodiscard]] const ChunkStep& root() const { return steps_.back(); }

 private:
  void run_chunk(std::size_t offset, std::size_t count, Storage& result);

  const Graph& graph_;
  const EvaluateOptions& options_;
  std::vector<NodeId> nodes_;
  std::vector<ChunkStep> steps_;
  std::vector<Value> external_values_;
  std::vector<External> externals_;
  std::vector<ChunkBuffer> buffers_;
};

void Program::add_step(NodeId id, bool may_be_one_sided) {
  const Node& node = graph_.node(id);
  ChunkStep step{};
  step.node = &node;
  const DType operand_dtype = graph_.type(node.operands.back()).dtype;  // of select: of the data
  step.kernel = find_kernel(node, operand_dtype);
  step.chunk.node = &node;
  step.chunk.operand_dtype = operand_dtype;
  step.chunk.dtype = node.type().dtype;
  step.chunk.may_be_one_sided = may_be_one_sided;
  if (is_floating(node.type().dtype)) step.rounding = Rounding(node.type().dtype, options_.error_model);
  const int index = steps_.size();
  bool exact = true;
  ChunkOperand operands[3];
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    StepOperand& from = step.operands[k];
    from.step = find_step(node.operands[k].node);
    if (from.step >= 0) {
      ChunkStep& producer = steps_[from.step];
      producer.last_use = index;
      exact = exact && !producer.bounded;
      operands[k].nonnegative = producer.nonnegative;
    } else {
      from.external = find_external(node.operands[k]);
      const Storage& data = *externals_[from.external].block.data;
      exact = exact && data.bounds.empty();
      operands[k].nonnegative = data.nonnegative;
    }
  }
  const bool keeps_exact = is_exact_on_exact(node, operand_dtype);
  step.bounded = options_.bounds && !(exact && keeps_exact);
  step.rounds = options_.round && is_floating(node.type().dtype) && !keeps_exact;
  step.nonnegative = is_nonnegative(node, operand_dtype, operands);
  nodes_.push_back(id);
  steps_.push_back(step);
}

void Program::assign_buffers() {
  struct Free {
    DType dtype;
    bool bounded;
    int buffer;
  };
  std::vector<Free> unused;
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    ChunkStep& step = steps_[i];
    const auto fits = [&](const Free& f) {
      return is_floating(f.dtype) == is_floating(step.chunk.dtype) && f.bounded == step.bounded;
    };
    const auto found = std::find_if(unused.begin(), unused.end(), fits);
    if (found != unused.end()) {
      step.buffer = found->buffer;
      unused.erase(found);
    } else {
      step.buffer = buffers_.size();
      buffers_.emplace_back(step.chunk.dtype, step.bounded);
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (steps_[k].last_use == static_cast<int>(i)) {
        unused.push_back({steps_[k].chunk.dtype, steps_[k].bounded, steps_[k].buffer});
      }
    }
  }
}

void Program::run_chunk(std::size_t offset, std::size_t count, Storage& result) {
  for (ChunkStep& step : steps_) {
    Chunk& c = step.chunk;
    c.rounding = &step.rounding;
    c.count = count;
    for (std::size_t k = 0; k < step.node->operands.size(); ++k) {
      if (step.operands[k].external >= 0) {
        c.in[k] = externals_[step.operands[k].external].at(offset);
        continue;
      }
      const ChunkStep& producer = steps_[step.operands[k].step];
      c.in[k] = {producer.chunk.floats, producer.chunk.integers, producer.bounded ? producer.chunk.bounds : zeros,
                 producer.nonnegative};
    }
    if (step.buffer < 0) {
      c.floats = at_offset(result.floats, offset);
      c.integers = at_offset(result.integers, offset);
      c.bounds = step.bounded ? result.bounds.data() + offset : nullptr;
    } else {
      ChunkBuffer& buffer = buffers_[step.buffer];
      c.floats = buffer.floats.data();
      c.integers = buffer.integers.data();
      c.bounds = step.bounded ? buffer.bounds.data() : nullptr;
    }
    step.kernel(c);
    if (step.rounds) round_values(c.dtype, c.floats, c.bounds, count);
    const bool read = step.buffer >= 0;
    if (read && c.dtype == DType::f8e4m3 && c.bounds != nullptr) doubt_infinities(c.floats, c.bounds, count);
  }
}

Status Program::run(std::int64_t elements, const Memory& memory, Storage& result) {
  const std::size_t total = elements;
  for (std::size_t offset = 0; offset < total; offset += chunk_size) {
    STITCH_TRY(memory.go_on());
    run_chunk(offset, std::min(chunk_size, total - offset), result);
  }
  return {};
}

}  // namespace

Result<Block> Evaluation::compute_chunks(NodeId root, const std::vector<NodeId>& members, const Box& out) {
  Program program(graph_, options_);
  std::vector<NodeId> nodes = members;
  nodes.push_back(root);
  for (const NodeId id : nodes) {
    for (const Value& operand : graph_.node(id).operands) {
      if (state(operand.node).root == root && operand.node != root) continue;
      if (program.find_external(operand) >= 0) continue;
      const Slot& from = slot(operand);
      STITCH_ASSIGN(Block block, extract(memory_, from.blocks[from.region.find(out)], out));
      program.add_external(operand, std::move(block));
    }
  }
  for (const NodeId id : nodes) program.add_step(id, state(id).may_be_one_sided);
  program.assign_buffers();
  const DType dtype = graph_.node(root).type().dtype;
  const bool uniform = program.all_uniform();
  const std::int64_t elements = uniform ? 1 : out.elements();
  STITCH_ASSIGN(StorageRef storage, memory_.make(dtype, elements, program.root().bounded));
  storage->nonnegative = program.root().nonnegative;
  STITCH_TRY(program.run(elements, memory_, *storage));
  return Block{dtype, out, std::move(storage), uniform};
}

}  // namespace stitch::graph::reference
