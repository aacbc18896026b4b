#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/program_document.h"
#include "base/device_spec.h"
#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "graph/graph.h"
#include "tuning/contractions/attention_choice.h"
#include "tuning/contractions/chain_choice.h"
#include "tuning/contractions/contraction_choice.h"

namespace stitch::cli {

/// A problem of one kind, and what is thought of it once a schedule is chosen.
template <class Problem, class Choice>
struct ProductCase {
  Problem problem;
  Choice choice = {};
};
using ContractionCase = ProductCase<kernel::ContractionProblem, tuning::ContractionChoice>;
using AttentionCase = ProductCase<kernel::AttentionProblem, tuning::AttentionChoice>;
using ChainCase = ProductCase<kernel::ProductChain, tuning::ChainChoice>;

/// A product, a convolution, an attention or a chain of products of a model, or several that are equal, and the kernel
/// of ours for it that is predicted to be fastest.
struct Product {
  std::string name;  ///< the call as a library runs it, or what a file of problems calls it
  std::int64_t count = 1;
  std::string why_none;                                                        ///< no kernel of ours
  std::variant<std::monostate, ContractionCase, AttentionCase, ChainCase> of;  ///< nothing: the library's
  double seconds = 0;                                                          ///< to enumerate and rank

  [[nodiscard]] bool is_ours() const { return of.index() != 0; }
};

/// Names the problem by all that a kernel's code depends on. Of ours only.
Hash128 hash_of(const Product& product);

/// What a graph's call computes, whether a kernel of ours has it or not: every different one once, in the graph's
/// order.
std::vector<Product> products_of(const graph::Graph& graph);

/// Those of a program that kernels of ours compute, as they are there: several of one operand in one kernel, with the
/// rows that are combined behind one. By the number of their fragment (api::Program::fragments), in the steps' order.
std::vector<std::pair<int, Product>> products_by_fragment(const api::Program& program);
/// The same without numbers.
std::vector<Product> products_of(const api::Program& program);

/// Ranks the schedules of a product by the analytical model, and keeps the fastest. Errors: constraint (none is legal).
Status choose(Product& product, const DeviceSpec& device, const search::ContractionSpaceOptions& space);

/// The kernel of the chosen schedule. Errors: those of codegen::generate_contraction,
/// generate_attention and generate_chain.
Result<codegen::GeneratedKernel> generate(const Product& product, const codegen::GenerateOptions& options);

/// What is known of a chosen product of any kind alike.
struct ProductSummary {
  std::string problem, schedule;
  std::int64_t enumerated = 0, blocks = 0, threads = 0, shared_bytes = 0;
  double predicted_us = 0, rival_us = 0, uncertainty_us = 0, dram_bytes = 0;
  const char* bound_by = "";
  costmodel::PipelineTurn turn;
};
ProductSummary summary_of(const Product& product);

/// Lines for people, indented behind the first: problem, schedule, prediction with its parts and the rival's, or why
/// there is no kernel of ours.
std::string to_text(const Product& product);
nlohmann::ordered_json to_document(const Product& product, const DeviceSpec& device);

}  // namespace stitch::cli
