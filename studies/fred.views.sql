-- What the points of fred.points.csv name.
CREATE VIEW runs AS
SELECT *, if(network = 'wafer_mesh', 'mesh', replace(upper(network), '_', '-')) AS fabric,
  CASE workload WHEN 'fred_resnet152' THEN 'ResNet-152' WHEN 'fred_transformer_17b' THEN 'Transformer-17B'
    WHEN 'fred_gpt3' THEN 'GPT-3' ELSE 'Transformer-1T' END AS model
FROM rows;

-- How many times as fast as on the mesh a model trains.
CREATE VIEW gains AS
SELECT ours.cell, ours.workload, ours.network, ours.fabric, ours.model, mesh.time_s / ours.time_s AS gain
FROM runs ours JOIN runs mesh USING (workload) WHERE mesh.network = 'wafer_mesh';
CREATE MACRO gain_of(which, chosen) AS (
  SELECT gain FROM gains WHERE workload = which AND network = chosen
);
CREATE MACRO preempted(chosen) AS (SELECT time_s FROM fred_preempted WHERE network = chosen);

-- By how much FRED-C and FRED-D differ where weights stream.
CREATE MACRO apart() AS (
  SELECT max(abs(d.gain / c.gain - 1)) FROM gains c JOIN gains d USING (workload)
  WHERE c.network = 'fred_c' AND d.network = 'fred_d' AND workload IN ('fred_gpt3', 'fred_transformer_1t')
);

-- GB/s that an NPU sends in an all-reduce of 1.2 GB, if it takes the bytes of a ring; in switches that
-- reduce it sends no more than there is to reduce.
CREATE MACRO seconds(which, chosen) AS (
  SELECT time_s FROM fred_all_reduce WHERE workload = which AND network = chosen
);
CREATE MACRO rate(which, ranks, chosen) AS
  1.2 * if(chosen IN ('fred_b', 'fred_d'), 1.0, 2.0 * (ranks - 1) / ranks) / seconds(which, chosen);
CREATE MACRO sent(chosen) AS (
  SELECT bytes_0 + bytes_1 + bytes_2 FROM fred_all_reduce
  WHERE workload = 'fred_all_reduce_data' AND network = chosen
);
