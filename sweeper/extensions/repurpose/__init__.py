"""RePurpose: trained networks restructured for a cluster, what each costs, and how right it is."""

OFFERS = {
    "command": {"repurpose": "command:command"},
    "workload": {"repurposed": "workload:Repurposed"},
}
