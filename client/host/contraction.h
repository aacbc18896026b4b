#pragma once

#include "base/blas.h"
#include "client/host/host_array.h"
#include "graph/attributes.h"

namespace stitch::client {

/// A general contraction, by one matrix product per batch. Result dims: batch, free of the left, free of the right.
template <class T>
HostArray<T> contract(const Blas& blas, const HostArray<T>& left, const HostArray<T>& right,
                      const graph::DotAttributes& how);

/// A general convolution, by one matrix product per image and feature group: the kernels times the patches of the image
/// that the windows see (Chellapilla, Puri & Simard, "High Performance Convolutional Neural Networks for Document
/// Processing", 2006). `dims`: of the result.
template <class T>
HostArray<T> convolve(const Blas& blas, const HostArray<T>& input, const HostArray<T>& kernel,
                      const graph::ConvolutionAttributes& how, const graph::Dims& dims);

}  // namespace stitch::client
