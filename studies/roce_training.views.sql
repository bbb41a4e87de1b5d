-- What the points of roce_training.points.csv name: how much longer each case takes than with pauses alone.
CREATE MACRO model_of(workload) AS CASE workload WHEN 'roce_dlrm' THEN 'DLRM' WHEN 'roce_gpt3_13b' THEN 'GPT-3 13B' ELSE 'ResNet-50' END;
CREATE MACRO answer(packets) AS concat(
  CASE regexp_extract(packets, 'transport: (\w+)', 1) WHEN 'static' THEN if(packets LIKE '%window: False%', 'PFC alone', 'window')
    WHEN 'dcqcn' THEN 'DCQCN' WHEN 'dctcp' THEN 'DCTCP' WHEN 'timely' THEN 'TIMELY' ELSE 'HPCC' END,
  if(packets LIKE '%spray: True%', ', sprayed', '')
);
CREATE TABLE runs AS
SELECT model_of(workload) AS model, if("collective.algorithms" = 'ring', 1, 2) AS nth,
  if(nth = 1, 'ring', 'halving-doubling') AS name, answer("network.packets") AS answer, cell, time_s FROM rows
UNION ALL
SELECT model_of(workload), 2, 'halving-doubling', answer("network.packets"), 100 + cell, time_s FROM roce_training_collisions
UNION ALL
SELECT model_of(workload), 3, 'hierarchical', answer("network.packets"), cell, time_s FROM roce_training_racks
UNION ALL
SELECT model_of(workload), 4, 'NVLink and Clos', answer("network.packets"), cell, time_s FROM roce_training_nvlink;
CREATE TABLE compared AS
SELECT runs.*, runs.time_s / alone.time_s - 1 AS over
FROM runs JOIN runs alone USING (model, name) WHERE alone.answer = 'PFC alone';

CREATE MACRO is_rate(kind) AS kind IN ('DCQCN', 'DCTCP', 'TIMELY');
CREATE MACRO rates(of_model, of_case) AS (
  SELECT string_agg(printf('%s %+.1f%%', answer, 100 * over), ', ' ORDER BY cell)
  FROM compared WHERE model = of_model AND name = of_case AND is_rate(answer)
);
CREATE MACRO most(of_model, of_case) AS (
  SELECT max(abs(over)) FROM compared WHERE model = of_model AND name = of_case AND is_rate(answer)
);
CREATE MACRO hpcc(of_model) AS (
  SELECT string_agg(printf('%s %+.1f%%', name, 100 * over), ', ' ORDER BY nth)
  FROM compared WHERE model = of_model AND answer = 'HPCC'
);
-- Where hashes collide.
CREATE MACRO colliding(of_model, kind) AS (
  SELECT over FROM compared WHERE model = of_model AND name = 'halving-doubling' AND answer = kind
);
CREATE MACRO collisions(of_model) AS 1 / (1 + colliding(of_model, 'PFC alone, sprayed')) - 1;
CREATE MACRO rate_law(of_model) AS
  (1 + colliding(of_model, 'DCQCN, sprayed')) / (1 + colliding(of_model, 'PFC alone, sprayed')) - 1;
