"""What may happen in a run, and to which of its kind; and how a run may end."""

FREE = 0  # a link: the last byte of what holds it is on it
THROUGH = 1  # a link: likewise, and it is the last one
PASS = 2  # a parcel: the far end may pass it on
GRANTED = 3  # a parcel: it heads the queue of a free link
ROOMY = 4  # a parcel: it has found room at the link's far end
RELEASED = 5  # a link: free for the next one
GIVE = 6  # a parcel that gives room back
GAVE = 7  # a link: there is more room at its far end
ADMITTED = 8  # a parcel: its port's window has room
CLOSE = 9  # a port: a parcel leaves its window
CLOSED = 10  # a port: its window has room
COMPLETE = 11  # a strand: all that it waits for has arrived
REDUCED = 12  # a strand: and reduced
OPERATOR = 13  # a node ends
ARRIVE = 14  # a member of a flow: the latencies behind its last chunk have passed
LANDED = 15  # a parcel that something else carries: it has arrived
SERVED = 16  # a node: the bytes of its access have moved, as was foreseen at some time
DEPARTED = 17  # a parcel that packets carry: its last byte has left its port
CROSSED = 18  # a parcel that may be suspended: its last byte is on its link
PASSED_ON = 19  # a parcel that may be suspended: the far end may pass it on
KIND_BITS = 5

# Outcomes of a run, those of the phase kernel first.  FULL: arrays must be enlarged, then it goes
# on.  TOO_MANY: more messages than allowed.  CARRY: packets are to go on, to ``counts.next`` at
# most.
FINISHED, STUCK, TOO_LONG, TIED, FULL, TOO_MANY, CARRY = range(7)

# How a carrier has gone to the next instant: to one, to none, or only another kernel can.
WENT_ON, AT_END, ELSEWHERE = range(3)
