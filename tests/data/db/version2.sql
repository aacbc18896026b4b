-- A database of schema version 2: the one of version1.sql, migrated, with what version 2 brought (a near plan that names
-- its neighbour, a cost model, an entry in quarantine); tests/db/migrations_test.cpp makes a file of it. Our own data,
-- under the licence of the repository. It never changes.
PRAGMA application_id = 1400136552;
PRAGMA user_version = 2;
BEGIN;
CREATE TABLE schema_version (
  version INTEGER PRIMARY KEY,
  applied_us INTEGER NOT NULL,
  tool TEXT NOT NULL
) STRICT;
CREATE TABLE device (
  key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('gpu', 'emulated', 'recorded')),
  target TEXT NOT NULL,
  name TEXT NOT NULL,
  architecture TEXT NOT NULL,
  driver TEXT NOT NULL,
  sm_count INTEGER NOT NULL CHECK (sm_count >= 0),
  memory_bytes INTEGER NOT NULL CHECK (memory_bytes >= 0),
  constants TEXT NOT NULL,
  calibrated_us INTEGER NOT NULL CHECK (calibrated_us >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE artifact (
  row INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('source', 'ptx', 'cubin', 'graph', 'model', 'log', 'recording')),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  data BLOB NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
, stored_bytes INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE fragment (
  row INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK (length(key) = 16),
  family BLOB NOT NULL CHECK (length(family) = 16),
  name TEXT NOT NULL,
  graph BLOB NOT NULL REFERENCES artifact (hash),
  operator_count INTEGER NOT NULL CHECK (operator_count >= 0),
  parameter_bytes INTEGER NOT NULL CHECK (parameter_bytes >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX fragment_family ON fragment (family);
CREATE INDEX fragment_graph ON fragment (graph);
CREATE TABLE workload (
  row INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK (length(key) = 16),
  name TEXT NOT NULL,
  format TEXT NOT NULL CHECK (format <> ''),
  report TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE TABLE workload_part (
  workload INTEGER NOT NULL REFERENCES workload (row) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  fragment BLOB NOT NULL REFERENCES fragment (key),
  occurrences INTEGER NOT NULL CHECK (occurrences > 0),
  PRIMARY KEY (workload, position),
  UNIQUE (workload, fragment)
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_part_fragment ON workload_part (fragment);
CREATE TABLE kernel (
  row INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 16),
  name TEXT NOT NULL CHECK (name <> ''),
  architecture TEXT NOT NULL CHECK (architecture <> ''),
  options TEXT NOT NULL,
  source BLOB NOT NULL REFERENCES artifact (hash),
  ptx BLOB NOT NULL REFERENCES artifact (hash),
  cubin BLOB NOT NULL REFERENCES artifact (hash),
  launch TEXT NOT NULL,
  registers INTEGER NOT NULL CHECK (registers >= 0),
  shared_bytes INTEGER NOT NULL CHECK (shared_bytes >= 0),
  stack_bytes INTEGER NOT NULL CHECK (stack_bytes >= 0),
  spill_store_bytes INTEGER NOT NULL CHECK (spill_store_bytes >= 0),
  spill_load_bytes INTEGER NOT NULL CHECK (spill_load_bytes >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX kernel_source ON kernel (source);
CREATE INDEX kernel_ptx ON kernel (ptx);
CREATE INDEX kernel_cubin ON kernel (cubin);
CREATE TABLE target (
  row INTEGER PRIMARY KEY,
  device TEXT NOT NULL CHECK (device <> ''),
  architecture TEXT NOT NULL CHECK (architecture <> ''),
  toolkit TEXT NOT NULL CHECK (toolkit <> ''),
  version TEXT NOT NULL CHECK (version <> ''),
  UNIQUE (device, architecture, toolkit, version)
) STRICT;
CREATE TABLE plan (
  row INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  fragment BLOB NOT NULL REFERENCES fragment (key),
  target INTEGER NOT NULL REFERENCES target (row),
  document TEXT NOT NULL,
  bytes INTEGER NOT NULL CHECK (bytes >= 0),
  label TEXT NOT NULL CHECK (label IN ('measured', 'near', 'predicted', 'default')),
  status TEXT NOT NULL CHECK (status IN ('challenger', 'incumbent', 'superseded', 'withdrawn')),
  predicted_us REAL NOT NULL CHECK (predicted_us >= 0),
  measured_us REAL CHECK (measured_us >= 0),
  verified_share REAL NOT NULL CHECK (verified_share BETWEEN 0 AND 1),
  sequence INTEGER NOT NULL CHECK (sequence >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL, neighbour BLOB
  CHECK (neighbour IS NULL OR length(neighbour) = 16)
  CHECK ((label = 'near') = (neighbour IS NOT NULL)),
  CHECK ((label = 'measured') = (measured_us IS NOT NULL)),
  CHECK (status <> 'incumbent' OR sequence > 0)
) STRICT;
CREATE UNIQUE INDEX plan_incumbent ON plan (fragment, target) WHERE status = 'incumbent';
CREATE INDEX plan_fragment ON plan (fragment);
CREATE TABLE plan_step (
  plan INTEGER NOT NULL REFERENCES plan (row) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  kernel BLOB NOT NULL REFERENCES kernel (hash),
  arguments TEXT NOT NULL,
  PRIMARY KEY (plan, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_step_kernel ON plan_step (kernel);
CREATE TABLE promotion (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  fragment BLOB NOT NULL REFERENCES fragment (key),
  target INTEGER NOT NULL REFERENCES target (row),
  plan BLOB CHECK (length(plan) = 16),
  previous BLOB CHECK (length(previous) = 16),
  reason TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  CHECK (plan IS NOT NULL OR previous IS NOT NULL)
) STRICT;
CREATE INDEX promotion_fragment ON promotion (fragment);
CREATE TABLE candidate (
  row INTEGER PRIMARY KEY,
  fragment BLOB NOT NULL REFERENCES fragment (key),
  target INTEGER NOT NULL REFERENCES target (row),
  scope TEXT NOT NULL CHECK (scope IN ('kernel', 'plan')),
  schedule TEXT NOT NULL,
  schedule_hash BLOB NOT NULL CHECK (length(schedule_hash) = 16),
  outcome TEXT NOT NULL CHECK (outcome IN
    ('untested', 'correct', 'constraint', 'compile', 'timeout', 'runtime', 'correctness')),
  detail TEXT NOT NULL,
  seed INTEGER NOT NULL,
  predicted_us REAL CHECK (predicted_us >= 0),
  kernel BLOB REFERENCES kernel (hash),
  verified_share REAL NOT NULL CHECK (verified_share BETWEEN 0 AND 1),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  UNIQUE (fragment, target, schedule_hash)
) STRICT;
CREATE INDEX candidate_kernel ON candidate (kernel) WHERE kernel IS NOT NULL;
CREATE TABLE measurement (
  row INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  subject_kind TEXT NOT NULL CHECK (subject_kind IN ('plan', 'kernel', 'schedule')),
  subject BLOB NOT NULL CHECK (length(subject) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('device time', 'event count')),
  device TEXT NOT NULL REFERENCES device (key),
  samples BLOB NOT NULL CHECK (length(samples) >= 8 AND length(samples) % 8 = 0),
  mean REAL NOT NULL,
  median REAL NOT NULL,
  minimum REAL NOT NULL,
  rsd REAL NOT NULL,
  dropped INTEGER NOT NULL CHECK (dropped >= 0),
  cold_l2 INTEGER NOT NULL CHECK (cold_l2 IN (0, 1)),
  sm_clock_mhz REAL,
  memory_clock_mhz REAL,
  temperature_c REAL,
  driver TEXT NOT NULL,
  method TEXT NOT NULL,
  stopped TEXT NOT NULL,
  conditions TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_subject ON measurement (subject);
CREATE TABLE job (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind <> ''),
  dedupe_key TEXT NOT NULL,
  priority INTEGER NOT NULL,
  payload BLOB NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
  progress REAL NOT NULL CHECK (progress BETWEEN 0 AND 1),
  message TEXT NOT NULL,
  result BLOB NOT NULL,
  error_kind TEXT,
  error_message TEXT,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  owner TEXT NOT NULL,
  fence INTEGER NOT NULL CHECK (fence >= 0),
  lease_until_us INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
  created_us INTEGER NOT NULL,
  started_us INTEGER NOT NULL,
  finished_us INTEGER NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL, stalled INTEGER NOT NULL DEFAULT 0 CHECK (stalled >= 0), max_stalled INTEGER NOT NULL DEFAULT 10 CHECK (max_stalled >= 1),
  CHECK ((state = 'failed') = (error_kind IS NOT NULL)),
  CHECK ((error_kind IS NULL) = (error_message IS NULL))
) STRICT;
CREATE UNIQUE INDEX job_single_flight ON job (dedupe_key)
  WHERE dedupe_key <> '' AND state IN ('queued', 'running');
CREATE INDEX job_queue ON job (priority DESC, id) WHERE state = 'queued';
CREATE INDEX job_state ON job (state);
CREATE TABLE job_event (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  wall_us INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind <> ''),
  progress REAL NOT NULL CHECK (progress BETWEEN 0 AND 1),
  detail TEXT NOT NULL
) STRICT;
CREATE INDEX job_event_job ON job_event (job, sequence);
CREATE INDEX artifact_sizes ON artifact (kind, raw_bytes, stored_bytes);
CREATE TABLE quarantine (
  subject BLOB NOT NULL CHECK (length(subject) = 16),
  device TEXT NOT NULL CHECK (device <> ''),
  reason TEXT NOT NULL CHECK (reason <> ''),
  strikes INTEGER NOT NULL CHECK (strikes >= 1),
  first_us INTEGER NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  PRIMARY KEY (subject, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE model (
  row INTEGER PRIMARY KEY,
  name TEXT NOT NULL CHECK (name <> ''),
  device TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  training_set BLOB NOT NULL CHECK (length(training_set) = 16),
  hash BLOB NOT NULL CHECK (length(hash) = 16),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  data BLOB NOT NULL,
  accuracy TEXT NOT NULL,
  seed INTEGER NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  UNIQUE (name, device, version)
) STRICT;
INSERT INTO schema_version (version, applied_us, tool)
VALUES (1, 1700000000000000, '0.1.0');
INSERT INTO schema_version (version, applied_us, tool)
VALUES (2, 0, '0.1.0');
INSERT INTO device (key, kind, target, name, architecture, driver, sm_count, memory_bytes, constants, calibrated_us, tool, toolkit, judged_on, wall_us, judged)
VALUES ('GPU-0000', 'gpu', 'h100', 'NVIDIA H100 80GB HBM3', 'sm_90a', '580.65.06', 132, 85899345920, '{"dram_bandwidth":3.35e12}', 1700000000000000, '0.1.0', '13.0', 'emulated', 1700000000000000, 'calibrated by microbenchmarks');
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (1, X'47495e52040d042974390c4ef83d9c4f', 'graph', 10, X'28b52ffd200a5100006772617068206f662031', '0.1.0', '13.0', 'emulated', 1700000000000000, 'cut by 0.1.0', 19);
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (2, X'5a9b2add92360afccb27fc06569f1b0a', 'source', 32, X'28b52ffd20200101005f5f676c6f62616c5f5f20766f6964206b65726e656c2829207b7d202f2f2031', '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0', 41);
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (3, X'dd4cd70ccd78821a74f6ff6b1e9f0a1f', 'ptx', 17, X'28b52ffd20118900002e76657273696f6e20392e30202f2f2031', '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0', 26);
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (4, X'c3845ca07c221e76d0220ebde44d5fd5', 'cubin', 2006, X'28b52ffd60d606750000387f454c462031000100ccffc008', '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0', 24);
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (5, X'a17b4a1dd325fbd4e6439d1223bf16f4', 'source', 32, X'28b52ffd20200101005f5f676c6f62616c5f5f20766f6964206b65726e656c2829207b7d202f2f2032', '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0', 41);
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (6, X'48f1e017c2b13e240fb53f93cbd09641', 'ptx', 17, X'28b52ffd20118900002e76657273696f6e20392e30202f2f2032', '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0', 26);
INSERT INTO artifact (row, hash, kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged, stored_bytes)
VALUES (7, X'863f7bbeacf80424a4fce2a85ff7295c', 'cubin', 2006, X'28b52ffd60d606750000387f454c462032000100ccffc008', '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0', 24);
INSERT INTO fragment (row, key, family, name, graph, operator_count, parameter_bytes, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, X'b8b6ca41dc684ae4fa6d6a796ea65974', X'3311ade3f0527ca3217db540df1ce945', 'layer norm 1', X'47495e52040d042974390c4ef83d9c4f', 7, 8192, '0.1.0', '13.0', 'emulated', 1700000000000000, 'cut by 0.1.0');
INSERT INTO workload (row, key, name, format, report, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, X'd887fa3b94f8ea10c0dafb4d6e7e3dee', 'bert.onnx', 'onnx', '{}', '0.1.0', '13.0', 'emulated', 1700000000000000, 'predicted by analytical v1');
INSERT INTO workload_part (workload, position, fragment, occurrences)
VALUES (1, 0, X'b8b6ca41dc684ae4fa6d6a796ea65974', 12);
INSERT INTO kernel (row, hash, name, architecture, options, source, ptx, cubin, launch, registers, shared_bytes, stack_bytes, spill_store_bytes, spill_load_bytes, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, X'd0e95c5cf1ed8e85fcbed4ba14768560', 'stitch_kernel', 'sm_90a', '-std=c++20', X'5a9b2add92360afccb27fc06569f1b0a', X'dd4cd70ccd78821a74f6ff6b1e9f0a1f', X'c3845ca07c221e76d0220ebde44d5fd5', '{"grid":[1024,1,1],"block":[256,1,1]}', 32, 2048, 0, 0, 0, '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0');
INSERT INTO kernel (row, hash, name, architecture, options, source, ptx, cubin, launch, registers, shared_bytes, stack_bytes, spill_store_bytes, spill_load_bytes, tool, toolkit, judged_on, wall_us, judged)
VALUES (2, X'5b67c36ca30cef130ae4ef3c1946754b', 'stitch_kernel', 'sm_90a', '-std=c++20', X'a17b4a1dd325fbd4e6439d1223bf16f4', X'48f1e017c2b13e240fb53f93cbd09641', X'863f7bbeacf80424a4fce2a85ff7295c', '{"grid":[1024,1,1],"block":[256,1,1]}', 32, 2048, 0, 0, 0, '0.1.0', '13.0', 'emulated', 1700000000000000, 'compiled by NVRTC 13.0');
INSERT INTO target (row, device, architecture, toolkit, version)
VALUES (1, 'h100', 'sm_90a', '13.0', 'codegen 1');
INSERT INTO plan (row, id, fragment, target, document, bytes, label, status, predicted_us, measured_us, verified_share, sequence, tool, toolkit, judged_on, wall_us, judged, neighbour)
VALUES (1, X'c8d5f393b03c6b358fc0ed548694fd43', X'b8b6ca41dc684ae4fa6d6a796ea65974', 1, '{"scratch":[],"number":1}', 8192, 'measured', 'incumbent', 11.5, 9.5, 1.0, 1, '0.1.0', '13.0', 'emulated', 1700000000000000, 'measured by CUPTI', NULL);
INSERT INTO plan (row, id, fragment, target, document, bytes, label, status, predicted_us, measured_us, verified_share, sequence, tool, toolkit, judged_on, wall_us, judged, neighbour)
VALUES (2, X'3c825d881f9d222cf5ac34b9fae9ea85', X'b8b6ca41dc684ae4fa6d6a796ea65974', 1, '{"scratch":[],"number":2}', 8192, 'near', 'challenger', 12.5, NULL, 1.0, 0, '0.1.0', '13.0', 'emulated', 1700000000000000, 'predicted by analytical v1', X'c8d5f393b03c6b358fc0ed548694fd43');
INSERT INTO plan_step (plan, position, kernel, arguments)
VALUES (1, 0, X'd0e95c5cf1ed8e85fcbed4ba14768560', '[{"parameter":0},{"result":0}]');
INSERT INTO plan_step (plan, position, kernel, arguments)
VALUES (2, 0, X'5b67c36ca30cef130ae4ef3c1946754b', '[{"parameter":0},{"result":0}]');
INSERT INTO promotion (sequence, fragment, target, plan, previous, reason, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, X'b8b6ca41dc684ae4fa6d6a796ea65974', 1, X'c8d5f393b03c6b358fc0ed548694fd43', NULL, 'vacant', '0.1.0', '13.0', 'emulated', 1700000000000000, 'verified on emulated device, share 1.0');
INSERT INTO candidate (row, fragment, target, scope, schedule, schedule_hash, outcome, detail, seed, predicted_us, kernel, verified_share, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, X'b8b6ca41dc684ae4fa6d6a796ea65974', 1, 'kernel', '{"vector":1}', X'f75ceec2a7be250283062d416cb59ac6', 'correct', '', -2, 2.5, NULL, 0.25, '0.1.0', '13.0', 'emulated', 1700000000000000, 'verified on emulated device, share 0.25');
INSERT INTO candidate (row, fragment, target, scope, schedule, schedule_hash, outcome, detail, seed, predicted_us, kernel, verified_share, tool, toolkit, judged_on, wall_us, judged)
VALUES (2, X'b8b6ca41dc684ae4fa6d6a796ea65974', 1, 'kernel', '{"vector":2}', X'258ad7188ae77cad19befca095396bc5', 'compile', 'error: too many registers', -3, 2.5, NULL, 0.0, '0.1.0', '13.0', 'emulated', 1700000000000000, 'verified on emulated device, share 0.25');
INSERT INTO measurement (row, id, subject_kind, subject, kind, device, samples, mean, median, minimum, rsd, dropped, cold_l2, sm_clock_mhz, memory_clock_mhz, temperature_c, driver, method, stopped, conditions, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, X'693e05faebff546d9bb30f55c9be8586', 'plan', X'c8d5f393b03c6b358fc0ed548694fd43', 'device time', 'GPU-0000', X'000000000000234000000000008022400000000000002440', 9.583333333333334, 9.5, 9.25, 0.03984848430396382, 3, 1, 1980.0, NULL, 41.5, '580.65.06', 'CUPTI activity', 'noise 0.5 %', '{"graph":false}', '0.1.0', '13.0', 'emulated', 1700000000000000, 'measured by CUPTI');
INSERT INTO job (id, kind, dedupe_key, priority, payload, state, progress, message, result, error_kind, error_message, attempts, owner, fence, lease_until_us, cancel_requested, created_us, started_us, finished_us, tool, toolkit, judged_on, wall_us, judged, stalled, max_stalled)
VALUES (1, 'tune', 'fragment 1', 0, X'7b226d6f64656c223a007d', 'running', 0.5, 'half', X'', NULL, NULL, 1, 'daemon of version 1', 1, 1700000001000000, 0, 1700000000000000, 1700000000000000, 0, '0.1.0', '13.0', 'emulated', 1700000000000000, 'asked for by a client', 0, 10);
INSERT INTO job (id, kind, dedupe_key, priority, payload, state, progress, message, result, error_kind, error_message, attempts, owner, fence, lease_until_us, cancel_requested, created_us, started_us, finished_us, tool, toolkit, judged_on, wall_us, judged, stalled, max_stalled)
VALUES (2, 'tune', 'fragment 2', 0, X'7b226d6f64656c223a007d', 'queued', 0.0, '', X'', NULL, NULL, 0, '', 0, 0, 0, 1700000000000000, 0, 0, '0.1.0', '13.0', 'emulated', 1700000000000000, 'asked for by a client', 0, 10);
INSERT INTO job_event (sequence, job, wall_us, kind, progress, detail)
VALUES (1, 1, 1700000000000000, 'queued', 0.0, '');
INSERT INTO job_event (sequence, job, wall_us, kind, progress, detail)
VALUES (2, 2, 1700000000000000, 'queued', 0.0, '');
INSERT INTO job_event (sequence, job, wall_us, kind, progress, detail)
VALUES (3, 1, 1700000000000000, 'claimed', 0.0, 'daemon of version 1');
INSERT INTO job_event (sequence, job, wall_us, kind, progress, detail)
VALUES (4, 1, 1700000000000000, 'progress', 0.5, 'half');
INSERT INTO quarantine (subject, device, reason, strikes, first_us, tool, toolkit, judged_on, wall_us, judged)
VALUES (X'b8b6ca41dc684ae4fa6d6a796ea65974', 'GPU-0000', 'hung again', 2, 1700000000000000, '0.1.0', '13.0', 'emulated', 1700000000000000, 'predicted by analytical v1');
INSERT INTO model (row, name, device, version, training_set, hash, raw_bytes, data, accuracy, seed, tool, toolkit, judged_on, wall_us, judged)
VALUES (1, 'residual', 'h100', 1, X'5d80733f3b6de037f484931c0ff61a0a', X'3ab8e11f40bb22de4921466ce5933409', 5, X'28b52ffd20052900007472656573', '{"rank":0.9}', -1, '0.1.0', '13.0', 'emulated', 1700000000000000, 'predicted by analytical v1');
COMMIT;
