#pragma once

#include "api/protocol.h"

// Messages to encode: every field differs from its default.
namespace stitch::tuning::samples {

inline api::Plan plan() {
  api::Plan made;
  made.id = hash_bytes("plan");
  made.fragment = hash_bytes("fragment");
  made.target = {"h100", "sm_90a", "13.0.88", "codegen 1"};
  made.parameters = {{graph::DType::f32, {8, 768}}, {graph::DType::s32, {}}};
  made.results = {{graph::DType::f32, {8, 768}}, {graph::DType::bf16, {8}}, {graph::DType::s32, {}}};
  api::KernelLaunch launch;
  launch.cubin = sha256("cubin");
  launch.ptx = sha256("ptx");
  launch.name = "stitch_kernel";
  launch.description = "soft\"max\", 2 phases";
  launch.blocks = 132;
  launch.threads = 256;
  launch.cluster = 2;
  launch.shared_bytes = 4096;
  launch.cooperative = true;
  launch.arguments = {{api::LaunchArgument::Kind::parameter, 1},
                      {api::LaunchArgument::Kind::result, 0},
                      {api::LaunchArgument::Kind::workspace, 256},
                      {api::LaunchArgument::Kind::integer, -7}};
  launch.bytes = 123456789012;
  launch.predicted_us = 0.1;
  launch.uncertainty_us = 0.02;
  made.launches = {launch, launch};
  made.copies = {{{api::LaunchArgument::Kind::parameter, 1}, 2, 4}};
  made.workspace_bytes = 1024;
  made.zeroed = {{512, 512}};
  made.label = "measured";
  made.sequence = 42;
  made.bytes = 987654321;
  made.predicted_us = 12.25;
  made.uncertainty_us = 0.04;  // of its two launches
  made.measured_us = 13.5;
  made.verified_share = 0.125;
  made.judged = "verified on emulated device";
  return made;
}

}  // namespace stitch::tuning::samples
