-- What the points of wafer.points.csv name.
CREATE MACRO named(system) AS replace(upper(replace(system, '_', '-')), 'CONV', 'Conv');

-- Microseconds of 1 GiB without latency.
CREATE MACRO microseconds(system, chosen, served) AS (
  SELECT time_ps / 1e6 FROM wafer_all_reduce
  WHERE topology = system AND "collective.order" = chosen AND "collective.queue" = served
);

CREATE VIEW runs AS
SELECT *, named(topology) AS system,
  CASE workload WHEN 'all_reduce' THEN 'All-reduce of 1 GiB' WHEN 'themis_dlrm' THEN 'DLRM'
    WHEN 'wafer_gpt3' THEN 'GPT-3' ELSE 'Transformer-1T' END AS work
FROM rows;

CREATE VIEW fastest AS
SELECT collective, work, min(cell) AS first, arg_min(system, (time_s, topology)) AS system
FROM runs GROUP BY ALL;
CREATE MACRO fastest_of(kind) AS (
  SELECT string_agg(work || ': ' || system, ', ' ORDER BY first) FROM fastest WHERE collective = kind
);

-- How many times as fast an all-reduce is with Themis.
CREATE VIEW gains AS
SELECT base.cell, base.system, base.time_s / themis.time_s AS gain
FROM runs base JOIN runs themis USING (workload, topology)
WHERE workload = 'all_reduce' AND base.collective = 'default' AND themis.collective = 'themis';

-- What each system loses, with Themis, to the wafer of one switch that has as much bandwidth.
CREATE VIEW losses AS
SELECT ours.workload, ours.cell, ours.topology, ours.system,
  ours.time_s / one.time_s - 1 AS time, ours.exposed_s / one.exposed_s - 1 AS exposed
FROM runs ours JOIN runs one USING (workload, collective)
WHERE collective = 'themis' AND (ours.topology, one.topology) IN
  (('w_2d', 'w_1d_500'), ('conv_3d', 'w_1d_350'), ('conv_4d', 'w_1d_600'));
CREATE MACRO lost(work) AS (
  SELECT string_agg(printf('%s %+.1f%%', system, 100 * time), ', ' ORDER BY cell)
  FROM losses WHERE workload = work
);
CREATE MACRO exposed_more(work) AS (
  SELECT 'exposed: ' || string_agg(printf('%s %+.1f%%', system, 100 * exposed), ', ' ORDER BY cell)
  FROM losses WHERE workload = work
);
CREATE MACRO is_near(work) AS (SELECT max(time) <= 0.10 FROM losses WHERE workload = work);
CREATE MACRO is_apart(work) AS (
  SELECT min(exposed) > 0.10 FROM losses WHERE workload = work AND topology LIKE 'conv%'
);

CREATE VIEW bars AS
SELECT ours.work, ours.system AS x,
  if(ours.collective = 'themis', 'with Themis', 'baseline order') AS series,
  ours.time_s / least.time_s AS y, printf('%.2f', y) AS text
FROM runs ours JOIN runs least USING (workload)
WHERE least.topology = 'w_1d_600' AND least.collective = 'themis' ORDER BY ours.cell;
