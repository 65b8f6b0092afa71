"""Figures of Kafka's sink in the docs: those that a page repeats are the ones that were measured, or are counted."""

from __future__ import annotations

from simulation.kafka.scenes import SCENES
from tests.support.docs.figures import CONCEPTS, SPELLED, guarantees, number, rows


def test_the_faults_of_the_scenes_are_the_sum_of_their_table() -> None:
    table = [cells for cells in rows(CONCEPTS / "kafka-simulation.md") if len(cells) == 3][2:]
    played = {scene: number(count) for scene, count, _ in table}
    together = played.pop("together")

    assert len(played) == len(SCENES)
    assert together == sum(played.values())
    assert (
        f"a fault at every call of {SPELLED[len(SCENES)]} scenes of the Kafka sink (`make sim`) | {together:,} runs"
        in guarantees()
    )
