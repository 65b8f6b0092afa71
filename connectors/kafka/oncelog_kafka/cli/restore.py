"""``oncelog kafka txn restore``: writes rows again that a repair saved."""

from __future__ import annotations

from contextlib import ExitStack, closing

import click

from oncelog.cli.output import plural, printable, show, show_json
from oncelog.cli.shell import Settings
from oncelog.folders import absolute
from oncelog_kafka.brokers import KafkaProducers, KafkaRequests, KafkaTransactions
from oncelog_kafka.cli.cluster_options import ClusterCommand, cluster, python_driver
from oncelog_kafka.operations import saved_rows
from oncelog_kafka.operations.restore import Restored, Restoring


@click.command(
    cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 txn restore /data/saved/flights-0-17-4.2.avro"
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--accept-duplicates",
    is_flag=True,
    help="Confirm that rows of which brokers do not remember enough were dropped, and not restored yet.",
)
@click.pass_obj
def restore(settings: Settings, files: tuple[str, ...], accept_duplicates: bool) -> None:
    """Write rows again that a repair saved before it dropped them.

    They are appended to their partition, in one transaction for each file. A file is restored once: run it again if it
    was killed or failed, and what is there already is not written again. It needs the rights Write and Read on the
    topic, Write on transactional ids and Read on groups that begin with oncelog-restore-.
    """
    found = [saved_rows.load(absolute(file)) for file in files]
    client = python_driver("give its own settings, as in --config admin.sasl_mechanism=...")
    done: list[Restored] = []
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster())
        producers = stack.enter_context(closing(KafkaProducers(client)))
        requests = stack.enter_context(closing(KafkaRequests(client)))
        restoring = Restoring(producers, brokers, KafkaTransactions(requests), accept_duplicates=accept_duplicates)
        for saved in found:
            done.append(restoring.restore(saved))
            if not settings.as_json:
                _show(done[-1])
    if settings.as_json:
        show_json({"restored": done})


def _show(one: Restored) -> None:
    place = printable(f"{one.topic}-{one.partition}")
    where = "" if one.first_offset is None else f" from offset {one.first_offset} to {one.last_offset}"
    what = "restored" if one.is_ours else "were restored before"
    show(f"{place}: {plural(one.rows, 'row')} of {printable(one.file)} {what}{where}")
