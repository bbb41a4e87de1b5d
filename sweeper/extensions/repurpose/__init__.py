"""RePurpose: restructure trained networks for a cluster; compare their costs and accuracy."""

OFFERS = {
    "command": {"repurpose": "command:command"},
    "workload": {"repurposed": "workload:Repurposed"},
}
