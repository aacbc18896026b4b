// Einsum: operands are contracted from left to right, each step one dot, or an element-wise product where no label
// disappears.
#include <algorithm>
#include <cctype>
#include <map>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// A label is a letter, or -k for the k-th dimension from the right under the ellipsis.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::int64_t position(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

struct Term {
  Value value;
  Labels labels;
};

/// The labels of one operand or of the result; an ellipsis stands for `covered` dimensions.
Result<Labels> parse_term(std::string_view text, std::int64_t covered) {
  Labels labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      if (text.substr(i, 3) != "...") return Call::wrong("equation: stray '.' in '{}'", text);
      for (std::int64_t k = covered; k > 0; --k) labels.push_back(static_cast<Label>(-k));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else {
      return Call::wrong("equation: unexpected '{}'", text[i]);
    }
  }
  return labels;
}

std::int64_t letters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char ch) { return std::isalpha(ch) != 0; });
}

struct Equation {
  std::vector<std::string> inputs;
  std::optional<std::string> output;
};

Equation split_equation(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  Equation equation;
  if (const std::size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  std::size_t start = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', start)) {
    equation.inputs.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  equation.inputs.push_back(text.substr(start));
  return equation;
}

/// A label that an operand has twice keeps the diagonal: everything else is masked out and summed away.
void take_diagonals(graph::Builder& b, Term& term) {
  for (std::size_t i = 0; i < term.labels.size() && !b.failed(); ++i) {
    for (std::size_t j = i + 1; j < term.labels.size();) {
      if (term.labels[i] != term.labels[j]) {
        ++j;
        continue;
      }
      const Dims dims = b.dims(term.value);
      const Value same = b.compare(Comparison::eq, b.iota(DType::s64, dims, i), b.iota(DType::s64, dims, j));
      const Value masked = b.select(same, term.value, like(b, term.value, 0.0));
      term.value = b.reduce(ReduceKind::sum, masked, {static_cast<std::int64_t>(j)});
      term.labels.erase(term.labels.begin() + j);
    }
  }
}

/// Sums away the labels that nobody else needs.
void drop_labels(graph::Builder& b, Term& term, const std::function<bool(Label)>& needed) {
  Dims axes;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (needed(term.labels[i])) {
      kept.push_back(term.labels[i]);
    } else {
      axes.push_back(i);
    }
  }
  if (axes.empty()) return;
  term.value = b.reduce(ReduceKind::sum, term.value, axes);
  term.labels = std::move(kept);
}

/// Dimensions transposed and new ones of extent 1 inserted, so that the labels are `target`.
Value aligned(graph::Builder& b, const Term& term, const Labels& target) {
  Dims permutation, dims;
  for (const Label label : target) {
    if (contains(term.labels, label)) permutation.push_back(position(term.labels, label));
  }
  const Value moved = permutation == first_axes(permutation.size()) ? term.value : b.transpose(term.value, permutation);
  std::size_t next = 0;
  for (const Label label : target) {
    const bool present = contains(term.labels, label);
    dims.push_back(present && next < b.dims(moved).size() ? b.dims(moved)[next] : 1);
    next += present;
  }
  return b.reshape(moved, dims);
}

Term contract(graph::Builder& b, const Term& x, const Term& y, const std::function<bool(Label)>& needed) {
  graph::DotAttributes a;
  a.result = b.dtype(x.value);
  Labels batch, left, right;
  for (const Label label : x.labels) {
    if (!contains(y.labels, label)) {
      left.push_back(label);
    } else if (needed(label)) {
      batch.push_back(label);
      a.lhs_batch.push_back(position(x.labels, label));
      a.rhs_batch.push_back(position(y.labels, label));
    } else {
      a.lhs_contracting.push_back(position(x.labels, label));
      a.rhs_contracting.push_back(position(y.labels, label));
    }
  }
  for (const Label label : y.labels) {
    if (!contains(x.labels, label)) right.push_back(label);
  }
  Labels labels = batch;
  labels.insert(labels.end(), left.begin(), left.end());
  labels.insert(labels.end(), right.begin(), right.end());
  if (a.lhs_contracting.empty()) return {mul(b, aligned(b, x, labels), aligned(b, y, labels)), labels};
  return {b.dot(x.value, y.value, std::move(a)), labels};
}

/// Labels that occur once, in alphabetical order, behind those of the ellipsis.
Labels implicit_output(const std::vector<Term>& terms) {
  std::map<Label, int> counts;
  for (const Term& term : terms) {
    for (const Label label : term.labels) ++counts[label];
  }
  Labels labels;
  for (const auto& [label, count] : counts) {
    if (label < 0 || count == 1) labels.push_back(label);
  }
  return labels;
}

/// Operands with their labels; extents of 1 that broadcast are dropped.
Result<std::vector<Term>> read_terms(Call& c, const Equation& equation, std::int64_t& covered) {
  std::vector<Term> terms;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
    const std::int64_t rest = c.rank(c.in(i)) - letters(equation.inputs[i]);
    const bool open = equation.inputs[i].find('.') != std::string::npos;
    if (rest < 0 || (rest > 0 && !open)) {
      return Call::wrong("equation: '{}' does not fit {}", equation.inputs[i], graph::to_string(c.b.type(c.in(i))));
    }
    if (open) covered = std::max(covered, rest);
    STITCH_ASSIGN(Labels labels, parse_term(equation.inputs[i], open ? rest : 0));
    if (std::ssize(labels) != c.rank(c.in(i))) return Call::wrong("equation: two ellipses");
    terms.push_back({c.in(i), std::move(labels)});
  }
  std::map<Label, std::int64_t> extents;
  for (const Term& term : terms) {
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      auto& extent = extents.emplace(term.labels[d], 1).first->second;
      extent = std::max(extent, c.dims(term.value)[d]);
    }
  }
  for (Term& term : terms) {
    Dims dims;
    Labels labels;
    const Dims from = c.dims(term.value);
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (from[d] == 1 && extents[term.labels[d]] != 1) continue;
      dims.push_back(from[d]);
      labels.push_back(term.labels[d]);
    }
    term = {c.b.reshape(term.value, dims), labels};
    take_diagonals(c.b, term);
  }
  return terms;
}

}  // namespace

Result<Values> einsum(Call& c) {
  STITCH_ASSIGN(const std::string text, c.node.text("equation", ""));
  const Equation equation = split_equation(text);
  if (equation.inputs.size() != c.inputs.size()) {
    return Call::wrong("equation '{}' has {} terms for {} inputs", text, equation.inputs.size(), c.inputs.size());
  }
  std::int64_t covered = 0;
  STITCH_ASSIGN(std::vector<Term> terms, read_terms(c, equation, covered));
  Labels output = implicit_output(terms);
  if (equation.output) {
    STITCH_ASSIGN(output, parse_term(*equation.output, covered));
  }
  Term result = terms[0];
  const auto needed_after = [&](std::size_t done) {
    return [&, done](Label label) {
      return contains(output, label) || std::any_of(terms.begin() + done, terms.end(),
                                                    [&](const Term& term) { return contains(term.labels, label); });
    };
  };
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Term& next = terms[i];
    drop_labels(c.b, result, needed_after(i));
    const Labels shared = result.labels;
    drop_labels(c.b, next, [&](Label label) { return contains(shared, label) || needed_after(i + 1)(label); });
    result = contract(c.b, result, next, needed_after(i + 1));
  }
  drop_labels(c.b, result, needed_after(terms.size()));
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (!contains(result.labels, output[i]) || position(output, output[i]) != static_cast<std::int64_t>(i)) {
      return Call::wrong("equation '{}': the result's labels", text);
    }
  }
  return Values{aligned(c.b, result, output)};
}

}  // namespace stitch::import::onnx
