"""The page of ``oncelog ui``: what stands still, because of whom, and the command that mends it. It only reads.

watching   reads what the exporter reads, at most once a second, and remembers the last minutes
troubles   what an operator must look at, with the command to copy
view       the tables of the page
app        serves them; the home of starlette and uvicorn
"""
