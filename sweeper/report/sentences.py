"""The sentences of a report, as templates with named fields.

Code that knows a finding fills in its template. No sentence has a full stop, so that it can be a
title, a line, or part of another sentence. An optional part is a separate template, and
:func:`join` skips empty parts.
"""


class Sentence(str):
    """A template of a sentence; calling it with values of its named fields returns the sentence."""

    def __call__(self, **fields: object) -> str:
        return self.format(**fields)


def join(*parts: str, by: str = "; ") -> str:
    """Join the nonempty ``parts``, separated by ``by``."""
    return by.join(filter(None, parts))


def capitalise(sentence: str) -> str:
    """Return a sentence with its first letter capitalised."""
    return sentence[:1].upper() + sentence[1:]


# --- pieces that many sentences share
AND_MORE = Sentence(" and {n} more")
BEHIND = Sentence("{share} behind")
AS_GOOD = Sentence("as good")
IN_OBJECTIVE = Sentence("{behind} in {objective} ({values})")
GAINED = Sentence("{ratios} {better} {reference}")
NOT_GAINED = Sentence("{ratios} as good as {reference}")
RUNNER_UP = Sentence("the runner-up, {name}, is {behind}")
A_TIE = Sentence("{design} (a tie): {sure}")

# --- the search of one cell
FOUND = Sentence("the {name} found {claim}")
NOTHING_BEATS = Sentence("nothing found beats {reference}")
NEARLY_AS_GOOD = Sentence("{reference} is within 0.5% of the best found")
IS_BETTER = Sentence("the {name} is {ratio} {better} {reference}")
COMPARED = Sentence("{comparison} ({values})")
ONE_TRADE_OFF = Sentence("one trial is best in both objectives: {values}")
TRADE_OFFS = Sentence("{n} trade-offs, from {first} to {last}")
WITHIN_A_PERCENT = Sentence("{first} (within 1%: {values})")
NEAR_SOON = Sentence("after {n} trials the search was within 1%")
SAME_SPLIT = Sentence("every trial has the same split")
LARGEST_SHARE = Sentence("the {name} gives {share} of the bandwidth to {dim}")
TOLERANCE = Sentence("the trials within 1% of the best put {ranges}")
TOLERATED = Sentence("{range} on {dim}")

# --- the effort of a study
COMPLETE = Sentence("{complete:,} of {tried:,} trials complete")
SOME_COMPLETE = Sentence(" ({complete:,} complete)")
BEGUN = Sentence(" in {n:,} of {cells:,} cells")
UNFINISHED = Sentence("{tried} trials so far{complete}{begun}; the sweep was stopped or still runs")
OF_PLANNED = Sentence("{tried:,} of at most {planned:,}")
SEARCHED_BY = Sentence(", searched by {samplers}")
STOPPED = Sentence(", {which} within {gap} of the bound")
AND_STOPPED = Sentence("and stopped")
SOME_STOPPED = Sentence("{n} of {searches} stopped")
SIMULATED_AGAIN = Sentence(", and {n} simulated again {fidelity} by {fidelity}")
FOR_ALL_WORKLOADS = Sentence(", and {n} for all workloads together")

# --- the finding of a study
WHO = Sentence("{workload} on {npus:,} NPUs: ")
IS_BEST = Sentence("{who}{name} is {most}{gained} ({values}){next}")
AS_GOOD_TOO = Sentence("; {name}{more} {are} as good{cheaper}")
CHEAPER = Sentence(" and {who}costs {share} less")
NEXT = Sentence("; the {which}, {name}, is {behind}")
OVER = Sentence("Over {scenarios}")
OVER_SOME = Sentence("{over}, in {n} that compare")
RANGE_FROM = Sentence("{over}, the {names} found range from {low} to {high}")
OVER_NOTHING_BEATS = Sentence("{over}, nothing found beats {reference}")
OVER_NEARLY = Sentence("{over}, {reference} is within 0.5% of the best found")
OVER_GAINED = Sentence("{over}, the {names} are {gained}")
MOST_IN = Sentence("{finding} (most: {scenario})")
OF_A_PAIR = Sentence("{over}, {subject} is {gained}{each}")
EACH_ITS_BEST = Sentence(", each with its own best {noun}")
NONE_RAN_EVERYWHERE = Sentence(
    "No decision ran in all scenarios: {name} ran in most, {n} of {scenarios} scenarios"
)
BEST_IN_EACH = Sentence("{over}, {name} is {most} in {each}")
AS_GOOD_AS_EACH = Sentence("{over}, {name} is as good as the best of {each}")
LOSES_LEAST = Sentence("{over}, {name} loses least: {most} against the best of {each} ({scenario})")
IT_IS = Sentence("it is {gained}")
NEXT_IS = Sentence("next is {name}, {behind}")
NOT_IN_ALL = Sentence("not in all of them")
AT_MOST = Sentence("at most {loss}")
WEIGHTED_MEAN = Sentence("{loss} in the weighted mean, {most}")
FIRST_OF = Sentence("with {scenario}, the first of {scenarios}")
FACTORS = Sentence("{subject} against {reference}: {ratios}{over}")

# --- remarks
AS_GIVEN = Sentence("before the search, with the configuration as given: {warning}")
IDLE = Sentence("{axis} made no difference: trials that differ in nothing else gave the same")
NO_BASELINE = Sentence(
    "the baseline cannot be simulated{where}, so no gain is known there: {cause}"
)
WITH_SCENARIO = Sentence(" with {name}{more}")
NOT_SOLD_FOR = Sentence("{part} ({bandwidth} GB/s) is not for {machines}")
NOT_SOLD = Sentence("no {kind} has {bandwidth} GB/s; the nearest {are} {parts}")
NEAREST_PART = Sentence("{bandwidth} GB/s ({part})")
OF_BEST_DESIGN = Sentence("{dim} of the best design: {remark}")
TIGHT = Sentence(
    "the best design holds {held} of {memory} of an NPU's memory, and PyTorch's cache may reserve "
    "{reserved} for that; npu.headroom=0.15 searches designs that leave room"
)
MORE_LIKE_IT = Sentence("{first}; and {n:,} more like it{places}")

# --- one network for several workloads
ONE_NETWORK = Sentence(
    "One network of {npus:,} NPUs for {n} workloads, {network}: {found}{against}{proven}"
)
AGAINST_OWN = Sentence("{measured} against each one's own best {noun}")
MEASURED = Sentence("{measure} {value}")
PROVEN_LEAST = Sentence(" (proven: no {noun} has less than {bound})")
WORKLOAD_ON_NETWORK = Sentence("{workload} ({plan}) {claim}, {loss} behind its own best network")

# --- the proof among networks and plans
BEST_OF_ALL = Sentence("{how} of all {cells:,} networks x plans{of}: {effort}")
THE_BEST = Sentence("The best")
WITHIN_OF_BEST = Sentence("Within {gap} of the best")
OF_WORKLOADS = Sentence(" of {workloads}")
FRONT_PROVEN = Sentence(
    "No design is faster{near} at the cost of any of {steps} of the front, of {cells:,} networks x "
    "plans: {effort}"
)
BY_MORE_THAN = Sentence(" by more than {gap}")
EFFORT = Sentence("{simulated:,} {were} simulated, {bounded}{left_out}the rest excluded by formula")
BOUNDED = Sentence("{n:,} more bounded with a program, ")
LEFT_OUT = Sentence("{n:,} left out for their messages, ")
FRONT_GOES = Sentence("the front goes from {first} to {last} in {steps}")
AT_COST = Sentence("{time} at {cost}")
NEAR_TIES = Sentence("{designs} {are} within 1% of it, the next one {apart} behind")
NOT_MEASURED = Sentence("no measured run covers such networks")
SURE = Sentence("a measurement would confirm this order with {sure:.0%} probability")
SURE_ELSEWHERE = Sentence(
    "no measured run covers such networks; with the errors of measured networks, this order holds "
    "with {sure:.0%} probability"
)
NONE_WITHIN = Sentence("no other design is within x{factor:.3g} of it")
NONE_NEARER = Sentence("no other design is less than {least} behind")
NONE_SIMULATED = Sentence("{nearest}, and no other one was simulated")
NEXT_DESIGN = Sentence("the {which} design, {name}, is {apart} behind")
NEXT_OPEN = Sentence("{design} ({nearest})")
CHANGE_BEYOND = Sentence("{name} {way} {factor} times its value")
LAYERS_BEYOND = Sentence("a model of {n} or {comparison} layers (now {now})")
NO_CHANGE = Sentence(
    "no design is better by more than 1% at any one {what} times {low:g} to {high:g}"
)
NOT_KNOWN_OF = Sentence("it is not known of {places}")
NOTHING_KNOWN = Sentence("nothing that is known")
THEN_BETTER = Sentence("then {design} is better by more than 1%")
OR_WHERE = Sentence("or {where}")
ANSWER_WINS = Sentence(
    "the answer wins at {won} of {places} places, {others} at {other}, each proven{unknown}"
)
AND_UNKNOWN = Sentence(", and at {n} nobody knows")

# --- designs that were simulated again
AGREEMENT = Sentence("{how} {scope}{verdict}")
SAME_COST = Sentence("cost is the same, and in time ")
ONE_AGAIN = Sentence("{design} comes to {again}, by phases {before}")
SAME_RANKING = Sentence("the ranking of {designs} is the same")
NO_TWO_CHANGE = Sentence("no two of {designs} change places")
ORDERS_AGREE = Sentence("the orders agree in {pairs} (Kendall tau-b {tau:.2g})")
STAYS_BEST = Sentence("{design} stays best ({value}); {orders}")
ANOTHER_IS_BEST = Sentence("{design} is best ({value} against {other} for {favourite}); {orders}")
SOME_FAILED = Sentence("{design}{more} failed")

# --- changes of a design
NONE_SIMULATES = Sentence("no change of the best design can be simulated")
NONE_HELPS = Sentence("none of {n} changes, each alone, makes the {design} design faster")
HELPS_MOST = Sentence("{of}{change} helps the {design} design most: {factor} {what}{cost}")
OF_CHANGES = Sentence("of {n} changes, each alone, ")
AT_TIMES_COST = Sentence(" at {factor} the cost")
AT_SAME_COST = Sentence(" at the same cost")
DOES_NOT_FIT = Sentence("does not fit: {need}")

# --- the next bandwidth
SAVES_NOTHING = Sentence("the next {unit} saves nothing in any dimension")
SAVES_ANYWHERE = Sentence("the next {unit} saves {time} wherever it goes")
SAVES_MOST = Sentence("the next {unit} saves most in {dims}: {time}")

# --- the answers
OVER_DIMENSIONS = Sentence("per NPU over {dims}")
ONE_FOR_ALL = Sentence("{over}, one network for all")
FOR_EACH = Sentence("a {noun} for each of {scenarios}")
BEHIND_EACH = Sentence("{loss} behind the best of each scenario")
AS_GOOD_EACH = Sentence("as good as the best of each scenario")
MOST_EACH = Sentence("{most} in each scenario")
MORE_IN_TABLE = Sentence("and {n} more in the table")
LEAST_SURE = Sentence("with {scenario}, the least sure of {n}: ")
NOTHING_TO_SEARCH = Sentence("there was nothing else to search")
ONE_SIMULATED = Sentence("the one design was simulated")
ALL_SIMULATED = Sentence("all {n:,} designs were simulated")
ALL_TRIED = Sentence("all {n:,} designs were tried")
NONE_BETTER = Sentence("no design of the space is better")
SOME_CANNOT = Sentence("{ran:,} ran, {n:,} are infeasible or failed; no other one is better")
WITHIN_PROVEN = Sentence("within {gap} of the proven {what}")
NO_SPLIT_BETTER = Sentence("no split{cheap} can be better than {limit}")
BEST_OF_TRIALS = Sentence("the best of {trials}")
NO_BOUND = Sentence("no bound is proven for this study")
SURE_DIFFERENCE = Sentence("{share:.1%} {how} than {name} ({sure:.0%} probability)")
EXPECT = Sentence("expect {interval}")
COMPARABLE = Sentence("in {share:.0%} of comparable runs; from {basis}")
NO_PRICE = Sentence("some tier of the network has no price")
OF_IT_NPUS = Sentence("{cost} of it NPUs")
EFFICIENCY = Sentence("{value} iterations/s per million USD")
MONEY_LEFT = Sentence("{left} of {budget} are left")
ALL_SPENT = Sentence("all of {budget}")
BUDGET = Sentence("the {cost} that it may cost")
