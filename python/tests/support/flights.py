"""What `make run` could have found: oncelog exact, and its peer with every fault there is."""

from __future__ import annotations

from flights import page
from flights.audit import Findings, Result
from flights.kills import KILLS
from flights.story import HalfBatch, KillStory, Sample, Sighting, Story

EXACT = Findings(expected=72_914, found=72_914, lost=0, duplicated=0, out_of_order=0, wrong=0, half_batches=0)
FAULTY = Findings(
    expected=72_914,
    found=72_900,
    lost=14,
    duplicated=4_321,
    out_of_order=3,
    wrong=2,
    half_batches=1,
    duplicated_by_batch={2: 4_000, 99: 321},
)


def story(name: str) -> Story:
    kills = tuple(
        KillStory(kill.moment, at_s=10.0 * number, batch=number, back_s=2.0, recovered_s=5.5)
        for number, kill in enumerate(KILLS, start=1)
    )
    return Story(
        pipeline=name,
        duration_s=90.0,
        transactions=40,
        aborted=8,
        looks=900,
        kills=kills,
        samples=tuple(Sample(float(second), second * 110, second * 100, second * 90) for second in range(0, 90, 3)),
        sightings=(Sighting(3.0, 0, 500), Sighting(20.0, 2, 250), Sighting(30.0, 2, 500, copies=250)),
        half_batches=(HalfBatch(20.0, 2, 250, 500),),
    )


def render(ours: Findings = EXACT, theirs: Findings = FAULTY) -> str:
    return page.render(336_776, [Result(story("oncelog"), ours), Result(story("parquet"), theirs)], {"the run": 90.0})
