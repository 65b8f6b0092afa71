"""The command ``oncelog``, which administers a log from a shell. docs/reference/cli.md describes it for users.

Each command group has a file. All of them share `shell` (settings, exit codes, errors) and `output` (tables, JSON,
progress). Commands contain no logic: they open the log, call its admin client, and show the result.
"""

from __future__ import annotations

from oncelog.cli import (
    batch,
    checkpoint,
    completion,
    consume,
    doctor,
    exporter,
    gc,
    group,
    jars,
    log,
    meta,
    produce,
    tail,
    topic,
    txn,
    ui,
)
from oncelog.cli.shell import root

main = root
"""The entry point, also of ``python -m oncelog``."""

for _command in (
    topic.topic,
    txn.txn,
    group.group,
    log.log,
    batch.batch,
    checkpoint.checkpoint,
    meta.meta,
    gc.gc,
    jars.jars,
    produce.produce,
    consume.consume,
    doctor.doctor,
    exporter.exporter,
    ui.ui,
    completion.completion,
):
    main.add_command(_command)
log.log.add_command(tail.tail)
