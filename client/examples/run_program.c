/* Runs a whole model from a program's file or a package, without a server, in C99.
 *
 *   run_program FILE [emulated|cuda]
 *
 * Inputs are all zero bytes. Prints what the program is and a checksum of each output. Exit code 0: it ran. */
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

static int run(stitch_program* program) {
  const size_t inputs = stitch_program_input_count(program), outputs = stitch_program_output_count(program);
  void** buffers = calloc(inputs + outputs + 1, sizeof *buffers);
  stitch_code status = STITCH_RESOURCE_EXHAUSTED;
  size_t i;
  if (buffers != NULL) {
    for (i = 0; i < inputs; ++i) buffers[i] = calloc(1, (size_t)stitch_program_input_bytes(program, i) + 1);
    for (i = 0; i < outputs; ++i) buffers[inputs + i] = calloc(1, (size_t)stitch_program_output_bytes(program, i) + 1);
    status = stitch_program_run(program, (const void* const*)buffers, buffers + inputs);
  }
  for (i = 0; status == STITCH_OK && i < outputs; ++i) {
    const int64_t bytes = stitch_program_output_bytes(program, i);
    printf("output %s: %ld bytes, checksum %08lx\n", stitch_program_output_name(program, i), (long)bytes,
           checksum(buffers[inputs + i], bytes));
  }
  for (i = 0; buffers != NULL && i < inputs + outputs; ++i) free(buffers[i]);
  free(buffers);
  return status == STITCH_OK ? 0 : failed("run", status);
}

int main(int count, char** words) {
  stitch_program* program = NULL;
  stitch_program_info info;
  stitch_code status;
  char* bytes;
  size_t size = 0;
  int result;
  if (count < 2) {
    fprintf(stderr, "usage: run_program FILE [emulated|cuda]\n");
    return 2;
  }
  bytes = read_file(words[1], &size);
  if (bytes == NULL) {
    fprintf(stderr, "cannot read %s\n", words[1]);
    return 1;
  }
  status = stitch_program_open(bytes, size,
                               count > 2 && strcmp(words[2], "cuda") == 0 ? STITCH_DEVICE_CUDA : STITCH_DEVICE_EMULATED,
                               0, &program);
  free(bytes);
  if (status != STITCH_OK) return failed(words[1], status);
  info.size = sizeof info;
  status = stitch_program_get_info(program, &info);
  if (status == STITCH_OK) {
    printf("program %s: %lu inputs, an arena of %ld bytes, %s\n", info.id,
           (unsigned long)stitch_program_input_count(program), (long)info.arena_bytes,
           info.can_launch ? "on a stream" : "step by step");
  }
  result = status == STITCH_OK ? run(program) : failed("info", status);
  stitch_program_release(program);
  return result;
}
