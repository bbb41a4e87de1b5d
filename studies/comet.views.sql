-- What the points of comet.points.csv name.
CREATE MACRO expansion(memory) AS if(memory = 'cxl', ' + expansion', '');

-- What an NPU holds, by the degree that divides the model, where there is room for it.
CREATE VIEW holds AS
SELECT 'Transformer-1T' AS model, "workload.parallel.tensor"::INT AS n, memory_bytes AS held FROM rows WHERE memory = 'cxl'
UNION ALL
SELECT 'DLRM', "workload.parallel.expert"::INT, memory_bytes FROM comet_dlrm WHERE memory = 'cxl';
CREATE MACRO held_by(of_model) AS (
  SELECT string_agg(printf('%d: %.6g GB', n, held / 1e9), ', ' ORDER BY n) FROM holds WHERE model = of_model
);
CREATE MACRO falls(of_model) AS (
  SELECT bool_and(held < before) FROM (
    SELECT held, lag(held) OVER (ORDER BY n) AS before FROM holds WHERE model = of_model)
  WHERE before IS NOT NULL
);

-- Time by tensor degree where memory is no limit; U-shaped, if it falls to an inner least one and rises from there.
CREATE VIEW curves AS
SELECT topology, "workload.parallel.tensor"::INT AS n, time_s,
  time_s > lag(time_s) OVER along AS rises, n > first_value(n) OVER by_time AS is_right,
  n IN (min(n) OVER whole, max(n) OVER whole) AS is_end, first_value(n) OVER by_time AS least
FROM comet_degrees
WINDOW along AS (PARTITION BY topology ORDER BY n), by_time AS (PARTITION BY topology ORDER BY time_s),
  whole AS (PARTITION BY topology);
CREATE MACRO curve(network) AS (
  SELECT string_agg(printf('%.1f s at %d', time_s, n), ', ' ORDER BY n)
  FROM curves WHERE topology = network AND (is_end OR n = least)
);
CREATE MACRO is_u(network) AS (
  SELECT bool_and(rises IS NULL OR rises = is_right) AND NOT bool_or(is_end AND n = least)
  FROM curves WHERE topology = network
);

-- What a memory expansion gains over the best degree that fits without.
CREATE VIEW without AS
SELECT "workload.parallel.tensor"::INT AS n, time_s FROM rows WHERE memory = 'none' AND time_s IS NOT NULL;
CREATE MACRO best_without() AS (SELECT arg_min(n, time_s) FROM without);
CREATE MACRO best_with() AS (SELECT arg_min("workload.parallel.tensor"::INT, time_s) FROM comet_expansion);
CREATE MACRO misfits() AS (
  SELECT printf('%d degrees (%s)', count(*), string_agg(n::VARCHAR, ', ' ORDER BY n))
  FROM holds WHERE model = 'Transformer-1T' AND n NOT IN (SELECT n FROM without)
);
CREATE MACRO most_gained() AS (SELECT (SELECT min(time_s) FROM without) / min(time_s) FROM comet_expansion);

-- Every cluster at its best degree, the fastest first.
CREATE VIEW clusters AS
SELECT replace(npu, 'peak_', '') || ' on ' || topology || expansion(memory) AS cluster, min(time_s) AS seconds,
  arg_min("workload.parallel.tensor", time_s) AS degree, arg_min(cell, time_s) AS cell
FROM comet_clusters WHERE time_s IS NOT NULL GROUP BY npu, topology, memory ORDER BY seconds;
CREATE MACRO apart() AS (SELECT max(seconds) / min(seconds) FROM clusters);
CREATE MACRO both_ends() AS (
  SELECT printf('%s %.1f s, %s %.0f s', arg_min(cluster, seconds), min(seconds), arg_max(cluster, seconds), max(seconds))
  FROM clusters
);

-- What the time of an iteration is spent on.
CREATE MACRO exposed_to(tallies, ending) AS
  coalesce(list_sum([each.value FOR each IN map_entries(tallies) IF ends_with(each.key, ending)]), 0);
CREATE VIEW parts AS
SELECT * FROM (VALUES (0, 'computes'), (1, 'tensor exchange'), (2, 'data'), (3, 'other')) named(place, series);
CREATE MACRO part_of(part, seconds, compute, tallies) AS CASE part
  WHEN 'computes' THEN compute
  WHEN 'tensor exchange' THEN exposed_to(tallies, ' tensor')
  WHEN 'data' THEN exposed_to(tallies, 'replicas')
  ELSE seconds - compute - exposed_to(tallies, ' tensor') - exposed_to(tallies, 'replicas')
END;
CREATE VIEW by_degree AS
SELECT holds.n || expansion(each.memory) AS x, series,
  coalesce(part_of(series, time_s, compute_s, exposed_by_collective_s), 0) AS y,
  if(series = 'other', coalesce(printf('%.1f s', time_s), 'does not fit 80 GiB'), '') AS text
FROM holds CROSS JOIN (VALUES ('none'), ('cxl')) each(memory)
  LEFT JOIN rows ON rows.memory = each.memory AND rows."workload.parallel.tensor"::INT = holds.n,
  parts
WHERE holds.model = 'Transformer-1T' ORDER BY place, holds.n, each.memory = 'cxl';
CREATE VIEW by_cluster AS
SELECT cluster || ': ' || degree AS x, series, part_of(series, time_s, compute_s, exposed_by_collective_s) AS y,
  if(series = 'other', printf('%.1f s', time_s), '') AS text
FROM clusters JOIN comet_clusters USING (cell), parts
ORDER BY place, seconds;
