-- What the points of roce.points.csv name: how much longer each case takes than with pauses alone.
CREATE MACRO answer(packets) AS concat(
  CASE regexp_extract(packets, 'transport: (\w+)', 1) WHEN 'static' THEN if(packets LIKE '%window: False%', 'PFC alone', 'window')
    WHEN 'dcqcn' THEN 'DCQCN' WHEN 'dctcp' THEN 'DCTCP' WHEN 'timely' THEN 'TIMELY' ELSE 'HPCC' END,
  if(packets LIKE '%spray: True%', ', sprayed', ''),
  if(packets LIKE '%window: False%' AND packets NOT LIKE '%static%', ', no window', '')
);
CREATE TABLE runs AS
SELECT if("collective.algorithms" = 'ring', 1, 2) AS nth, if(nth = 1, 'ring', 'halving-doubling') AS name,
  answer("network.packets") AS answer, cell, time_s FROM rows
UNION ALL SELECT 3, 'hierarchical', answer("network.packets"), cell, time_s FROM roce_racks
UNION ALL SELECT 4, 'NVLink and Clos', answer("network.packets"), cell, time_s FROM roce_nvlink
UNION ALL SELECT 5, 'all-to-all', answer("network.packets"), cell, time_s FROM roce_all_to_all;
CREATE TABLE compared AS
SELECT runs.*, runs.time_s / alone.time_s - 1 AS over
FROM runs JOIN runs alone USING (name) WHERE alone.answer = 'PFC alone';

CREATE MACRO over_alone(of_case, kind) AS (SELECT over FROM compared WHERE name = of_case AND answer = kind);
CREATE MACRO is_rate(kind) AS kind IN ('DCQCN', 'DCTCP', 'TIMELY');
CREATE MACRO rates(of_case, ending) AS (
  SELECT string_agg(printf('%s %+.1f%%', split_part(answer, ',', 1), 100 * over), ', ' ORDER BY cell)
  FROM compared WHERE name = of_case AND is_rate(split_part(answer, ',', 1)) AND answer = split_part(answer, ',', 1) || ending
);
CREATE MACRO most(of_case) AS (SELECT max(abs(over)) FROM compared WHERE name = of_case AND is_rate(answer));
CREATE MACRO hpcc() AS (
  SELECT string_agg(printf('%s %+.1f%%', name, 100 * over), ', ' ORDER BY nth) FROM compared WHERE answer = 'HPCC' AND nth < 5
);
CREATE MACRO collisions() AS 1 / (1 + over_alone('halving-doubling', 'PFC alone, sprayed')) - 1;
CREATE MACRO rate_law() AS
  (1 + over_alone('halving-doubling', 'DCQCN, sprayed')) / (1 + over_alone('halving-doubling', 'PFC alone, sprayed')) - 1;
