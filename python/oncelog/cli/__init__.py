"""The command ``oncelog``: looks after a log from a shell. docs/reference/cli.md describes it for its users.

One command group per file; what all of them share is in `shell` (settings, exit codes, errors) and `output` (tables,
JSON, progress). Nothing is decided here: a command opens the log, asks its admin client, and shows the answer.
"""

from __future__ import annotations

from oncelog.cli import batch, completion, consume, doctor, gc, group, jars, log, meta, produce, tail, topic, txn
from oncelog.cli.shell import root

main = root
"""The entry point, also of ``python -m oncelog``."""

for _command in (
    topic.topic,
    txn.txn,
    group.group,
    log.log,
    batch.batch,
    meta.meta,
    gc.gc,
    jars.jars,
    produce.produce,
    consume.consume,
    doctor.doctor,
    completion.completion,
):
    main.add_command(_command)
log.log.add_command(tail.tail)
