-- What the points of hierarchical_memory.points.csv name.
CREATE VIEW runs AS
SELECT memory AS system, "workload.model.sequence"::INT AS tokens, time_s, compute_s,
  exposed_by_collective_s['memory'] AS memory_s
FROM rows;
CREATE MACRO seconds(of_system) AS (SELECT time_s FROM runs WHERE system = of_system AND tokens = 2048);

-- How many times as fast the optimised design is, by tokens a GPU.
CREATE VIEW gains AS
SELECT tokens, base.time_s / best.time_s AS gain
FROM runs base JOIN runs best USING (tokens) WHERE base.system = 'hierarchical' AND best.system = 'hierarchical_opt';
CREATE MACRO gain_at(n) AS (SELECT gain FROM gains WHERE tokens = n);
-- The share of the base design's time that memory five times as fast leaves as it is.
CREATE MACRO fixed_at(n) AS (5 / gain_at(n) - 1) / 4;
CREATE MACRO falls_from_five() AS (
  SELECT max(gain) <= 5 AND bool_and(before IS NULL OR gain < before)
  FROM (SELECT gain, lag(gain) OVER (ORDER BY tokens) AS before FROM gains)
);

CREATE MACRO rate(of_system) AS (SELECT 100 / time_s FROM hierarchical_memory_rate WHERE memory = of_system);

-- GB/s of the fabrics' ports and of the memory groups, and what the next faster group gains.
CREATE VIEW knee AS
SELECT split_part("memory.fabric_bandwidth", ' ', 1)::DOUBLE AS fabric,
  split_part("memory.bandwidth", ' ', 1)::DOUBLE AS its_group, time_s,
  time_s / lead(time_s) OVER (PARTITION BY "memory.fabric_bandwidth" ORDER BY its_group) AS gain
FROM hierarchical_memory_knee;
CREATE MACRO bends() AS (
  SELECT bool_and(gain < 1.01) FILTER (its_group >= fabric) AND bool_and(gain > 1.15) FILTER (2 * its_group <= fabric)
  FROM knee WHERE gain IS NOT NULL
);
CREATE MACRO corner() AS (SELECT arg_min(time_s, (fabric, its_group)) / min(time_s) FROM knee);

-- What the time of an iteration is spent on.
CREATE VIEW parts AS
SELECT CASE system WHEN 'zero_infinity' THEN 'ZeRO-Infinity' WHEN 'hierarchical' THEN 'hierarchical' ELSE 'optimised' END
  AS x, part.*, if(part.series = 'exchanges', printf('%.3f s', time_s), '') AS text
FROM runs, unnest([{place: 0, series: 'waits for memory', y: memory_s}, {place: 1, series: 'computes', y: compute_s},
  {place: 2, series: 'exchanges', y: time_s - memory_s - compute_s}]) AS each(part)
WHERE tokens = 2048 ORDER BY part.place, system = 'hierarchical_opt', system = 'hierarchical';
