#ifndef STITCH_H
#define STITCH_H

/*
 * libstitch's C interface: fetch tuned kernels from stitchd, run them, and swap in better ones as they arrive.
 *
 * Objects are opaque and belong to whoever opened them. Functions return a status; stitch_last_error() has the text of
 * the calling thread's last failure. No function throws or ends the process. Functions on different objects may be
 * called at the same time; runs of one plan follow one another.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STITCH_API __attribute__((visibility("default")))
#else
#define STITCH_API
#endif

/* Rises when something is added; functions are never changed or removed within a major version of the library. */
#define STITCH_API_VERSION 7

/* Any int may come from C: in C++ the type must have room for it. */
#ifdef __cplusplus
#define STITCH_ENUM(name) enum name : int
#else
#define STITCH_ENUM(name) enum name
#endif

typedef STITCH_ENUM(stitch_code){STITCH_OK = 0,
                                 STITCH_INVALID_ARGUMENT = 1,
                                 STITCH_PARSE = 2,
                                 STITCH_UNSUPPORTED = 3,
                                 STITCH_NOT_FOUND = 4,
                                 STITCH_ALREADY_EXISTS = 5,
                                 STITCH_IO = 6,
                                 STITCH_CORRUPT = 7,
                                 STITCH_VERSION_MISMATCH = 8,
                                 STITCH_RESOURCE_EXHAUSTED = 9,
                                 STITCH_CONSTRAINT = 10,
                                 STITCH_COMPILE = 11,
                                 STITCH_TIMEOUT = 12,
                                 STITCH_RUNTIME = 13,
                                 STITCH_CORRECTNESS = 14,
                                 STITCH_UNAVAILABLE = 15, /* no server, no driver, no GPU */
                                 STITCH_CANCELLED = 16,
                                 STITCH_INTERNAL = 17} stitch_code;

typedef STITCH_ENUM(stitch_device){
    STITCH_DEVICE_EMULATED = 0, /* host memory only; checks every access; its time says nothing */
    STITCH_DEVICE_CUDA = 1      /* the driver is loaded when a plan is fetched; without one: STITCH_UNAVAILABLE */
} stitch_device;

typedef STITCH_ENUM(stitch_encoding){STITCH_JSON = 0, STITCH_CBOR = 1} stitch_encoding;

/* Buffers that a plan reads or writes must start at multiples of this. */
#define STITCH_BUFFER_ALIGNMENT 16

typedef struct stitch_client stitch_client;
typedef struct stitch_plan stitch_plan;
typedef struct stitch_program stitch_program;

/* STITCH_API_VERSION of the library that was loaded. */
STITCH_API int stitch_api_version(void);
/* "0.1.0" */
STITCH_API const char* stitch_version(void);
/* Text of this thread's last failure; "" when there was none. Valid until the thread's next call. */
STITCH_API const char* stitch_last_error(void);
/* "unavailable" */
STITCH_API const char* stitch_code_name(stitch_code status);

/* Connects. `server`: "unix:///path" or "http://127.0.0.1:port"; NULL for the default socket. `cache`: folder for
 * artifacts; NULL for the default one, "" for none. */
STITCH_API stitch_code stitch_client_open(const char* server, const char* cache, stitch_client** client);
/* Plans of the client must be released before. NULL is fine. */
STITCH_API void stitch_client_close(stitch_client* client);

/* From now on nothing is predicted, compiled or tuned for this client: a plan or program that the server has not stored
 * is STITCH_NOT_FOUND at once, models that are submitted are STITCH_CONSTRAINT, and the client's plans stay those that
 * are in use. It cannot be taken back. (Since version 6.) */
STITCH_API stitch_code stitch_client_freeze(stitch_client* client);

typedef struct stitch_client_counts { /* since the client was opened */
  size_t size;                        /* sizeof(stitch_client_counts), set by the caller */
  int64_t plans_stored;               /* that the server had, programs' included */
  int64_t plans_predicted;            /* that it made for a look-up */
  int64_t misses;                     /* without a plan where none might be made: frozen, or STITCH_MODE=replay */
  int64_t deadlines_passed;
  int64_t tunings;           /* fragments and models that were handed in */
  int64_t programs;          /* that came from the server */
  int64_t artifacts_kept;    /* code that the folder had */
  int64_t artifacts_fetched; /* code that came from the server */
  int64_t plans_loaded;
  int64_t swaps;
} stitch_client_counts;
/* (Since version 6.) */
STITCH_API stitch_code stitch_client_get_counts(const stitch_client* client, stitch_client_counts* counts);

/* Fetches a plan for a fragment (docs/fragment-format.md) and loads it, waiting up to `deadline_ms` for the server to
 * find or predict one. */
STITCH_API stitch_code stitch_plan_fetch(stitch_client* client, const void* fragment, size_t fragment_bytes,
                                         stitch_encoding encoding, stitch_device device, int64_t deadline_ms,
                                         stitch_plan** plan);
/* The same on the GPU that CUDA numbers `ordinal` in this process, with a plan for that GPU: unlike ones get each their
 * own. stitch_plan_fetch takes the first. Of the emulated device there is only number 0. (Since version 2.) */
STITCH_API stitch_code stitch_plan_fetch_on(stitch_client* client, const void* fragment, size_t fragment_bytes,
                                            stitch_encoding encoding, stitch_device device, int ordinal,
                                            int64_t deadline_ms, stitch_plan** plan);
/* The same under constraints on the results, besides those of the fragment: some of "deterministic", "batch_invariant",
 * "tf32", "tf32x3", "bf16x3", "winograd", "eager_precision", "in_place" (docs/planning.md) with commas between; NULL
 * for none. (Since version 3.) */
STITCH_API stitch_code stitch_plan_fetch_under(stitch_client* client, const void* fragment, size_t fragment_bytes,
                                               stitch_encoding encoding, stitch_device device, int ordinal,
                                               const char* constraints, int64_t deadline_ms, stitch_plan** plan);
STITCH_API void stitch_plan_release(stitch_plan* plan);

/* Parameters and results, in the fragment's order; an index out of range has 0 bytes. */
STITCH_API size_t stitch_plan_parameter_count(const stitch_plan* plan);
STITCH_API size_t stitch_plan_result_count(const stitch_plan* plan);
STITCH_API int64_t stitch_plan_parameter_bytes(const stitch_plan* plan, size_t index);
STITCH_API int64_t stitch_plan_result_bytes(const stitch_plan* plan, size_t index);

/* Which results may be written where parameters lie, any of these pairs at once, each parameter and each result once:
 * of plans under "in_place", and valid for as long as the plan is there. An index out of range is
 * STITCH_INVALID_ARGUMENT. (Since version 5.) */
STITCH_API size_t stitch_plan_in_place_count(const stitch_plan* plan);
STITCH_API stitch_code stitch_plan_in_place(const stitch_plan* plan, size_t index, size_t* parameter, size_t* result);

typedef struct stitch_plan_info {
  size_t size;             /* sizeof(stitch_plan_info), set by the caller: later versions add fields at the end */
  char id[33];             /* hexadecimal */
  char label[16];          /* "measured", "near", "predicted", "default" */
  int32_t launches;        /* kernels per run */
  int32_t swaps;           /* how often a better plan has taken this handle's place */
  double predicted_us;     /* on the GPU that was planned for */
  double measured_us;      /* negative: not measured */
  double verified_share;   /* of its outputs that were compared with the reference, 0 to 1 */
  int64_t workspace_bytes; /* device memory it holds */
  int32_t stale;    /* 1: made by an earlier toolkit or generator, until the server's own is verified (version 2) */
  int32_t reserved; /* 0 */
  double uncertainty_us; /* how far predicted_us may be off: about two of three kernels are nearer (version 7) */
} stitch_plan_info;
STITCH_API stitch_code stitch_plan_get_info(const stitch_plan* plan, stitch_plan_info* info);

/* Runs on host memory and waits. Buffers in the fragment's order, dense and row-major, aligned; NULL only for a tensor
 * without elements. */
STITCH_API stitch_code stitch_plan_run(stitch_plan* plan, const void* const* parameters, void* const* results);
/* Enqueues on a CUstream (NULL: the default one) with device addresses and does not wait. The plan must not be released
 * before CUDA graphs that it was captured into, nor while a stream is captured. */
STITCH_API stitch_code stitch_plan_launch(stitch_plan* plan, const uint64_t* parameters, const uint64_t* results,
                                          void* stream);

/* Swaps in a better plan if the server has one, waiting up to `wait_ms` for it. `swapped` (may be NULL): 0 or 1. */
STITCH_API stitch_code stitch_plan_check_for_update(stitch_plan* plan, int64_t wait_ms, int* swapped);
/* From now on a thread does that. `told` (may be NULL) is called from it after each swap (STITCH_OK) and failure. */
STITCH_API stitch_code stitch_plan_watch(stitch_plan* plan, void (*told)(stitch_code status, void* context),
                                         void* context);

/* A whole model. (Everything about programs: since version 4.) */

/* Opens a program's document with its code inside, or a package, from the bytes of its file: what `stitch run
 * --program` and `stitch package` write. Needs no server and no compiler. Of a package the program that fits the device
 * best is taken; STITCH_CONSTRAINT when none does. */
STITCH_API stitch_code stitch_program_open(const void* document, size_t size, stitch_device device, int ordinal,
                                           stitch_program** program);
/* Has the server make the program of a model file, tuned or not, and opens it; waits up to `deadline_ms` for plans. The
 * ending of `name` tells the format where the contents do not. `products`: who multiplies matrices: "library", "ours"
 * (kernels of ours), "faster" (ours where they are predicted to be), "stream" (the same, and ours where a stream of a
 * GPU has no library's call: what a program needs that is to be launched), or NULL for the server's own choice. */
STITCH_API stitch_code stitch_program_fetch(stitch_client* client, const char* name, const void* model, size_t size,
                                            const char* products, stitch_device device, int ordinal,
                                            int64_t deadline_ms, stitch_program** program);
/* The same under constraints, as of stitch_plan_fetch_under. (Since version 5.) */
STITCH_API stitch_code stitch_program_fetch_under(stitch_client* client, const char* name, const void* model,
                                                  size_t size, const char* products, stitch_device device, int ordinal,
                                                  const char* constraints, int64_t deadline_ms,
                                                  stitch_program** program);
STITCH_API void stitch_program_release(stitch_program* program);

/* Inputs (weights among them) and outputs, in the model's order; an index out of range has 0 bytes and the name "".
 * Names are valid until the program is released. */
STITCH_API size_t stitch_program_input_count(const stitch_program* program);
STITCH_API size_t stitch_program_output_count(const stitch_program* program);
STITCH_API int64_t stitch_program_input_bytes(const stitch_program* program, size_t index);
STITCH_API int64_t stitch_program_output_bytes(const stitch_program* program, size_t index);
STITCH_API const char* stitch_program_input_name(const stitch_program* program, size_t index);
STITCH_API const char* stitch_program_output_name(const stitch_program* program, size_t index);

/* Which outputs stitch_program_launch may be told to write where inputs lie, as of stitch_plan_in_place: where whoever
 * reads the input comes before whoever writes the output. (Since version 5.) */
STITCH_API size_t stitch_program_in_place_count(const stitch_program* program);
STITCH_API stitch_code stitch_program_in_place(const stitch_program* program, size_t index, size_t* input,
                                               size_t* output);

typedef struct stitch_program_info {
  size_t size;             /* sizeof(stitch_program_info), set by the caller */
  char id[33];             /* hexadecimal: of its structure, whatever its plans are */
  char reserved[3];        /* 0 */
  int32_t can_launch;      /* 1: stitch_program_launch enqueues it */
  int64_t arena_bytes;     /* memory that it holds for values between its steps */
  int64_t workspace_bytes; /* memory that its plans hold */
  int64_t fallbacks;       /* steps that the float64 reference evaluator computes, for want of anything else */
} stitch_program_info;
STITCH_API stitch_code stitch_program_get_info(const stitch_program* program, stitch_program_info* info);

/* Runs on host memory and waits. Buffers dense and row-major; NULL only for a tensor without elements. */
STITCH_API stitch_code stitch_program_run(stitch_program* program, const void* const* inputs, void* const* outputs);
/* Enqueues on a CUstream (NULL: the default one) with device addresses and does not wait: nothing is allocated, loaded
 * or waited for, so that it may be captured into a CUDA graph. Runs must be ordered on the device, and the program must
 * stay for as long as CUDA graphs that it was captured into. Outputs are apart from each other, and from inputs but for
 * the pairs of stitch_program_in_place: values lie in their memory before they do. STITCH_UNSUPPORTED names the step
 * that keeps the program from it, such as a branch. */
STITCH_API stitch_code stitch_program_launch(stitch_program* program, const uint64_t* inputs, const uint64_t* outputs,
                                             void* stream);

/* Submits a model file to be tuned in the background. */
STITCH_API stitch_code stitch_submit_model(stitch_client* client, const char* name, const void* bytes, size_t size,
                                           int64_t* job);

typedef struct stitch_job_info {
  size_t size;       /* sizeof(stitch_job_info), set by the caller */
  char state[16];    /* "queued", "running", "done", "failed", "cancelled" */
  double progress;   /* 0 to 1 */
  char message[256]; /* of the last progress, or why it failed; cut when longer */
} stitch_job_info;
STITCH_API stitch_code stitch_job_get_info(stitch_client* client, int64_t job, stitch_job_info* info);
STITCH_API stitch_code stitch_job_cancel(stitch_client* client, int64_t job);

#ifdef __cplusplus
}
#endif

#endif
