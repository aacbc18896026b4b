#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/group_pointers.h"
#include "codegen/writer.h"
#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::codegen {

/// What every kernel's source begins with: its comment, the device headers, and the namespace of all but the kernel.
/// `header`: a device header beside those of every kernel; empty: none.
void emit_preamble(Writer& out, const std::string& comment, std::string_view header = {});
void emit_namespace_end(Writer& out);

/// Constants that are indexed by a variable, as arrays of the device. `graph`: what the phases compute.
void emit_tables(Writer& out, const graph::Graph& graph, const kernel::KernelProgram& program);

/// An element with these bits, as it lies in memory.
std::string stored_literal(graph::DType dtype, std::uint64_t bits);

/// A pointer as a parameter of a kernel or of a group's function: "const float* __restrict__ in0".
std::string pointer_parameter(const GroupPointers::Pointer& pointer);

/// The wait for the launch before, which stands before all that reaches memory by these pointers.
void emit_wait(Writer& out, const std::vector<GroupPointers::Pointer>& pointers);

/// GenerateOptions::blocks_per_sm as an attribute of the kernel.
std::string launch_bounds(int threads, int blocks_per_sm);

/// What a group computes, in a line: "sum of %3; 2 multiply, 1 exp". `graph`: what it is a part of.
std::string describe(const graph::Graph& graph, const kernel::GroupProgram& group);

/// A group's text at the writer's depth; preprocessor lines stay where they are.
void append_body(Writer& out, const std::string& body);

}  // namespace stitch::codegen
