"""The page of ``oncelog ui``: what is stuck, what is blocking it, and the command that fixes it. It only reads.

watching   reads what the exporter reads, at most once a second, and remembers the last minutes
troubles   what an operator must look at, with the command to copy
tables     tables with rows that unfold, cut and filtered
view       the page
drivers    what the metrics of running drivers say of their queries
app        serves them; the home of starlette and uvicorn
"""
