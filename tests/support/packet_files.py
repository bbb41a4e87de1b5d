"""Files of packet simulators as their tools write them: ns-3's (HPCC, SimAI), htsim's, GOAL."""

HPCC = """\
5 1 4
2
0 2 100Gbps 0.001ms 0
1 2 100Gbps 1us 0.000000
3 2 25Gbps 1000ns 0
4 2 12.5GBps 0ns 0

First line: total node #, switch node #, link #
"""
HPCC_FLOWS = """\
2
4 0 3 100 1000000 2
1 3 3 100 20000 2.00004

First line: # of flows
src0 dst0 3 dst_port0 size0 start_time0
"""
HPCC_CONFIG = """\
ENABLE_QCN 1 {0: disable, 1: enable}
PACKET_PAYLOAD_SIZE 4000

TOPOLOGY_FILE mix/topology.txt
CC_MODE 1
ALPHA_RESUME_INTERVAL 2
RATE_DECREASE_INTERVAL 50
RP_TIMER 300
EWMA_GAIN 0.0078125
FAST_RECOVERY_TIMES 5
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
MIN_RATE 1000Mb/s
HAS_WIN 0
GLOBAL_T 1
U_TARGET 0.9
LINK_DOWN 0 0 0
BUFFER_SIZE 16
KMAX_MAP 2 25000000000 400 100000000000 1600
KMIN_MAP 2 25000000000 100 100000000000 300
PMAX_MAP 2 25000000000 0.2 100000000000 0.8
ACK_HIGH_PRIO 0
MY_KEY 7
"""
SIMAI = """\
9 2 2 3 11 H100
4 5 6 7 8
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 7 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 7 400Gbps 0.0005ms 0
6 8 400Gbps 0.0005ms 0
7 8 400Gbps 0.0005ms 0
6 7 400Gbps 0.0005ms 0
"""
TWO_TIERS = """\
# leaves and spines
Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 300
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 500
Queue_Down 100
"""
THREE_TIERS = """\
Nodes 8
Tiers 3
Podsize 4
Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Bundle 1
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Bundle 2
"""
MATRIX = """\
Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 0 size 1000000 send_done_trigger 1
2->1 id 2 start 40.5 size 100000 recv_done_trigger 1
1->3 id 3 trigger 1 size 5000 prio 1 send_done_trigger 2
3->0 id 4 trigger 2 size 6000
trigger id 1 barrier count 2
trigger id 2 oneshot
"""
RING = "num_ranks 4\n" + "\n".join(
    f"""\
rank {rank} {{
l1: send 1000000b to {(rank + 1) % 4} tag 7
l2: recv 1000000b from {(rank - 1) % 4} tag 7 cpu 0 nic 0
l3: calc 5000 cpu 0 // the reduction
l3 requires l2
}}"""
    for rank in range(4)
)
