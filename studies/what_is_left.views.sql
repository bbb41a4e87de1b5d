-- What the points of what_is_left.points.csv name: of each search the equal split, the best one, and what no split beats.
CREATE VIEW cells AS
SELECT workload, cell, max(time_s) FILTER (origin = 'equal') AS equal, min(time_s) AS best, any_value(bound) AS proven,
  equal / best - 1 AS gain, equal / proven - 1 AS most,
  CASE workload WHEN 'gpt3_libra' THEN 'GPT-3' WHEN 'msft1t_libra' THEN 'MSFT-1T'
    WHEN 'turing_nlg_libra' THEN 'Turing-NLG' ELSE 'ResNet-50' END AS model,
  CASE WHEN "collective.algorithms" = 'auto'
    THEN if("collective.order" = 'themis', 'Themis', 'baseline order')
    ELSE if("collective.order" = 'themis', 'both', 'in-switch reduction') END AS variant
FROM rows GROUP BY cell, workload, "collective.order", "collective.algorithms";

CREATE MACRO best_ms(of_model) AS (SELECT best * 1e3 FROM cells WHERE model = of_model AND variant = 'baseline order');
CREATE MACRO gain_of(of_model, kind) AS (SELECT gain FROM cells WHERE model = of_model AND variant = kind);
CREATE MACRO gains_of(of_model) AS (
  SELECT string_agg(printf('%s %.1f%%', variant, 100 * gain), ', ' ORDER BY cell) FROM cells WHERE model = of_model
);
