-- What the points of compute_capability.points.csv name.
CREATE VIEW runs AS
SELECT cell, workload AS work, "npu.flops" AS rate, split_part("npu.flops", ' ', 1)::DOUBLE AS flops,
  time_s, compute_s, exposed_s, exposed_s / time_s AS share
FROM rows;

CREATE VIEW steps AS
SELECT work, exposed_s - lag(exposed_s) OVER faster AS more, share - lag(share) OVER faster AS of_it,
  exposed_s
FROM runs WINDOW faster AS (PARTITION BY work ORDER BY flops);

CREATE MACRO hidden(name) AS (
  SELECT printf('%.2g to %.2g ms: %s; %g times the compute, %.1f x as fast',
    arg_min(exposed_s, flops) * 1e3, arg_max(exposed_s, flops) * 1e3,
    string_agg(printf('%.1f%% at %s', 100 * share, rate), ', ' ORDER BY cell),
    max(flops) / min(flops), arg_min(time_s, flops) / arg_max(time_s, flops))
  FROM runs WHERE work = name
);
CREATE MACRO grows(name) AS (
  SELECT bool_and(more >= -1e-9 * exposed_s AND of_it > 0) FROM steps WHERE work = name
);

-- The shares of an iteration.
CREATE VIEW parts AS
SELECT work, rate AS x, 'computes' AS series, compute_s / time_s AS y, '' AS text, cell FROM runs
UNION ALL
SELECT work, rate, 'exposed communication', 1 - compute_s / time_s, printf('%.3g ms', time_s * 1e3),
  cell
FROM runs ORDER BY cell;
