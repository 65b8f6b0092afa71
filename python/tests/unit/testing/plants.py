"""Anomalies, planted into histories that have none: what the checker must find.

A plant changes a history in one place, chosen by chance, or gives None where the history has no such place.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from oncelog.testing.checker import Anomaly
from oncelog.testing.history import (
    End,
    Ending,
    Event,
    Fetched,
    Kind,
    Piece,
    PlacedRun,
    Planned,
    Poll,
    Polled,
    Stage,
    Write,
    Written,
)

History = list[Event]
Plant = Callable[[History, random.Random], History | None]

LATE = 10**9
UNHEARD_OF = 10**12


def aborted_read(history: History, chance: random.Random) -> History | None:
    """A transaction whose records were read says that it aborted."""
    ends = [at for at, event in enumerate(history) if is_commit(history, event) and is_read(history, event)]
    if not ends:
        return None
    at = chance.choice(ends)
    call = history[at].call
    assert isinstance(call, End)
    return changed(history, at, replace(history[at], call=replace(call, ending=Ending.ABORT)))


def precommitted_read(history: History, chance: random.Random) -> History | None:
    """A transaction whose records were read is asked to commit at the very end."""
    ends = [at for at, event in enumerate(history) if is_commit(history, event) and is_read(history, event)]
    if not ends:
        return None
    at = chance.choice(ends)
    return [
        replace(event, time_ns=event.time_ns + LATE) if event.name == history[at].name else event for event in history
    ]


def foreign_read(history: History, chance: random.Random) -> History | None:
    """A record that was read is one that nobody wrote."""
    return change_run(history, chance, lambda run: [(run[0], UNHEARD_OF, run[2])])


def lost_write(history: History, chance: random.Random) -> History | None:
    """Nobody reads the records of a committed transaction."""
    wrote = [event.call for event in history if event.call and isinstance(event.call, Write) and event.call.transaction]
    committed = {
        event.call.transaction
        for event in history
        if isinstance(event.call, End) and is_commit(history, event) and is_told(history, event)
    }
    names = [call.transaction for call in wrote if call.transaction in committed and is_in_log(history, call)]
    if not names:
        return None
    name = chance.choice(names)
    return without_numbers(history, numbers(*(call for call in wrote if call.transaction == name)))


def lost_at_the_end(history: History, chance: random.Random) -> History | None:
    """The final reader is not given a record that another reader was given, and whose transaction is committed."""
    seen = {run[1] for at, _, run in runs_read(history) if not is_final(history, history[at])}
    certain = {
        number
        for event in history
        if isinstance(event.call, Write) and event.call.transaction and is_surely_committed(history, event)
        for number in numbers(event.call)
    }
    if not seen & certain:
        return None
    gone = {chance.choice(sorted(seen & certain))}
    return [
        without_numbers([event], gone)[0] if isinstance(event.answer, Polled) and is_final(history, event) else event
        for event in history
    ]


def two_outcomes(history: History, chance: random.Random) -> History | None:
    """Somebody is told that a transaction is aborted, of which somebody was told that it is committed."""
    ends = [event for event in history if is_commit(history, event) and is_told(history, event)]
    if not ends:
        return None
    made = chance.choice(ends)
    assert isinstance(made.call, End)
    number = made.number + LATE
    aborted = replace(made, number=number, call=replace(made.call, ending=Ending.ABORT))
    return [*history, aborted, replace(made, number=number, kind=Kind.OK, call=None)]


def torn(history: History, chance: random.Random, *, is_batch: bool = False) -> History | None:
    """Nobody reads what a transaction wrote to one of its partitions."""
    wrote = [event.call for event in history if isinstance(event.call, Write) and event.call.transaction]
    wrote = [call for call in wrote if call.is_micro_batch is is_batch and is_in_log(history, call)]
    names = [call.transaction for call in wrote]
    chosen = [call for call in wrote if names.count(call.transaction) > 1]
    return without_numbers(history, numbers(chance.choice(chosen))) if chosen else None


def half_batch(history: History, chance: random.Random) -> History | None:
    return torn(history, chance, is_batch=True)


def duplicate(history: History, chance: random.Random) -> History | None:
    """The final reader finds a record again at the end of the log."""
    at = last(history, lambda event: isinstance(event.answer, Polled))
    polled = history[at].answer
    assert isinstance(polled, Polled)
    found = [run for piece in polled.pieces for run in piece.runs]
    if not found:
        return None
    _, number, _ = chance.choice(found)
    piece = polled.pieces[0]
    more = replace(piece, end=piece.end + 1, runs=[*piece.runs, (piece.end, number, 1)])
    return changed(history, at, replace(history[at], answer=replace(polled, pieces=[more, *polled.pieces[1:]])))


def two_records_at_an_offset(history: History, chance: random.Random) -> History | None:
    """A reader that sees everything finds another record than the final reader, at the same place."""
    places = [
        (at, which, run)
        for at, which, run in runs_read(history)
        if isinstance(history[at].answer, Polled) and not is_final(history, history[at])
    ]
    if not places:
        return None
    at, which, run = chance.choice(places)
    return changed(history, at, with_run(history[at], which, run, [(run[0], UNHEARD_OF + 1, run[2])]))


def wrong_receipt(history: History, chance: random.Random) -> History | None:
    """A writer is told another offset than readers find."""
    told = [
        (event, done)
        for at, event in enumerate(history)
        if isinstance(event.call, Write)
        for done in history[at + 1 : at + 2]
        if isinstance(done.answer, Written) and is_in_log(history, event.call) and is_surely_committed(history, event)
    ]
    if not told:
        return None
    _, done = chance.choice(told)
    assert isinstance(done.answer, Written)
    return changed(history, history.index(done), replace(done, answer=Written(done.answer.offset + 1_000)))


def poll_skip(history: History, chance: random.Random) -> History | None:
    """A committed reader goes past a record that the final reader finds."""
    seen = {run[1] for at, _, run in runs_read(history) if is_final(history, history[at])}
    return change_run(
        history,
        chance,
        lambda _: [],
        is_chosen=lambda event, run: is_committed_reader(history, event) and run[1] in seen,
    )


def non_monotonic(history: History, chance: random.Random) -> History | None:
    """A reader is given a poll once more."""
    brought = {at for at, _, _ in runs_read(history) if not is_final(history, history[at])}
    if not brought:
        return None
    at = chance.choice(sorted(brought))
    done = history[at]
    made = next(event for event in history if event.name == done.name)
    again = [replace(event, number=event.number + LATE, time_ns=event.time_ns + LATE) for event in (made, done)]
    return [*history, *again]


def lso_regress(history: History, chance: random.Random) -> History | None:
    """The last plan finds an end that is one lower than one before."""
    plans = [at for at, event in enumerate(history) if isinstance(event.answer, Planned)]
    if len(plans) < 2:
        return None
    before, now = history[chance.choice(plans[:-1])].answer, history[plans[-1]].answer
    assert isinstance(before, Planned)
    assert isinstance(now, Planned)
    topic, partition, end = before.ends[0]
    ends = [(topic, partition, end - 1), *now.ends[1:]]
    return changed(history, plans[-1], replace(history[plans[-1]], answer=Planned(ends)))


def lso_passes(history: History, chance: random.Random) -> History | None:
    """A plan goes to the end of the log, while a transaction that commits later is open."""
    plans = [at for at, event in enumerate(history) if isinstance(event.answer, Planned)][:-1]
    open_then = [at for at in plans if any(is_open_at(history, event, at) for event in history[:at])]
    if not open_then:
        return None
    at = chance.choice(open_then)
    answer = history[at].answer
    assert isinstance(answer, Planned)
    ends = [(topic, partition, LATE) for topic, partition, _ in answer.ends]
    return changed(history, at, replace(history[at], answer=Planned(ends)))


def order(history: History, chance: random.Random) -> History | None:
    """A producer says that it sent two calls' records in the other order."""
    calls: dict[tuple[str, int | None], list[int]] = {}
    for at, event in enumerate(history):
        if isinstance(event.call, Write) and is_in_log(history, event.call):
            calls.setdefault((event.process, event.call.partition), []).append(at)
    pairs = [(first, second) for found in calls.values() for first, second in itertools.pairwise(found)]
    if not pairs:
        return None
    first, second = chance.choice(pairs)
    times = history[first].time_ns, history[second].time_ns
    swapped = changed(history, first, replace(history[first], time_ns=times[1]))
    return changed(swapped, second, replace(history[second], time_ns=times[0]))


def group_offsets(history: History, chance: random.Random) -> History | None:
    """The group is back at an offset that was committed before the last one."""
    staged = [
        event.call.offsets[0][2]
        for event in history
        if isinstance(event.call, Stage) and is_surely_committed(history, event)
    ]
    at = last(history, lambda event: isinstance(event.answer, Fetched))
    answer = history[at].answer
    assert isinstance(answer, Fetched)
    (topic, partition, offset) = answer.offsets[0]
    before = [one for one in staged if one < offset]
    if not before or offset not in staged:
        return None
    return changed(history, at, replace(history[at], answer=Fetched([(topic, partition, chance.choice(before))])))


def foreign_group_offset(history: History, chance: random.Random) -> History | None:
    """The group is at an offset that nobody committed."""
    fetches = [at for at, event in enumerate(history) if isinstance(event.answer, Fetched)]
    at = chance.choice(fetches)
    answer = history[at].answer
    assert isinstance(answer, Fetched)
    (topic, partition, _) = answer.offsets[0]
    return changed(history, at, replace(history[at], answer=Fetched([(topic, partition, UNHEARD_OF)])))


def torn_plan(history: History, chance: random.Random) -> History | None:
    """A poll that brought a transaction whole, in two partitions, brings one of them only; the next poll the other."""
    places: list[tuple[int, int]] = []
    for at, event in enumerate(history):
        if not (isinstance(event.answer, Polled) and event.answer.is_whole and is_committed_reader(history, event)):
            continue
        owners = [owners_of(history, piece) for piece in event.answer.pieces]
        for which, found in enumerate(owners):
            if any(found & other for number, other in enumerate(owners) if number != which):
                places.append((at, which))
    if not places:
        return None
    at, which = chance.choice(places)
    done = history[at]
    made = next(event for event in history if event.name == done.name)
    assert isinstance(done.answer, Polled)
    held = done.answer.pieces[which]
    first = [replace(piece, end=piece.start, runs=[]) if piece is held else piece for piece in done.answer.pieces]
    then = [piece if piece is held else replace(piece, start=piece.end, runs=[]) for piece in done.answer.pieces]
    later = [replace(made, number=made.number + LATE), replace(done, number=made.number + LATE)]
    later[1] = replace(later[1], answer=replace(done.answer, pieces=then))
    split = replace(done, answer=replace(done.answer, pieces=first))
    return [*history[:at], split, *later, *history[at + 1 :]]


PLANTS: dict[str, tuple[Plant, set[Anomaly]]] = {
    "aborted read": (aborted_read, {Anomaly.ABORTED_READ}),
    "precommitted read": (precommitted_read, {Anomaly.PRECOMMITTED_READ}),
    "foreign read": (foreign_read, {Anomaly.FOREIGN_READ}),
    "lost write": (lost_write, {Anomaly.LOST_WRITE}),
    "lost at the end": (lost_at_the_end, {Anomaly.LOST_WRITE}),
    "two outcomes": (two_outcomes, {Anomaly.TWO_OUTCOMES}),
    "torn transaction": (torn, {Anomaly.TORN_TRANSACTION}),
    "half batch": (half_batch, {Anomaly.HALF_BATCH}),
    "torn plan": (torn_plan, {Anomaly.TORN_TRANSACTION, Anomaly.HALF_BATCH}),
    "duplicate": (duplicate, {Anomaly.DUPLICATE}),
    "two records at an offset": (two_records_at_an_offset, {Anomaly.INCONSISTENT_OFFSET}),
    "wrong receipt": (wrong_receipt, {Anomaly.INCONSISTENT_OFFSET}),
    "poll skip": (poll_skip, {Anomaly.POLL_SKIP}),
    "non-monotonic poll": (non_monotonic, {Anomaly.NON_MONOTONIC_POLL}),
    "LSO regress": (lso_regress, {Anomaly.LSO_REGRESS}),
    "LSO passes undecided": (lso_passes, {Anomaly.LSO_PASSES_UNDECIDED}),
    "order": (order, {Anomaly.ORDER}),
    "group offsets": (group_offsets, {Anomaly.GROUP_OFFSETS}),
    "foreign group offset": (foreign_group_offset, {Anomaly.GROUP_OFFSETS}),
}
"""Each plant, and what is found of it: one of these, maybe beside others."""


# Looking around -------------------------------------------------------------------------------------------------------


def changed(history: History, at: int, event: Event) -> History:
    return [*history[:at], event, *history[at + 1 :]]


def last(history: History, is_wanted: Callable[[Event], bool]) -> int:
    return max(at for at, event in enumerate(history) if is_wanted(event))


def numbers(*calls: Write) -> set[int]:
    return {number for call in calls for first, count in call.runs for number in range(first, first + count)}


def runs_read(history: History) -> Iterator[tuple[int, int, PlacedRun]]:
    """The event, the piece and the run of all that committed readers were given."""
    for at, event in enumerate(history):
        if isinstance(event.answer, Polled) and is_committed_reader(history, event):
            for which, piece in enumerate(event.answer.pieces):
                for run in piece.runs:
                    yield at, which, run


def poll_of(history: History, done: Event) -> Poll:
    made = next(event for event in history if event.name == done.name)
    assert isinstance(made.call, Poll)
    return made.call


def is_committed_reader(history: History, done: Event) -> bool:
    return poll_of(history, done).isolation == "read_committed"


def is_final(history: History, done: Event) -> bool:
    return poll_of(history, done).is_final


def numbers_read(history: History) -> set[int]:
    return {number for _, _, run in runs_read(history) for number in range(run[1], run[1] + run[2])}


def is_in_log(history: History, call: Write) -> bool:
    return numbers(call) <= numbers_read(history)


def is_commit(history: History, event: Event) -> bool:
    return isinstance(event.call, End) and event.call.ending == Ending.COMMIT


def is_told(history: History, event: Event) -> bool:
    return any(one.kind is Kind.OK for one in history if one.name == event.name)


def is_read(history: History, end: Event) -> bool:
    """Whether readers were given the records of the transaction that is ended here."""
    assert isinstance(end.call, End)
    name = end.call.transaction
    wrote = [event.call for event in history if isinstance(event.call, Write) and event.call.transaction == name]
    return bool(wrote) and all(is_in_log(history, call) for call in wrote)


def is_surely_committed(history: History, event: Event) -> bool:
    name = getattr(event.call, "transaction", None)
    return any(
        isinstance(end.call, End) and end.call.transaction == name and is_commit(history, end) and is_told(history, end)
        for end in history
    )


def is_open_at(history: History, event: Event, at: int) -> bool:
    """Whether an event is a write of a transaction that is committed after a place of the history, and only then."""
    if not (isinstance(event.call, Write) and event.call.transaction and is_in_log(history, event.call)):
        return False
    name = event.call.transaction
    ends = [here for here, end in enumerate(history) if isinstance(end.call, End) and end.call.transaction == name]
    return all(here > at for here in ends)


def owners_of(history: History, piece: Piece) -> set[str | None]:
    held = {number for run in piece.runs for number in range(run[1], run[1] + run[2])}
    return {
        event.call.transaction
        for event in history
        if isinstance(event.call, Write) and event.call.transaction and numbers(event.call) & held
    }


def without_numbers(history: History, gone: set[int]) -> History:
    """The same history, of a log that does not hold some records."""

    def keep(run: PlacedRun) -> list[PlacedRun]:
        return [(run[0] + at, run[1] + at, 1) for at in range(run[2]) if run[1] + at not in gone]

    return [
        replace(
            event,
            answer=replace(
                event.answer,
                pieces=[
                    replace(piece, runs=[one for run in piece.runs for one in keep(run)])
                    for piece in event.answer.pieces
                ],
            ),
        )
        if isinstance(event.answer, Polled)
        else event
        for event in history
    ]


def change_run(
    history: History,
    chance: random.Random,
    change: Callable[[PlacedRun], list[PlacedRun]],
    *,
    is_chosen: Callable[[Event, PlacedRun], bool] = lambda _event, _run: True,
) -> History | None:
    """Change one run that somebody but the final reader was given."""
    places = [
        place
        for place in runs_read(history)
        if not is_final(history, history[place[0]]) and is_chosen(history[place[0]], place[2])
    ]
    if not places:
        return None
    at, which, run = chance.choice(places)
    return changed(history, at, with_run(history[at], which, run, change(run)))


def with_run(event: Event, which: int, run: PlacedRun, instead: list[PlacedRun]) -> Event:
    assert isinstance(event.answer, Polled)
    pieces = list(event.answer.pieces)
    runs = [new for one in pieces[which].runs for new in (instead if one == run else [one])]
    pieces[which] = replace(pieces[which], runs=runs)
    return replace(event, answer=replace(event.answer, pieces=pieces))
