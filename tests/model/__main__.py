"""Look at one schedule, or at very many.

python -m tests.model SEED [-RULE …]      the schedule of that seed, step by step
python -m tests.model --long N [-RULE …]  N schedules on all cores, counted
python -m tests.model --seeds N           for each rule the first of N seeds that needs it

-RULE takes that rule of tests/model/rules.py away.
"""

from __future__ import annotations

import sys

from tests.model.many import tally_on_all_cores, witnesses_on_all_cores
from tests.model.rules import ALL, Rules
from tests.model.schedule import play
from tests.model.trace import Trace


def main(arguments: list[str]) -> int:
    """Exit code: 0 nothing broke, 1 a law is broken, 2 the arguments make no sense."""
    flags = {"--long", "--seeds"} & set(arguments)
    numbers = [argument for argument in arguments if argument.isdigit()]
    names = [a[1:] for a in arguments if a.startswith("-") and a not in flags]
    if len(numbers) != 1 or len(flags) > 1:
        print(__doc__)
        return 2
    try:
        rules = _without(names)
    except ValueError as error:
        print(error)
        return 2
    number = int(numbers[0])
    if "--seeds" in flags:
        return _seeds(number)
    return _long(number, rules) if flags else _one(number, rules)


def _without(names: list[str]) -> Rules:
    rules = ALL
    for name in names:
        rules = rules.without(name)
    return rules


def _one(seed: int, rules: Rules) -> int:
    trace = Trace()
    broken = play(seed, rules, watch=trace)
    print(*trace.lines, sep="\n")
    for law, double in sorted(broken):
        print(f"broken: {law}{' (the double fault)' * double}")
    if not broken:
        print("no law is broken")
    return int(bool(broken.laws()))


def _long(count: int, rules: Rules) -> int:
    total = tally_on_all_cores(0, count, rules)
    print(f"{total.schedules} schedules", *total.lines(), sep="\n")
    return int(bool(total.laws()))


def _seeds(count: int) -> int:
    found = witnesses_on_all_cores(count)
    for name, seed_and_law in found.items():
        if seed_and_law is not None:
            seed, law = seed_and_law
            print(f'    "{name}": ({seed}, Law.{law.name}),')
    missing = [name for name, seed_and_law in found.items() if seed_and_law is None]
    print(f"nothing breaks in {count} schedules without: {', '.join(missing) or '-'}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
