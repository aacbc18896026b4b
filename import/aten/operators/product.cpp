// Matrix products. Sums of 16-bit products are f32, to which what is added is added before they are rounded, once.
#include "import/aten/rules.h"
#include "import/emit.h"
#include "import/grouped_products.h"

namespace stitch::import::aten {
namespace {

/// lhs[…, m, k] · rhs[…, k, n] with as many batch dimensions, in the type that sums are added up in.
Value matrix_product(Call& c, Value lhs, Value rhs, std::int64_t batches) {
  graph::DotAttributes a;
  a.lhs_batch = a.rhs_batch = emit::first_axes(batches);
  a.lhs_contracting = {batches + 1};
  a.rhs_contracting = {batches};
  a.result = c.wide_dtype();
  return c.b.dot(lhs, rhs, std::move(a));
}

Value row(Call& c, std::string_view name) {
  const Value x = c.tensor(name);
  return c.b.reshape(x, {1, graph::element_count(c.b.dims(x))});
}
Value column(Call& c, std::string_view name) {
  const Value x = c.tensor(name);
  return c.b.reshape(x, {graph::element_count(c.b.dims(x)), 1});
}

/// beta · self + alpha · product. Where beta is 0, whatever self holds is not looked at.
Values added(Call& c, Value product) {
  Builder& b = c.b;
  const double alpha = c.number("alpha", 1.0), beta = c.number("beta", 1.0);
  product = emit::mul(b, b.reshape(product, c.result().dims), alpha);
  if (beta == 0.0) return {product};
  return {emit::add(b, product, emit::mul(b, c.operand("self", c.wide_dtype()), beta))};
}

}  // namespace

Values matmul(Call& c) { return {matrix_product(c, c.tensor("self"), c.tensor("mat2"), 0)}; }
Values batched_matmul(Call& c) { return {matrix_product(c, c.tensor("self"), c.tensor("mat2"), 1)}; }

/// Of matrices that groups follow one another in (in rows, columns or what is contracted) and such as have one for each
/// group. Rows and columns behind the last group are zero; PyTorch leaves them as they were.
Values grouped_matmul(Call& c) {
  Builder& b = c.b;
  if (c.has("bias")) return c.unsupported("a bias");
  const Value self = c.tensor("self"), other = c.tensor("mat2");
  const bool rows = c.rank(self) == 2, columns = c.rank(other) == 2;
  if (!rows && !columns) return {matrix_product(c, self, other, 1)};
  if (!c.has("offs")) return c.unsupported("groups without offsets");
  const Value ends = b.convert(c.tensor("offs"), DType::s32);
  graph::DotAttributes a;
  a.result = c.wide_dtype();
  if (rows && columns) {
    a.lhs_contracting = {2};
    a.rhs_contracting = {0};
    return {b.dot(for_groups(b, self, 1, ends), other, std::move(a))};
  }
  a.lhs_contracting = {0, 2};
  a.rhs_contracting = {0, 1};
  const Value left = rows ? for_groups(b, self, 0, ends) : self;
  const Value right = rows ? other : for_groups(b, other, 1, ends);
  return {b.dot(left, right, std::move(a))};
}
Values matrix_vector(Call& c) {
  return {c.b.reshape(matrix_product(c, c.tensor("self"), column(c, "vec"), 0), c.result().dims)};
}
Values inner_product(Call& c) {
  return {c.b.reshape(matrix_product(c, row(c, "self"), column(c, "tensor"), 0), c.result().dims)};
}

Values add_matmul(Call& c) { return added(c, matrix_product(c, c.tensor("mat1"), c.tensor("mat2"), 0)); }
Values add_batched_matmul(Call& c) { return added(c, matrix_product(c, c.tensor("batch1"), c.tensor("batch2"), 1)); }
Values add_matrix_vector(Call& c) { return added(c, matrix_product(c, c.tensor("mat"), column(c, "vec"), 0)); }

}  // namespace stitch::import::aten
