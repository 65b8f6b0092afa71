"""The checks of `oncelog doctor`: of the installation (`software`), and of a log and its place (`place`).

A check only reads and measures. It must not repair anything, nor write into a log.
"""
