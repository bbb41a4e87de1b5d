-- What the points of tcp.points.csv name.  A buffer is told in bytes for each port of the global switch, which has 64.
CREATE MACRO a_port(buffer) AS if(buffer LIKE '%MiB%MiB%' OR buffer = '32 MiB', 524288, regexp_extract(buffer, '(\d+) kB', 1)::INT * 1000 // 64);
CREATE TABLE runs AS
SELECT 'flat' AS topology, regexp_extract("collective.all_to_all", 'direct|pairwise|bruck') AS name,
  a_port("network.packets.buffer") AS buffer, 1 AS rto_ms, cell, time_s, packets_dropped AS dropped, timeouts FROM rows
UNION ALL
SELECT 'hierarchical', regexp_extract("collective.all_to_all", 'direct|pairwise|bruck'),
  a_port("network.packets.buffer"), 1, cell, time_s, packets_dropped, timeouts FROM tcp_nodes
UNION ALL
SELECT 'flat', 'direct', a_port("network.packets.buffer"), split_part("network.packets.rto_min", ' ', 1)::INT,
  cell, time_s, packets_dropped, timeouts FROM tcp_timers
UNION ALL
SELECT 'hierarchical', 'direct', a_port("network.packets.buffer"), split_part("network.packets.rto_min", ' ', 1)::INT,
  cell, time_s, packets_dropped, timeouts FROM tcp_nodes_timers;

-- How much longer an iteration takes than with ample buffers, as a share.
CREATE TABLE late AS
SELECT own.*, own.time_s / ample.time_s - 1 AS late
FROM runs own JOIN runs ample USING (topology, name) WHERE own.rto_ms = 1 AND ample.rto_ms = 1 AND ample.buffer = 524288;
CREATE MACRO late_of(network, kind) AS (SELECT late FROM late WHERE topology = network AND name = kind AND buffer = 2000);
-- The largest buffer with which it takes 5 % longer; 0 if it never does.
CREATE MACRO first_late(network, kind) AS (
  SELECT coalesce(max(buffer), 0) FROM late WHERE topology = network AND name = kind AND late > 0.05
);
CREATE MACRO dropped_by(network) AS (
  SELECT dropped FROM late WHERE topology = network AND name = 'direct' AND buffer = 2000
);
CREATE MACRO waited_by(network) AS (
  SELECT timeouts FROM late WHERE topology = network AND name = 'direct' AND buffer = 2000
);
-- Iterations by the least time-out, which grows from 1 ms.
CREATE TABLE timed AS
SELECT topology, buffer, list(time_s ORDER BY rto_ms) AS times FROM runs
WHERE name = 'direct' AND buffer IN (8000, 2000) GROUP BY topology, buffer;
CREATE MACRO thousands(n) AS format('{:,}', n::BIGINT);
