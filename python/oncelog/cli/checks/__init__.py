"""What `oncelog doctor` looks at: the installation (`software`), and a log with the place where it is (`place`).

A check reads, asks and measures; it repairs nothing, and writes nothing into a log.
"""
