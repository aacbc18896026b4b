#pragma once
// Everything a generated kernel uses.

#include "stitch/grid.cuh"
#include "stitch/launch.cuh"
#include "stitch/math.cuh"
#include "stitch/max_exp_sum.cuh"
#include "stitch/memory.cuh"
#include "stitch/reduce.cuh"
#include "stitch/sort.cuh"
#include "stitch/types.cuh"
