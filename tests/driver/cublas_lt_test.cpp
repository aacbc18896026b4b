// cuBLASLt on the emulated driver: what it computes, and what it finds.
#include "cuda/cublas_lt.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/driver/misuse_program.h"

namespace stitch::driver::test {
namespace {

namespace lt = cuda::lt;
using testing::HasSubstr;

const lt::Api& api() {
  static const auto loaded = [] {
    entry_of<decltype(cuInit)>("cuInit");  // the driver first: it is who the library belongs to
    auto found = lt::Api::load({STITCH_EMULATED_CUBLAS_LT});
    EXPECT_TRUE(found.ok()) << found.error().message;
    return *found;
  }();
  return *loaded;
}

/// D = A·B of f32, column-major: A has 2 rows and 3 columns, B 3 rows and 2 columns.
struct SmallProduct {
  lt::Handle handle = nullptr;
  lt::Matmul matmul = nullptr;
  lt::Layout a = nullptr, b = nullptr, d = nullptr;
  lt::Preference preference = nullptr;
  lt::Suggestion suggestion{};

  explicit SmallProduct(std::uint64_t workspace_bytes = 1 << 20, std::uint32_t alignment = 16) {
    EXPECT_EQ(api().create(&handle), lt::Status::success);
    EXPECT_EQ(api().matmul_create(&matmul, lt::ComputeType::f32, lt::DataType::r_32f), lt::Status::success);
    EXPECT_EQ(api().layout_create(&a, lt::DataType::r_32f, 2, 3, 2), lt::Status::success);
    EXPECT_EQ(api().layout_create(&b, lt::DataType::r_32f, 3, 2, 3), lt::Status::success);
    EXPECT_EQ(api().layout_create(&d, lt::DataType::r_32f, 2, 2, 2), lt::Status::success);
    EXPECT_EQ(api().preference_create(&preference), lt::Status::success);
    using Attribute = lt::PreferenceAttribute;
    EXPECT_EQ(api().preference_set(preference, Attribute::max_workspace_bytes, &workspace_bytes, 8),
              lt::Status::success);
    for (const auto each : {Attribute::min_alignment_a, Attribute::min_alignment_b, Attribute::min_alignment_c,
                            Attribute::min_alignment_d})
      EXPECT_EQ(api().preference_set(preference, each, &alignment, 4), lt::Status::success);
  }
  ~SmallProduct() {
    for (const lt::Layout layout : {a, b, d}) api().layout_destroy(layout);
    api().matmul_destroy(matmul);
    api().preference_destroy(preference);
    api().destroy(handle);
  }
  lt::Status suggest() {
    int found = 0;
    return api().suggest(handle, matmul, a, b, d, d, preference, 1, &suggestion, &found);
  }
  lt::Status multiply(CUdeviceptr left, CUdeviceptr right, CUdeviceptr into, CUdeviceptr workspace, std::size_t bytes,
                      CUstream stream) {
    const float one = 1, zero = 0;
    const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
    return api().multiply(handle, matmul, &one, pointer(left), a, pointer(right), b, &zero, pointer(into), d,
                          pointer(into), d, &suggestion.algorithm, pointer(workspace), bytes, stream);
  }
};

/// Memory of a product, filled, on a stream's device.
struct Operands {
  CUdeviceptr a = 0, b = 0, d = 0, workspace = 0;
  explicit Operands(const Program& program)
      : a(program.allocate(24)),
        b(program.allocate(24)),
        d(program.allocate(16)),
        workspace(program.allocate(1 << 20)) {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};  // [1 3 5; 2 4 6] and [1 4; 2 5; 3 6]
    CU(cuMemcpyHtoD)(a, values.data(), 24);
    CU(cuMemcpyHtoD)(b, values.data(), 24);
  }
  ~Operands() {
    for (const CUdeviceptr each : {a, b, d, workspace}) CU(cuMemFree)(each);
  }
};

TEST(CublasLtEmulated, MultipliesInTheOrderOfItsStream) {
  EXPECT_EQ(findings_of([](Program& program) {
              Operands memory(program);
              SmallProduct product;
              EXPECT_EQ(product.suggest(), lt::Status::success);
              EXPECT_GT(product.suggestion.workspace_bytes, 0U);
              EXPECT_EQ(product.multiply(memory.a, memory.b, memory.d, memory.workspace, 1 << 20, program.a),
                        lt::Status::success);
              std::vector<float> found(4);
              CU(cuStreamSynchronize)(program.a);
              CU(cuMemcpyDtoH)(found.data(), memory.d, 16);
              EXPECT_EQ(found, (std::vector<float>{22, 28, 49, 64}));
              if (testing::Test::HasFailure()) std::exit(1);
            }),
            "");
}

TEST(CublasLtEmulated, FindsStreamsThatNothingOrders) {
  EXPECT_THAT(findings_of([](Program& program) {
                Operands memory(program);
                SmallProduct product;
                product.suggest();
                product.multiply(memory.a, memory.b, memory.d, memory.workspace, 1 << 20, program.a);
                program.write(memory.a, program.b);
                Program::wait();
              }),
              AllOf(HasSubstr("unordered_access: "), HasSubstr("product f32 [2,3]·[3,2]")));
  // Two products that have nothing in common but the workspace.
  EXPECT_THAT(findings_of([](Program& program) {
                Operands first(program), second(program);
                SmallProduct product;
                product.suggest();
                product.multiply(first.a, first.b, first.d, first.workspace, 1 << 20, program.a);
                product.multiply(second.a, second.b, second.d, first.workspace, 1 << 20, program.b);
                Program::wait();
              }),
              HasSubstr("unordered_access: "));
}

TEST(CublasLtEmulated, FindsMemoryThatIsTooSmallOrFreed) {
  EXPECT_THAT(findings_of([](Program& program) {
                const CUdeviceptr a = program.allocate(24), b = program.allocate(24), d = program.allocate(8);
                SmallProduct product(0);
                product.suggest();
                product.multiply(a, b, d, 0, 0, program.a);
                EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
              }),
              HasSubstr("product f32 [2,3]·[3,2] on stream"));
  EXPECT_THAT(findings_of([](Program& program) {
                Operands memory(program);
                SmallProduct product(0);
                product.suggest();
                const CUdeviceptr gone = program.allocate(24);
                CU(cuMemFree)(gone);
                product.multiply(memory.a, gone, memory.d, 0, 0, program.a);
                EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
              }),
              HasSubstr("freed_memory: product f32"));
}

TEST(CublasLtEmulated, RefusesCallsThatTheManualDoes) {
  Program program;
  Operands memory(program);
  {
    SmallProduct product;
    ASSERT_EQ(product.suggest(), lt::Status::success);
    EXPECT_EQ(product.multiply(memory.a, memory.b, memory.d, 0, 0, program.a), lt::Status::invalid_value)
        << "without the workspace that the algorithm takes";
    EXPECT_EQ(product.multiply(memory.a + 4, memory.b, memory.d, memory.workspace, 1 << 20, program.a),
              lt::Status::invalid_value)
        << "less aligned than promised";
    EXPECT_EQ(product.multiply(memory.a, memory.b, memory.a, memory.workspace, 1 << 20, program.a),
              lt::Status::invalid_value)
        << "a result where an operand lies";
    EXPECT_EQ(product.multiply(memory.a, memory.b, memory.d, memory.workspace + 8, 1 << 19, program.a),
              lt::Status::invalid_value)
        << "a workspace that is not aligned";
    const lt::Operation transpose = lt::Operation::transpose;
    ASSERT_EQ(api().matmul_set(product.matmul, lt::MatmulAttribute::transpose_a, &transpose, sizeof(transpose)),
              lt::Status::success);
    EXPECT_EQ(product.suggest(), lt::Status::invalid_value) << "shapes that do not fit together";
  }
  {
    SmallProduct product;
    ASSERT_EQ(product.suggest(), lt::Status::success);
    const lt::Epilogue biased = lt::Epilogue::bias;
    ASSERT_EQ(api().matmul_set(product.matmul, lt::MatmulAttribute::epilogue, &biased, sizeof(biased)),
              lt::Status::success);
    EXPECT_EQ(product.multiply(memory.a, memory.b, memory.d, memory.workspace, 1 << 20, program.a),
              lt::Status::invalid_value)
        << "a bias that is nowhere";
    const CUdeviceptr bias = memory.b;
    ASSERT_EQ(api().matmul_set(product.matmul, lt::MatmulAttribute::bias_pointer, &bias, sizeof(bias)),
              lt::Status::success);
    EXPECT_EQ(product.multiply(memory.a, memory.b, memory.d, memory.workspace, 1 << 20, program.a),
              lt::Status::invalid_value)
        << "the algorithm was for a product without one";
  }
  {
    SmallProduct product;
    const std::int32_t half = static_cast<std::int32_t>(lt::DataType::r_16f);
    EXPECT_EQ(api().matmul_set(product.matmul, lt::MatmulAttribute::bias_type, &half, 2), lt::Status::invalid_value);
    lt::Layout narrow = nullptr;
    ASSERT_EQ(api().layout_create(&narrow, lt::DataType::r_16f, 2, 3, 2), lt::Status::success);
    std::swap(narrow, product.a);
    EXPECT_EQ(product.suggest(), lt::Status::not_supported) << "f16 times f32";
    api().layout_destroy(narrow);
  }
}

}  // namespace
}  // namespace stitch::driver::test
