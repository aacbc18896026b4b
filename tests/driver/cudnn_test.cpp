// cuDNN on the emulated driver: what it computes, and what it finds.
#include "cuda/cudnn.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/driver/misuse_program.h"

namespace stitch::driver::test {
namespace {

namespace dnn = cuda::dnn;
using dnn::Attribute;
using dnn::AttributeType;
using dnn::Descriptor;
using dnn::DescriptorType;
using testing::HasSubstr;

const dnn::Api& cudnn() {
  static const auto loaded = [] {
    entry_of<decltype(cuInit)>("cuInit");  // the driver first: it is who the library belongs to
    auto found = dnn::Api::load({STITCH_EMULATED_CUDNN});
    EXPECT_TRUE(found.ok()) << found.error().message;
    return *found;
  }();
  return *loaded;
}

Descriptor make(DescriptorType type) {
  auto made = Descriptor::make(cudnn(), type);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *std::move(made);
}

/// Empty: it went well.
std::string said(const stitch::Status& status) { return status.ok() ? "" : status.error().message; }

using Numbers = std::vector<std::int64_t>;

Descriptor tensor(std::int64_t id, const Numbers& extents, const Numbers& strides, bool is_virtual = false) {
  Descriptor made = make(DescriptorType::tensor);
  EXPECT_EQ(said(made.set(Attribute::tensor_unique_id, id)), "");
  EXPECT_EQ(said(made.set(Attribute::tensor_data_type, dnn::DataType::f32)), "");
  EXPECT_EQ(said(made.set(Attribute::tensor_byte_alignment, std::int64_t{16})), "");
  EXPECT_EQ(said(made.set(Attribute::tensor_dimensions, extents)), "");
  EXPECT_EQ(said(made.set(Attribute::tensor_strides, strides)), "");
  EXPECT_EQ(said(made.set(Attribute::tensor_is_virtual, is_virtual)), "");
  EXPECT_EQ(said(made.finalize()), "");
  return made;
}

Descriptor window(std::int64_t padding = 0) {
  Descriptor made = make(DescriptorType::convolution);
  const auto mode = dnn::ConvolutionMode::cross_correlation;
  EXPECT_EQ(said(made.set(Attribute::convolution_compute_type, dnn::DataType::f32)), "");
  EXPECT_EQ(said(made.set(Attribute::convolution_mode, AttributeType::convolution_mode, 1, &mode)), "");
  EXPECT_EQ(said(made.set(Attribute::convolution_spatial_dims, std::int64_t{2})), "");
  for (const Attribute each : {Attribute::convolution_strides, Attribute::convolution_dilations})
    EXPECT_EQ(said(made.set(each, Numbers{1, 1})), "");
  for (const Attribute each : {Attribute::convolution_pre_paddings, Attribute::convolution_post_paddings})
    EXPECT_EQ(said(made.set(each, Numbers{padding, padding})), "");
  EXPECT_EQ(said(made.finalize()), "");
  return made;
}

void set_scalars(Descriptor& operation, float beta = 0) {
  const float one = 1;
  EXPECT_EQ(said(operation.set(Attribute::forward_alpha, AttributeType::f32, 1, &one)), "");
  EXPECT_EQ(said(operation.set(Attribute::forward_beta, AttributeType::f32, 1, &beta)), "");
}

/// y = x * w of f32: one image of 3×3, whose rows are `pitch` elements apart, and a window of 2×2.
struct SmallConvolution {
  dnn::Handle handle = nullptr;
  std::optional<Descriptor> plan;
  std::int64_t workspace_bytes = 0;

  explicit SmallConvolution(std::int64_t pitch = 3, int which = 2) {
    EXPECT_EQ(cudnn().create(&handle), dnn::Status::success);
    Descriptor operation = make(DescriptorType::convolution_forward);
    set_scalars(operation);
    EXPECT_EQ(said(operation.set(Attribute::forward_convolution, window())), "");
    EXPECT_EQ(said(operation.set(Attribute::forward_x, tensor(1, {1, 1, 3, 3}, {3 * pitch, 3 * pitch, pitch, 1}))), "");
    EXPECT_EQ(said(operation.set(Attribute::forward_w, tensor(2, {1, 1, 2, 2}, {4, 4, 2, 1}))), "");
    EXPECT_EQ(said(operation.set(Attribute::forward_y, tensor(3, {1, 1, 2, 2}, {4, 4, 2, 1}))), "");
    EXPECT_EQ(said(operation.finalize()), "");
    Descriptor graph = make(DescriptorType::operation_graph);
    EXPECT_EQ(said(graph.set(Attribute::graph_handle, handle)), "");
    EXPECT_EQ(said(graph.set(Attribute::graph_operations, operation)), "");
    EXPECT_EQ(said(graph.finalize()), "");
    plan_of(graph, which);
  }
  ~SmallConvolution() {
    plan.reset();
    cudnn().destroy(handle);
  }

  void plan_of(const Descriptor& graph, int which) {
    Descriptor heuristics = make(DescriptorType::engine_heuristics);
    const auto mode = dnn::HeuristicMode::a;
    EXPECT_EQ(said(heuristics.set(Attribute::heuristics_graph, graph)), "");
    EXPECT_EQ(said(heuristics.set(Attribute::heuristics_mode, AttributeType::heuristic_mode, 1, &mode)), "");
    EXPECT_EQ(said(heuristics.finalize()), "");
    std::vector<Descriptor> configurations;
    std::vector<dnn::DescriptorPointer> pointers;
    for (int i = 0; i <= which; ++i) {
      configurations.push_back(make(DescriptorType::engine_configuration));
      pointers.push_back(configurations.back().pointer());
    }
    const auto found =
        heuristics.get(Attribute::heuristics_results, AttributeType::descriptor, std::ssize(pointers), pointers.data());
    ASSERT_TRUE(found.ok() && *found == which + 1);
    plan = make(DescriptorType::execution_plan);
    EXPECT_EQ(said(plan->set(Attribute::plan_handle, handle)), "");
    EXPECT_EQ(said(plan->set(Attribute::plan_configuration, configurations.back())), "");
    EXPECT_EQ(said(plan->finalize()), "");
    EXPECT_TRUE(plan->get(Attribute::plan_workspace_size, AttributeType::int64, 1, &workspace_bytes).ok());
  }

  [[nodiscard]] std::string run(const std::vector<CUdeviceptr>& at, CUdeviceptr workspace, CUstream stream) const {
    Descriptor pack = make(DescriptorType::variant_pack);
    Numbers ids;
    for (std::size_t i = 0; i < at.size(); ++i) ids.push_back(static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(said(pack.set(Attribute::pack_unique_ids, ids)), "");
    EXPECT_EQ(said(pack.set(Attribute::pack_pointers, AttributeType::pointer, std::ssize(at), at.data())), "");
    EXPECT_EQ(said(pack.set(Attribute::pack_workspace, AttributeType::pointer, 1, &workspace)), "");
    EXPECT_EQ(said(pack.finalize()), "");
    EXPECT_EQ(cudnn().set_stream(handle, stream), dnn::Status::success);
    return said(cudnn().check(cudnn().execute(handle, plan->pointer(), pack.pointer()), "cudnnBackendExecute"));
  }
};

/// Memory of a convolution, filled, on a stream's device.
struct ConvolutionMemory {
  CUdeviceptr x = 0, w = 0, y = 0, workspace = 0;
  explicit ConvolutionMemory(const Program& program)
      : x(program.allocate(36)),
        w(program.allocate(16)),
        y(program.allocate(16)),
        workspace(program.allocate(1 << 14)) {
    const std::vector<float> image = {1, 2, 3, 4, 5, 6, 7, 8, 9}, filter = {1, 0, 0, 2};
    CU(cuMemcpyHtoD)(x, image.data(), 36);
    CU(cuMemcpyHtoD)(w, filter.data(), 16);
  }
  ~ConvolutionMemory() {
    for (const CUdeviceptr each : {x, w, y, workspace}) CU(cuMemFree)(each);
  }
};

TEST(CudnnEmulated, ConvolvesInTheOrderOfItsStream) {
  EXPECT_EQ(findings_of([](Program& program) {
              ConvolutionMemory memory(program);
              SmallConvolution convolution;
              EXPECT_GT(convolution.workspace_bytes, 0);
              EXPECT_EQ(convolution.run({memory.x, memory.w, memory.y}, memory.workspace, program.a), "");
              std::vector<float> found(4);
              CU(cuStreamSynchronize)(program.a);
              CU(cuMemcpyDtoH)(found.data(), memory.y, 16);
              EXPECT_EQ(found, (std::vector<float>{1 + 10, 2 + 12, 4 + 16, 5 + 18}));
              if (testing::Test::HasFailure()) std::exit(1);
            }),
            "");
}

TEST(CudnnEmulated, FindsStreamsThatNothingOrders) {
  EXPECT_THAT(findings_of([](Program& program) {
                ConvolutionMemory memory(program);
                SmallConvolution convolution;
                EXPECT_EQ(convolution.run({memory.x, memory.w, memory.y}, memory.workspace, program.a), "");
                program.write(memory.w - memory.w % 4, program.b, true);
                Program::wait();
              }),
              AllOf(HasSubstr("unordered_access: "), HasSubstr("convolution f32 x [1,1,3,3], w [1,1,2,2]")));
  // Two convolutions that have nothing in common but the workspace.
  EXPECT_THAT(findings_of([](Program& program) {
                ConvolutionMemory first(program), second(program);
                SmallConvolution convolution;
                EXPECT_EQ(convolution.run({first.x, first.w, first.y}, first.workspace, program.a), "");
                EXPECT_EQ(convolution.run({second.x, second.w, second.y}, first.workspace, program.b), "");
                Program::wait();
              }),
              HasSubstr("unordered_access: "));
}

TEST(CudnnEmulated, FindsMemoryThatIsTooSmall) {
  EXPECT_THAT(findings_of([](Program& program) {
                ConvolutionMemory memory(program);
                SmallConvolution convolution(4);  // rows that are further apart than the memory has them
                EXPECT_EQ(convolution.run({memory.x, memory.w, memory.y}, memory.workspace, program.a), "");
                EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
              }),
              HasSubstr("convolution f32 x [1,1,3,3], w [1,1,2,2] on stream"));
}

TEST(CudnnEmulated, RefusesExecutionsThatTheManualDoes) {
  Program program;
  ConvolutionMemory memory(program);
  const SmallConvolution convolution;
  const auto run = [&](CUdeviceptr x, CUdeviceptr w, CUdeviceptr y, CUdeviceptr workspace) {
    return convolution.run({x, w, y}, workspace, program.a);
  };
  EXPECT_THAT(run(memory.x, memory.w, memory.x + 16, memory.workspace),
              HasSubstr("the result lies where an operand does"));
  EXPECT_THAT(
      run(memory.x + 4, memory.w, memory.y, memory.workspace),
      AllOf(HasSubstr("CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: tensor 1"), HasSubstr("16 bytes of alignment")));
  EXPECT_THAT(run(memory.x, memory.w, memory.y, 0), HasSubstr("a plan that takes a workspace, and none"));
  EXPECT_THAT(run(memory.x, memory.w, memory.y, memory.workspace + 8), HasSubstr("not aligned by 16 bytes"));
  EXPECT_THAT(run(memory.x, memory.w, memory.y, memory.x), HasSubstr("the workspace lies where a tensor does"));
  EXPECT_THAT(convolution.run({memory.x, memory.w}, memory.workspace, program.a), HasSubstr("tensor 3 has no address"));
  const Descriptor early = make(DescriptorType::variant_pack);
  EXPECT_EQ(cudnn().execute(convolution.handle, convolution.plan->pointer(), early.pointer()),
            dnn::Status::bad_param_not_finalized);
}

TEST(CudnnEmulated, RefusesAttributesThatTheManualDoes) {
  Descriptor made = make(DescriptorType::tensor);
  EXPECT_THAT(said(made.finalize()), HasSubstr("attribute 906 is missing"));
  EXPECT_THAT(said(made.set(Attribute::tensor_unique_id, dnn::DataType::f32)),
              HasSubstr("CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE: attribute 906 has another type"));
  EXPECT_THAT(said(made.set(Attribute::tensor_unique_id, Numbers{1, 2})), HasSubstr("2 elements for attribute 906"));
  EXPECT_THAT(said(made.set(Attribute::convolution_mode, std::int64_t{1})), HasSubstr("have no attribute 101"));
  EXPECT_THAT(said(made.set(Attribute::tensor_strides, AttributeType::int64, 1, nullptr)),
              HasSubstr("CUDNN_STATUS_BAD_PARAM_NULL_POINTER"));
  std::int64_t id = 0;
  EXPECT_THAT(made.get(Attribute::tensor_unique_id, AttributeType::int64, 1, &id).error().message,
              HasSubstr("CUDNN_STATUS_NOT_INITIALIZED"));
  Descriptor operation = make(DescriptorType::convolution_forward);
  EXPECT_THAT(said(operation.set(Attribute::forward_x, made)), HasSubstr("CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"));
  Descriptor done = tensor(1, {1, 1, 3, 3}, {9, 9, 3, 1});
  EXPECT_THAT(said(done.set(Attribute::tensor_unique_id, std::int64_t{2})), HasSubstr("that is finalised"));
  EXPECT_THAT(said(done.finalize()), HasSubstr("that is finalised"));
  Descriptor odd = make(DescriptorType::tensor);
  EXPECT_EQ(said(odd.set(Attribute::tensor_unique_id, std::int64_t{1})), "");
  EXPECT_EQ(said(odd.set(Attribute::tensor_data_type, dnn::DataType::f32)), "");
  EXPECT_EQ(said(odd.set(Attribute::tensor_byte_alignment, std::int64_t{2})), "");
  EXPECT_EQ(said(odd.set(Attribute::tensor_dimensions, Numbers{1, 1, 3, 3})), "");
  EXPECT_EQ(said(odd.set(Attribute::tensor_strides, Numbers{9, 9, 3, 1})), "");
  EXPECT_THAT(said(odd.finalize()), HasSubstr("an alignment of 2 bytes"));
}

TEST(CudnnEmulated, RefusesOperationsThatDoNotFitTogether) {
  const auto refusal = [](const Numbers& y, std::int64_t padding, float beta) {
    Descriptor operation = make(DescriptorType::convolution_forward);
    set_scalars(operation, beta);
    EXPECT_EQ(said(operation.set(Attribute::forward_convolution, window(padding))), "");
    EXPECT_EQ(said(operation.set(Attribute::forward_x, tensor(1, {1, 1, 3, 3}, {9, 9, 3, 1}))), "");
    EXPECT_EQ(said(operation.set(Attribute::forward_w, tensor(2, {1, 1, 2, 2}, {4, 4, 2, 1}))), "");
    EXPECT_EQ(said(operation.set(Attribute::forward_y, tensor(3, y, {4, 4, 2, 1}))), "");
    return said(operation.finalize());
  };
  EXPECT_THAT(refusal({1, 1, 2, 2}, 1, 0), HasSubstr("spatial dimension 0 does not fit the window: x [1,1,3,3]"));
  EXPECT_THAT(refusal({1, 2, 2, 2}, 0, 0), HasSubstr("images or features that do not fit together"));
  EXPECT_EQ(refusal({1, 1, 2, 2}, 0, 1), "");
  Descriptor graph = make(DescriptorType::operation_graph);
  dnn::Handle handle = nullptr;
  EXPECT_EQ(cudnn().create(&handle), dnn::Status::success);
  EXPECT_EQ(said(graph.set(Attribute::graph_handle, handle)), "");
  EXPECT_EQ(said(graph.set(Attribute::graph_operations, window())), "");
  EXPECT_THAT(said(graph.finalize()), HasSubstr("CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN"));
  cudnn().destroy(handle);
}

}  // namespace
}  // namespace stitch::driver::test
