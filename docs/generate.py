"""Generates the parts of the docs that the code knows: the option tables and the state diagram.

python docs/generate.py            writes them
python docs/generate.py --check    fails if they are not up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from oncelog.protocol.txn_state import state_diagram
from oncelog.spark.option_table import SINKS, SOURCE, render_markdown_table

DOCS = Path(__file__).parent


def options_page() -> str:
    """The page of all options."""
    return f"""# Options

Generated from `python/oncelog/spark/option_table.py` by `make docs`. Names match in any case; an unknown one is an
error that suggests the nearest.

## Source
`spark.readStream.format("oncelog")` and `spark.read.format("oncelog")`

{render_markdown_table(SOURCE)}
## Sinks
`foreachBatch(oncelog.spark.sink(...))`, `writeStream.format("oncelog")` and `df.write.format("oncelog")`

{render_markdown_table(SINKS)}"""


def with_generated(page: str, name: str, text: str) -> str:
    """`page` with `text` between the marks of the generated part `name`."""
    marks = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- /generated -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{text.rstrip()}\n{found[2]}", page)


def pages() -> dict[Path, str]:
    """Every page with generated parts, as it should be."""
    protocol = DOCS / "protocol.md"
    diagram = f"```mermaid\n{state_diagram().strip()}\n```"
    return {
        DOCS / "options.md": options_page(),
        protocol: with_generated(protocol.read_text(), "states", diagram),
    }


def main() -> int:
    """Write the pages, or compare them."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        print("\n".join(f"{path.name} is not up to date: run `make docs`" for path in stale))
        return 1 if stale else 0
    for path, text in pages().items():
        path.write_text(text)
    print(f"wrote {', '.join(path.name for path in pages())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
