#include "codegen/recurrent_emitter.h"

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/group_emitter.h"
#include "codegen/kernel_text.h"
#include "codegen/spelling.h"

namespace stitch::codegen {
namespace {

using kernel::Buffer;
using kernel::RecurrentStep;
using Source = RecurrentStep::Source;

class RecurrentEmitter {
 public:
  RecurrentEmitter(const kernel::KernelProgram& program, const GenerateOptions& options)
      : program_(program),
        options_(options),
        step_(*program.recurrent),
        offset_(kernel::resident_offset(program)),
        layout_(kernel::resident_layout(program)) {}

  GeneratedKernel emit() {
    kernel_.name = options_.name;
    kernel_.threads = program_.schedule.threads;
    kernel_.blocks = program_.blocks;
    kernel_.cluster = cluster();
    kernel_.shared_bytes = program_.shared_bytes;
    make_functions();
    emit_preamble(out_, options_.comment, multiplies() ? "state_product.cuh" : "");
    emit_tables(out_, step_.graph, program_);
    for (const auto& phase : phases_) {
      for (const Function& function : phase) emit_function(function);
    }
    emit_namespace_end(out_);
    emit_kernel();
    kernel_.source = out_.text();
    return std::move(kernel_);
  }

 private:
  /// Blocks that take the same rows, and share the work on them.
  [[nodiscard]] int cluster() const { return program_.schedule.cluster; }
  [[nodiscard]] std::string rows_number() const {
    return cluster() == 1 ? "blockIdx.x" : fmt::format("(blockIdx.x / {})", cluster());
  }
  /// Whether tensor cores do.
  [[nodiscard]] bool multiplies() const {
    return std::ranges::any_of(program_.phases, [](const kernel::PhaseProgram& phase) {
      return std::ranges::any_of(phase.groups,
                                 [](const kernel::GroupProgram& group) { return !group.products.empty(); });
    });
  }
  void emit_barrier() { out_.line("{}", cluster() > 1 ? "cluster_barrier();" : "__syncthreads();"); }

  /// One group of a turn.
  struct Function {
    std::string name, body, description;
    std::vector<GroupPointers::Pointer> parameters;
    bool uses_shared = false;  ///< for exchanges or held values, as the groups beside it do
    std::vector<HoistedLoad> hoisted;
    std::string loads;  ///< the statements that make them
  };

  void make_functions() {
    GroupFrame frame;
    frame.shared_exchange = program_.held_bytes();
    frame.residence = kernel::Residence(program_);
    std::size_t fragments = 0;
    for (std::size_t p = 0; p < program_.phases.size(); ++p) {
      auto& functions = phases_.emplace_back();
      for (const kernel::GroupProgram& group : program_.phases[p].groups) {
        GroupEmitter emitter(step_.graph, group, program_.schedule, frame);
        Function made;
        made.name = fmt::format("group_{}_{}", p, functions.size());
        made.body = emitter.emit();
        made.description = describe(step_.graph, group);
        made.parameters = emitter.pointers().parameters();
        made.uses_shared = group.exchange_bytes > 0 || group.held_bytes > 0;
        made.hoisted = emitter.hoisted();
        // Those for tensor cores are the last.
        const std::size_t first = made.hoisted.size() - group.products.size();
        for (std::size_t i = first; i < made.hoisted.size(); ++i)
          made.hoisted[i].offset = layout_.fragments[fragments++];
        if (!made.hoisted.empty())
          made.loads = GroupEmitter(step_.graph, group, program_.schedule, frame).emit_hoisted();
        functions.push_back(std::move(made));
      }
    }
  }

  /// The pointers that a function's hoisted loads read.
  static std::vector<GroupPointers::Pointer> hoisted_parameters(const Function& function) {
    std::vector<GroupPointers::Pointer> parameters = function.parameters;
    std::erase_if(parameters, [&](const GroupPointers::Pointer& pointer) {
      return std::ranges::none_of(function.hoisted, [&](const HoistedLoad& load) {
        return std::ranges::find(load.buffers, pointer.buffer) != load.buffers.end();
      });
    });
    return parameters;
  }

  static std::string parameters_of(const std::vector<GroupPointers::Pointer>& pointers) {
    std::string text;
    for (const auto& each : pointers) text += pointer_parameter(each) + ", ";
    return text;
  }
  std::string arguments_of(const std::vector<GroupPointers::Pointer>& pointers) {
    std::string text;
    for (const auto& each : pointers) text += pointer(each.buffer, each.dtype) + ", ";
    return text;
  }
  static std::string hoisted_name(const Function& function, const HoistedLoad& each) {
    return function.name + "_" + each.name;
  }

  /// What every turn reads alike, into registers before the first one.
  void emit_hoisted() {
    for (const auto& phase : phases_) {
      for (const Function& function : phase) {
        std::string arrays;
        for (const HoistedLoad& each : function.hoisted) {
          const std::string name = hoisted_name(function, each);
          if (each.in_shared)
            out_.line("{0}* const {1} = reinterpret_cast<{0}*>(resident + {2});", each.type, name, each.offset);
          else
            out_.line("{} {}{};", each.type, name, each.dims);
          arrays += (arrays.empty() ? "" : ", ") + name;
        }
        if (!arrays.empty())
          out_.line("{}_loads({}{});", function.name, arguments_of(hoisted_parameters(function)), arrays);
      }
    }
  }

  void emit_function(const Function& function) {
    std::string parameters = parameters_of(function.parameters);
    std::string arrays;
    for (const HoistedLoad& each : function.hoisted) {
      arrays += arrays.empty() ? "" : ", ";
      arrays += each.in_shared ? fmt::format("{}* const {}", each.type, each.name)
                               : fmt::format("{} (&{}){}", each.type, each.name, each.dims);
    }
    if (!function.hoisted.empty()) {
      out_.open("__device__ __forceinline__ void {}_loads({}{})", function.name,
                parameters_of(hoisted_parameters(function)), arrays);
      append_body(out_, function.loads);
      out_.close();
      out_.blank();
      parameters += arrays + ", ";
    }
    out_.line("// {}", function.description);
    out_.open("__device__ __forceinline__ void {}({}unsigned char* const shared)", function.name, parameters);
    append_body(out_, function.body);
    out_.close();
    out_.blank();
  }

  // ---- the kernel -------------------------------------------------------------------------------------------

  /// The kernel's own parameter for a tensor in device memory, declared when it is first asked for.
  std::string argument(const Buffer& buffer, graph::DType dtype) {
    const bool input = buffer.kind == Buffer::Kind::input;
    std::string name = fmt::format("{}{}", input ? "in" : "out", buffer.number);
    if (named_.try_emplace(buffer, name).second) {
      parameters_ += (parameters_.empty() ? "" : ", ") + pointer_parameter({buffer, dtype, name});
      kernel_.arguments.push_back({Argument::Kind::buffer, buffer, 0});
    }
    return name;
  }

  [[nodiscard]] static std::string resident(std::string_view base, std::int64_t offset, graph::DType dtype) {
    return fmt::format("reinterpret_cast<{}*>({}{})", storage_type(dtype), base,
                       offset == 0 ? "" : fmt::format(" + {}", offset));
  }

  /// What a group's function gets for one of its buffers.
  std::string pointer(const Buffer& buffer, graph::DType dtype) {
    const std::size_t number = buffer.number;
    if (buffer.kind == Buffer::Kind::scratch) return resident("resident", layout_.scratch[number], dtype);
    if (buffer.kind == Buffer::Kind::output) {
      const RecurrentStep::Target& target = step_.targets[number];
      if (!target.is_state) return argument({Buffer::Kind::output, target.number}, dtype);
      return resident("next", layout_.states[target.number], dtype);
    }
    const Source& source = step_.sources[number];
    switch (source.kind) {
      case Source::Kind::input: return argument({Buffer::Kind::input, source.number}, dtype);
      case Source::Kind::output: return argument({Buffer::Kind::output, source.number}, dtype);
      case Source::Kind::state: return resident("now", layout_.states[source.number], dtype);
      case Source::Kind::first_row: break;
    }
    return "first_row";
  }

  void emit_kernel() {
    Writer file = std::exchange(out_, {});
    out_.set_depth(1);
    for (std::int64_t turn = 0; turn < std::min<std::int64_t>(step_.turns, RecurrentStep::turns_ahead); ++turn)
      emit_prefetch(std::to_string(turn));
    emit_hoisted();
    emit_first_state();
    emit_turns();
    emit_last_state();
    const std::string body = std::exchange(out_, std::move(file)).text();
    out_.line("// {} turns; {} rows a {}", step_.turns, step_.rows, cluster() > 1 ? "cluster" : "block");
    out_.line("extern \"C\" __global__ void {}", launch_bounds(kernel_.threads, options_.blocks_per_sm));
    out_.open("{}({})", kernel_.name, parameters_);
    emit_shared();
    std::vector<std::string> pointers;
    for (const auto& [buffer, name] : named_) pointers.push_back(name);
    out_.line("await_predecessor({});", fmt::join(pointers, ", "));
    out_.append(body);
    out_.close();
  }

  void emit_shared() {
    out_.line("extern __shared__ __align__(16) unsigned char shared[];");
    out_.line("unsigned char* const resident = shared + {};  // what turns and phases hand on", offset_);
    // The compiler may load whole vectors of what is guarded element by element: all that it may meet is written once.
    out_.line(
        "for (int i = static_cast<int>(threadIdx.x); i < {}; i += {}) reinterpret_cast<uint4*>(resident)[i] = {{}};",
        layout_.bytes / 16, kernel_.threads);
    out_.line("__syncthreads();");
    out_.line("int* const first_row = reinterpret_cast<int*>(resident + {});", layout_.first_row);
    out_.line("if (threadIdx.x == 0) *first_row = static_cast<int>({}) * {};", rows_number(), step_.rows);
  }

  /// Index in the whole tensor of element `i` of a block's part.
  [[nodiscard]] std::string whole_index(const RecurrentStep::State& state) const {
    if (state.row_dimension < 0) return "i";
    const std::size_t d = state.row_dimension;
    std::int64_t inner = 1;
    for (std::size_t i = d + 1; i < state.type.dims.size(); ++i) inner *= state.type.dims[i];
    const std::int64_t run = inner * step_.rows, all = inner * state.all_rows;
    const std::string first = fmt::format("static_cast<s64>({}) * {}", rows_number(), run);
    if (run == state.type.elements()) return first + " + i";
    return fmt::format("{} + static_cast<s64>(i / {}) * {} + i % {}", first, run, all, run);
  }

  void open_elements(const RecurrentStep::State& state) {
    out_.open("for (int i = static_cast<int>(threadIdx.x); i < {}; i += {})", state.type.elements(), kernel_.threads);
  }

  void emit_first_state() {
    for (std::size_t s = 0; s < step_.states.size(); ++s) {
      const RecurrentStep::State& state = step_.states[s];
      const graph::DType dtype = state.type.dtype;
      open_elements(state);
      out_.line("{}* const to = {};", storage_type(dtype), resident("resident", layout_.states[s], dtype));
      if (state.first_input) {
        out_.line("to[i] = {}[{}];", argument({Buffer::Kind::input, *state.first_input}, dtype), whole_index(state));
      } else {
        out_.line("const {} from = {};", storage_type(dtype), stored_literal(dtype, state.fill));
        out_.line("to[i] = from;");
      }
      out_.close();
    }
    emit_barrier();
  }

  /// Asks for what turn `turn` reads of sequences, which no cache has seen: else it would wait for device memory.
  void emit_prefetch(const std::string& turn) {
    const std::string thread = cluster() == 1 ? "static_cast<int>(threadIdx.x)"
                                              : fmt::format("static_cast<int>(blockIdx.x % {} * {} + threadIdx.x)",
                                                            cluster(), kernel_.threads);
    for (const RecurrentStep::Sequence& sequence : step_.sequences) {
      const std::size_t parameter = sequence.parameter;
      const graph::DType dtype = step_.graph.node(step_.graph.parameters()[parameter]).type().dtype;
      std::string from =
          fmt::format("reinterpret_cast<const char*>({}) + static_cast<s64>({}{}) * {}",
                      pointer({Buffer::Kind::input, sequence.parameter}, dtype),
                      sequence.backward ? fmt::format("{} - ", step_.turns - 1) : "", turn, sequence.turn_bytes);
      if (sequence.row_bytes > 0)
        from += fmt::format(" + static_cast<s64>({}) * {}", rows_number(), step_.rows * sequence.row_bytes);
      out_.line("prefetch<{}, {}>({}, {}, {}, {});", sequence.runs, sequence.run_bytes, from, sequence.row_bytes,
                thread, kernel_.threads * cluster());
    }
  }

  void emit_turns() {
    out_.line("#pragma unroll 1");
    out_.open("for (int turn = 0; turn < {}; ++turn)", step_.turns);
    if (!step_.states.empty()) {
      out_.line("unsigned char* const now = resident + (turn & 1) * {};", layout_.copy);
      out_.line("unsigned char* const next = resident + (~turn & 1) * {};", layout_.copy);
    }
    if (!step_.sequences.empty() && step_.turns > RecurrentStep::turns_ahead) {
      out_.open("if (turn < {})", step_.turns - RecurrentStep::turns_ahead);
      emit_prefetch(fmt::format("(turn + {})", RecurrentStep::turns_ahead));
      out_.close();
    }
    for (const auto& phase : phases_) {
      for (std::size_t f = 0; f < phase.size(); ++f) {
        const Function& function = phase[f];
        std::string arguments = arguments_of(function.parameters);
        for (const HoistedLoad& each : function.hoisted) arguments += hoisted_name(function, each) + ", ";
        out_.line("{}({}shared);", function.name, arguments);
        // The last group's readers stand behind the barrier; the others' only where they share memory.
        if (f + 1 == phase.size()) {
          emit_barrier();
        } else if (function.uses_shared) {
          out_.line("__syncthreads();");
        }
      }
    }
    out_.close();
  }

  void emit_last_state() {
    for (std::size_t s = 0; s < step_.states.size(); ++s) {
      const RecurrentStep::State& state = step_.states[s];
      if (!state.output) continue;
      const graph::DType dtype = state.type.dtype;
      const int depth = out_.depth();
      // Every block has the same of what has no rows, every block of a cluster the same of all.
      if (state.row_dimension < 0 && program_.blocks > 1) {
        out_.open("if (blockIdx.x == 0)");
      } else if (cluster() > 1) {
        out_.open("if (blockIdx.x % {} == 0)", cluster());
      }
      open_elements(state);
      out_.line("const {}* const from = {};", storage_type(dtype),
                resident("resident", layout_.states[s] + (step_.turns % 2) * layout_.copy, dtype));
      out_.line("{}[{}] = from[i];", argument({Buffer::Kind::output, *state.output}, dtype), whole_index(state));
      out_.close(out_.depth() - depth);
    }
  }

  const kernel::KernelProgram& program_;
  const GenerateOptions& options_;
  const RecurrentStep& step_;
  const std::int64_t offset_;
  const kernel::ResidentLayout layout_;
  std::vector<std::vector<Function>> phases_;
  std::map<Buffer, std::string> named_;
  std::string parameters_;
  GeneratedKernel kernel_;
  Writer out_;
};

}  // namespace

Result<GeneratedKernel> generate_recurrent(const kernel::KernelProgram& program, const GenerateOptions& options) {
  return RecurrentEmitter(program, options).emit();
}

}  // namespace stitch::codegen
