"""The machine that breaks things: real processes, a crowd of viewers, and faults by a seed.

`make chaos SEED=7 MINUTES=5` prints a table; everything below its line must be 0, else the exit
status is 1 and a trace says what happened when. A seed gives the same faults at the same times;
what they hit differs from run to run, so a seed that found something is run several times.
"""
