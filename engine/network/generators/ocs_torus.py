"""Three-dimensional tori of cubes of NPUs that optical circuit switches join."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import FAR, NEAR, Generator, Wires, check_divides
from dimsweep.engine.network.graph import Kind


@dataclass(frozen=True, kw_only=True)
class OcsTorus(Generator):
    """A torus of ``shape`` NPUs, in cubes of ``cube`` along each side (Jouppi et al., TPU v4, ISCA
    2023).

    Within a cube cables are copper.  The faces of cubes lead to optical circuit switches, one for
    each of the 3 * cube^2 places on a face, which put the cubes into this shape.  They pass light
    on and no messages: they are devices without links, and a circuit is a fibre from face to face.
    """

    kind: ClassVar[str] = "ocs_torus"

    shape: tuple[int, ...]
    cube: int = 4

    def lay(self, wires: Wires) -> None:
        if len(self.shape) != 3:
            what = f"{len(self.shape)} dimensions"
            raise DimsweepError(what, where="shape", hint="three, such as [8, 8, 16]")
        for size in self.shape:
            check_divides("shape", self.cube, size, "NPUs along a side")
        a, b, c = self.shape
        wires.npus(a * b * c)
        cubes = a * b * c // self.cube**3
        for axis, i, j in product("xyz", range(self.cube), range(self.cube)):
            wires.graph.add_node(f"OCS {axis} {i}.{j}", kind=Kind.OCS, **wires.device(2 * cubes))
        for d, size in enumerate(self.shape):
            for place in product(*(range(s) for s in self.shape)):
                on = list(place)
                on[d] = (on[d] + 1) % size
                one, other = (x + a * (y + b * z) for x, y, z in (place, on))
                if one == other or (size == 2 and place[d] == 1):
                    continue
                outside = place[d] % self.cube == self.cube - 1
                wires.cable(one, other, *(("fibre", FAR) if outside else ("copper", NEAR)))
