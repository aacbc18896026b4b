/* Fetches the plan for a fragment from stitchd and runs it, in C99.
 *
 *   fetch_and_run_c FRAGMENT.json [SERVER] [emulated|cuda]
 *
 * Inputs are all zero bytes. Prints the plan and a checksum of each result. Exit code 0: it ran. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/stitch.h"

/* A whole file; NULL when it cannot be read. */
static char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  char* bytes = NULL;
  long end = -1;
  if (file == NULL) return NULL;
  if (fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (end >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)end + 1);
  if (bytes != NULL) *size = fread(bytes, 1, (size_t)end, file);
  fclose(file);
  return bytes;
}

/* Zeroed memory where plans want it to start. `block` is what free() takes. */
static void* aligned_zeros(int64_t bytes, void** block) {
  const uintptr_t alignment = STITCH_BUFFER_ALIGNMENT;
  *block = calloc(1, (size_t)bytes + STITCH_BUFFER_ALIGNMENT);
  if (*block == NULL) return NULL;
  return (void*)(((uintptr_t)*block + alignment - 1) / alignment * alignment);
}

static int failed(const char* what, stitch_code status) {
  fprintf(stderr, "%s: %s: %s\n", what, stitch_code_name(status), stitch_last_error());
  return 1;
}

static unsigned long checksum(const unsigned char* bytes, int64_t size) {
  unsigned long sum = 5381;
  int64_t i;
  for (i = 0; i < size; ++i) sum = (sum * 33 + bytes[i]) & 0xffffffffUL;
  return sum;
}

static int run(stitch_plan* plan) {
  const size_t inputs = stitch_plan_parameter_count(plan), outputs = stitch_plan_result_count(plan);
  const size_t all = inputs + outputs;
  void** blocks = calloc(all + 1, sizeof *blocks);
  void** buffers = calloc(all + 1, sizeof *buffers);
  stitch_plan_info info;
  stitch_code status = STITCH_RESOURCE_EXHAUSTED;
  size_t i;
  if (blocks != NULL && buffers != NULL) {
    for (i = 0; i < all; ++i) {
      const int64_t bytes =
          i < inputs ? stitch_plan_parameter_bytes(plan, i) : stitch_plan_result_bytes(plan, i - inputs);
      buffers[i] = aligned_zeros(bytes, &blocks[i]);
    }
    status = stitch_plan_run(plan, (const void* const*)buffers, buffers + inputs);
  }
  if (status == STITCH_OK) {
    info.size = sizeof info;
    status = stitch_plan_get_info(plan, &info);
  }
  if (status == STITCH_OK) {
    printf("plan %s (%s): %d launches, predicted %.1f us, %.0f %% verified\n", info.id, info.label, (int)info.launches,
           info.predicted_us, 100 * info.verified_share);
    for (i = 0; i < outputs; ++i) {
      printf("result %zu: %lld bytes, checksum %08lx\n", i, (long long)stitch_plan_result_bytes(plan, i),
             checksum(buffers[inputs + i], stitch_plan_result_bytes(plan, i)));
    }
  }
  for (i = 0; blocks != NULL && i < all; ++i) free(blocks[i]);
  free(blocks);
  free(buffers);
  return status == STITCH_OK ? 0 : failed("run", status);
}

int main(int argc, char** argv) {
  stitch_client* client = NULL;
  stitch_plan* plan = NULL;
  stitch_code status;
  size_t size = 0;
  char* fragment;
  int code;
  const stitch_device device = argc > 3 && strcmp(argv[3], "cuda") == 0 ? STITCH_DEVICE_CUDA : STITCH_DEVICE_EMULATED;
  if (argc < 2) {
    fprintf(stderr, "usage: fetch_and_run_c FRAGMENT.json [SERVER] [emulated|cuda]\n");
    return 2;
  }
  fragment = read_file(argv[1], &size);
  if (fragment == NULL) {
    fprintf(stderr, "%s: cannot be read\n", argv[1]);
    return 1;
  }
  status = stitch_client_open(argc > 2 && argv[2][0] != '\0' ? argv[2] : NULL, NULL, &client);
  if (status != STITCH_OK) {
    free(fragment);
    return failed("stitchd", status);
  }
  status = stitch_plan_fetch(client, fragment, size, STITCH_JSON, device, 20000, &plan);
  code = status == STITCH_OK ? run(plan) : failed("fetch", status);
  stitch_plan_release(plan);
  stitch_client_close(client);
  free(fragment);
  return code;
}
