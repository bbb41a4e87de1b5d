"""Networks as other tools write them: two servers on a switch, and a node with two GPUs."""

INFRAGRAPH = """\
name: two nodes
devices:
- name: server
  components:
  - {name: xpu, count: 2, choice: xpu, xpu: {}}
  - {name: nvlsw, count: 1, choice: switch}
  - {name: cx5, count: 2, choice: device}
  - {name: cpu, count: 1, choice: cpu}
  links:
  - name: nvlink
    physical:
      bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 450}
      latency: {choice: ns, ns: 300}
  - name: pcie
    physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 64}}
  - {name: unused}
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvlsw}, link: nvlink, scheme: many2many}
  - ep1: {component: 'xpu[0:2]'}
    ep2: {device: 'cx5[0:2]', component: 'asic[0]'}
    link: pcie
    scheme: one2one
- name: cx5
  components:
  - {name: asic, count: 1, choice: nic}
  - {name: port, count: 1, choice: port}
  links:
  - name: serdes
    physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}
  edges: [{ep1: {component: asic}, ep2: {component: port}, link: serdes, scheme: one2one}]
- name: switch
  components:
  - {name: asic, count: 1, choice: switch}
  - {name: port, count: 4, choice: port}
  links:
  - name: ic
    physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}
  edges: [{ep1: {component: asic}, ep2: {component: port}, link: ic, scheme: many2many}]
links:
- name: eth
  physical:
    bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}
    latency: {choice: us, us: 1.5}
instances:
- {name: host, device: server, count: 2}
- {name: leaf, device: switch, count: 1}
edges:
- ep1: {instance: 'host[0:2]', component: 'cx5.port'}
  ep2: {instance: 'leaf[0]', component: 'port[0:4]'}
  link: eth
  scheme: one2one
"""
_PORT = 'link_speed="32.0 GT/s PCIe" link_width="16"'
_NVLINKS = """\
<nvlink target="0000:07:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="9" tclass="0x068000"/>"""
NCCL = f"""\
<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:16:00.0" class="0x060400" {_PORT}>
      <pci busid="0000:18:00.0" class="0x030200" {_PORT}>
        <gpu dev="0" sm="90" rank="0" gdr="1">
          {_NVLINKS}
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020000" {_PORT}>
        <nic><net name="mlx5_0" dev="0" speed="400000" latency="1.5" guid="0x1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0001:18:00.0" class="0x030200" {_PORT}>
      <gpu dev="1" sm="90" rank="1" gdr="1">
          {_NVLINKS}
        </gpu>
    </pci>
  </cpu>
</system>
"""


def _gpu(place: str, rank: int, kind: str, links: str, attributes: str) -> str:
    """A GPU at a place on the PCI bus, in the XML of NCCL or RCCL."""
    return f"""\
    <pci busid="{place}" class="{kind}" {_PORT}>
      <gpu dev="{rank}" rank="{rank}" gdr="1" {attributes}>{links}</gpu>
    </pci>
"""


_MI300X = [f"0000:{i}1:00.0" for i in range(4)]
# Four GPUs of gfx942, each pair joined by an xGMI link; ``sm`` is a number of compute units.
RCCL = (
    '<system version="2">\n'
    '  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">\n'
    + "".join(
        _gpu(
            place,
            rank,
            "0x120000",
            "".join(
                f'<xgmi target="{other}" count="1" tclass="0x120000"/>'
                for other in _MI300X
                if other != place
            ),
            'sm="304" gcn="gfx942" arch="38911"',
        )
        for rank, place in enumerate(_MI300X)
    )
    + "  </cpu>\n</system>\n"
)
# Two hosts of an NVLink domain, with a processor and two GPUs each: their PCI places are equal.
MNNVL = (
    '<system version="1">\n'
    + "".join(
        f'  <cpu host_hash="0x{host + 1}" numaid="0" arch="arm64" vendor="">\n'
        + "".join(
            _gpu(
                f"000{8 + i}:06:00.0",
                2 * host + i,
                "0x030200",
                '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
                '<c2c bw="44712" count="5"/>',
                'sm="103"',
            )
            for i in range(2)
        )
        + f'    <pci busid="0002:01:00.0" class="0x020700" {_PORT}>'
        '<nic><net name="mlx5_0" dev="0" speed="400000" guid="0x1"/></nic></pci>\n  </cpu>\n'
        for host in range(2)
    )
    + "</system>\n"
)
