-- What the points of equal_bills.points.csv name: of each network and model the fastest that costs, or draws, no more
-- than the rail-optimised Clos of 400 Gb/s a GPU, with the better one of two algorithms.
CREATE VIEW runs AS
SELECT cell, time_s, bound, cost_usd, power_w, "network.generator" AS generator,
  CASE workload WHEN 'gpt3_slice' THEN 'GPT-3 175B' WHEN 'llama3_slice' THEN 'Llama-3 405B'
    WHEN 'mixtral_slice' THEN 'Mixtral 8x22B' ELSE 'DLRM' END AS model,
  CASE regexp_extract("network.generator", 'kind: ([a-z_]+)', 1) WHEN 'roft' THEN 'rail-optimised Clos'
    WHEN 'rail_only' THEN 'rail-only' WHEN 'hpn' THEN 'HPN' WHEN 'zcube' THEN 'ZCube' WHEN 'dragonfly' THEN 'Dragonfly'
    WHEN 'hamming_mesh' THEN 'HammingMesh' WHEN 'ocs_torus' THEN 'torus with OCS' ELSE 'NVL64 racks' END AS network
FROM rows;
CREATE VIEW budget AS SELECT any_value(cost_usd) AS usd, any_value(power_w) AS w
FROM runs WHERE generator LIKE '%kind: roft%' AND generator LIKE '%radix: 16,%';

CREATE VIEW fair AS
SELECT model, network, 'for the same money' AS held, min(time_s) AS s, arg_min(bound, time_s) AS least,
  arg_min(cost_usd, time_s) AS usd, arg_min(power_w, time_s) AS w, min(cell) AS cell
FROM runs, budget WHERE cost_usd <= budget.usd GROUP BY model, network
UNION ALL
SELECT model, network, 'for the same power', min(time_s), arg_min(bound, time_s), arg_min(cost_usd, time_s),
  arg_min(power_w, time_s), min(cell)
FROM runs, budget WHERE power_w <= budget.w GROUP BY model, network;

-- How many times as fast as on the rail-optimised Clos a model trains.
CREATE VIEW gains AS
SELECT own.*, clos.s / own.s AS gain FROM fair own JOIN fair clos USING (model, held)
WHERE clos.network = 'rail-optimised Clos';
CREATE MACRO gains_for(name, what) AS (
  SELECT string_agg(printf('%s %+.1f%%', model, 100 * (gain - 1)), ', ' ORDER BY cell) FROM gains
  WHERE network = name AND held = 'for the same ' || what
);
CREATE MACRO gain_of(name, of_model) AS (
  SELECT gain FROM gains WHERE network = name AND model = of_model AND held = 'for the same money'
);
-- What as wide a network costs: of 400 Gb/s a GPU, the cheapest way.
CREATE MACRO bill(pattern) AS (SELECT min(cost_usd) FROM runs WHERE generator LIKE pattern);
CREATE VIEW dots AS
SELECT model, network AS x, held AS series, 1e3 * s AS y, 1e3 * least AS published FROM fair ORDER BY held, cell;
