-- What the points of themis.points.csv name. The paper's names of systems are in themis.systems.csv, the points of its
-- figures 8 and 11 in themis.figures.csv, and those read off figure 10 in themis.figure10.csv.
CREATE MACRO scheduler_of(chosen, served) AS
  CASE WHEN chosen = 'baseline' THEN 'Baseline' WHEN served = 'fifo' THEN 'Themis+FIFO' ELSE 'Themis+SCF' END;
CREATE MACRO scheduler_of_both(text) AS scheduler_of(
  regexp_extract(text, 'order: (\w+)', 1), regexp_extract(text, 'queue: (\w+)', 1));
CREATE MACRO bytes_of(size) AS split_part(size, ' ', 1)::DOUBLE * 1048576;
-- The share (%) of all bandwidth that an all-reduce among 1,024 NPUs uses in its time.
CREATE MACRO used(bytes, seconds, b0, b1, b2, b3) AS
  100 * 2 * 1023 / 1024 * bytes / (b0 + b1 + coalesce(b2, 0) + coalesce(b3, 0)) / 1e9 / seconds;

CREATE VIEW runs AS
SELECT system, scheduler_of_both(collective) AS scheduler,
  bytes_of("workload.layers[0].weight_grad.size") AS bytes, time_s, time_ps / 1e6 AS us,
  used(bytes, time_s, bandwidth_0_GBps, bandwidth_1_GBps, bandwidth_2_GBps, bandwidth_3_GBps) AS utilisation
FROM rows JOIN systems USING (topology);

CREATE VIEW bare_runs AS
SELECT system, scheduler_of_both(collective) AS scheduler, time_ps / 1e6 AS us
FROM themis_bare JOIN systems USING (topology);
CREATE MACRO bare(name, kind) AS (SELECT us FROM bare_runs WHERE system = name AND scheduler = kind);

-- Errors (%) of all points of the figures.
CREATE VIEW compared AS
SELECT 100 * abs(us / comm_time_us_fig8 - 1) AS error
FROM runs JOIN figures ON system = topology AND runs.scheduler = figures.scheduler
  AND bytes = round(1000 * allreduce_GB) * 1048576;

CREATE VIEW gains AS
SELECT ours.scheduler, base.us / ours.us AS gain
FROM runs ours JOIN runs base USING (system, bytes) WHERE base.scheduler = 'Baseline';
CREATE MACRO mean_speed_up(kind) AS (SELECT geomean(gain) FROM gains WHERE scheduler = kind);

-- The utilisation by the number of chunks.
CREATE VIEW chunked AS
SELECT system, scheduler_of("collective.order", "collective.queue") AS scheduler,
  "collective.chunks"::INT AS chunks,
  used(bytes_of('100 MiB'), time_s, bandwidth_0_GBps, bandwidth_1_GBps, bandwidth_2_GBps, bandwidth_3_GBps)
    AS utilisation
FROM themis_chunks JOIN systems USING (topology)
WHERE "collective.order" = 'themis' OR "collective.queue" = 'fifo';
CREATE MACRO of_chunks(n, kind) AS (SELECT avg(utilisation) FROM chunked WHERE chunks = n AND scheduler = kind);

-- How many times as fast each model trains on each system.
CREATE VIEW trained AS
SELECT base.workload, system, base.cell, CASE base.workload WHEN 'themis_resnet152' THEN 'ResNet-152'
    WHEN 'themis_gnmt' THEN 'GNMT' WHEN 'themis_dlrm' THEN 'DLRM' ELSE 'Transformer-1T' END AS model,
  base.time_s / themis.time_s AS gain
FROM themis_training base JOIN themis_training themis USING (workload, topology)
  JOIN systems USING (topology)
WHERE base.collective = 'default' AND themis.collective = 'themis';
CREATE MACRO training(trains, on_it) AS (SELECT gain FROM trained WHERE workload = trains AND system = on_it);
CREATE MACRO mean_training(trains) AS (SELECT avg(gain) FROM trained WHERE workload = trains);
