// Convolutions as operation graphs of cuDNN: what the emulated library takes, the real one must take, too, where it is
// there. It describes and checks operations without a GPU; a driver it must find, which is the emulated one here.
#include "library/convolution_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "graph/calls/find_calls.h"
#include "graph/calls/strided_matmul.h"
#include "graph/simplify.h"
#include "graph/subgraph.h"
#include "import/import.h"
#include "tests/graph/random_convolution.h"
#include "tests/library/emulated_gpu.h"
#include "tests/library/strided_convolutions.h"

namespace stitch::library {
namespace {

using graph::DType;
using graph::StridedConvolution;
using testing::HasSubstr;
using Kind = StridedConvolution::Kind;

class ConvolutionOperationsEmulated : public OnAnEmulatedDriver {
 protected:
  /// `name`: of the library; false: it is not there.
  bool load(const std::string& name) {
    auto loaded = cuda::dnn::Api::load({name});
    if (!loaded) return false;
    api_ = *std::move(loaded);
    // Newer libraries take graphs without a handle, which nobody gets without a GPU.
    if (const auto created = api_->create(&handle_); created != cuda::dnn::Status::success) handle_ = nullptr;
    return true;
  }
  void TearDown() override {
    if (handle_ != nullptr) api_->destroy(handle_);
  }

  Status described(const StridedConvolution& how) const {
    const auto operations = describe_operations(*api_, handle_, how);
    return operations.ok() ? Status() : Status(operations.error());
  }

  void expect_taken() const {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const Kind kind : {Kind::forward, Kind::backward_data, Kind::backward_filter}) {
        for (const bool features_last : {false, true}) {
          SCOPED_TRACE(testing::Message() << to_string(dtype) << " kind " << static_cast<int>(kind)
                                          << (features_last ? " features last" : ""));
          StridedConvolution how = padded_convolution(dtype, kind, features_last);
          EXPECT_EQ(described(how).ok() ? "" : described(how).error().message, "");
          how.flipped = kind != Kind::backward_filter;
          how.scale = 0.5;
          EXPECT_EQ(described(how).ok() ? "" : described(how).error().message, "");
          how.relu = true;
          EXPECT_EQ(described(how).ok() ? "" : described(how).error().message, "");
          how.bias = how.result();
          how.bias->parameter = 2;
          how.bias->extents = {1, how.result().extents[1], 1, 1};
          how.bias->strides = {how.result().extents[1], 1, how.result().extents[1], how.result().extents[1]};
          EXPECT_EQ(described(how).ok() ? "" : described(how).error().message, "");
          how.addend = how.result();
          how.addend->parameter = 3;
          EXPECT_EQ(described(how).ok() ? "" : described(how).error().message, "");
        }
      }
    }
    StridedConvolution onto = padded_convolution(DType::f32, Kind::backward_data);
    onto.addend = onto.result();
    EXPECT_TRUE(describe_operations(*api_, handle_, onto, true).ok());
    StridedConvolution grouped = padded_convolution(DType::f32);
    grouped.groups = 4;
    grouped.filter = packed_tensor(1, DType::f32, {16, 2, 3, 3});
    EXPECT_TRUE(described(grouped).ok());
    StridedConvolution uneven = padded_convolution(DType::f32);
    uneven.post_padding = {0, 2};
    uneven.strides = {2, 1};
    uneven.dilation = {1, 2};
    uneven.output = packed_tensor(-1, DType::f32, {2, 16, 3, 5});
    EXPECT_TRUE(described(uneven).ok());
  }
  /// Whatever is read of graphs is well formed.
  void expect_random_ones_taken() const {
    Random random(23);
    int taken = 0;
    for (int i = 0; i < 200; ++i) {
      SCOPED_TRACE(i);
      const graph::Graph call = graph::test::random_convolution(random);
      if (call.size() == 0) continue;
      const auto how = graph::describe_convolution(call);
      if (!how || how->is_empty()) continue;
      ++taken;
      const Status status = described(*how);
      EXPECT_EQ(status.ok() ? "" : status.error().message, "");
    }
    EXPECT_GT(taken, 50);
  }
  void expect_refused() const {
    StridedConvolution wrong = padded_convolution(DType::f32);
    wrong.output.extents[2] = 7;
    const Status shapes = described(wrong);
    ASSERT_FALSE(shapes.ok());
    EXPECT_EQ(shapes.error().kind, ErrorKind::runtime);
    EXPECT_THAT(shapes.error().message, HasSubstr("cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM"));
    StridedConvolution crooked = padded_convolution(DType::f32);
    crooked.output.extents[0] = 3;
    EXPECT_FALSE(described(crooked).ok());
  }

  std::shared_ptr<const cuda::dnn::Api> api_;
  cuda::dnn::Handle handle_ = nullptr;
};

TEST_F(ConvolutionOperationsEmulated, TheEmulatedLibraryTakesThem) {
  ASSERT_TRUE(load(STITCH_EMULATED_CUDNN));
  ASSERT_NE(handle_, nullptr);
  expect_taken();
  expect_random_ones_taken();
  expect_refused();
}

TEST_F(ConvolutionOperationsEmulated, TheRealLibraryTakesThem) {
  if (!load(STITCH_PYPI_CUDNN)) GTEST_SKIP() << "no cuDNN of PyPI's";
  if (api_->version() < 91000 && handle_ == nullptr) GTEST_SKIP() << "cuDNN " << api_->version() << " needs a handle";
  expect_taken();
  expect_random_ones_taken();
  expect_refused();
}

/// Inference and training: every convolution and gradient that is no product of matrices, by the real library where it
/// is there.
TEST_F(ConvolutionOperationsEmulated, AllOfModelsAreTaken) {
  if (!load(STITCH_PYPI_CUDNN) || (api_->version() < 91000 && handle_ == nullptr)) {
    ASSERT_TRUE(load(STITCH_EMULATED_CUDNN));
  }
  std::map<Kind, int> counts;
  for (const char* file : {"onnx/resnet50.onnx", "onnx/vit_b16.onnx", "hlo/resnet50_train.hlo.txt.gz"}) {
    SCOPED_TRACE(file);
    auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "bench/models" / file);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    graph::Graph& model = imported->graph;
    ASSERT_TRUE(graph::simplify(model).ok());
    for (const graph::LibraryCall& call : graph::find_library_calls(model)) {
      if (model.node(call.root).op != graph::Op::convolution) continue;
      const auto part = graph::subgraph(model, call.operands, {call.result});
      ASSERT_TRUE(part.ok());
      if (graph::describe_matmul(*part).ok()) continue;
      const auto how = graph::describe_convolution(*part);
      ASSERT_TRUE(how.ok()) << call.description << ": " << how.error().message;
      const Status status = described(*how);
      EXPECT_EQ(status.ok() ? "" : status.error().message, "") << call.description;
      ++counts[how->kind];
    }
  }
  EXPECT_EQ(counts[Kind::forward], 41);
  EXPECT_EQ(counts[Kind::backward_data], 19);
  EXPECT_EQ(counts[Kind::backward_filter], 53);
}

TEST_F(ConvolutionOperationsEmulated, TensorsAreWhatAnExecutionIsToldOf) {
  ASSERT_TRUE(load(STITCH_EMULATED_CUDNN));
  StridedConvolution how = padded_convolution(DType::f16);
  how.input.offset = 12;
  how.relu = true;
  const auto operations = describe_operations(*api_, handle_, how);
  ASSERT_TRUE(operations.ok()) << operations.error().message;
  ASSERT_EQ(operations->tensors.size(), 3U);
  EXPECT_EQ(operations->tensors[0].parameter, 0);
  EXPECT_EQ(operations->tensors[0].offset, 24);
  EXPECT_EQ(operations->tensors[1].parameter, 1);
  EXPECT_EQ(operations->tensors[2].parameter, -1);
  EXPECT_NE(operations->tensors[0].id, operations->tensors[2].id);
}

}  // namespace
}  // namespace stitch::library
