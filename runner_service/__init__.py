"""Harnesses, sessions and turns (UHP Tasks, Streaming, Sessions, Harnesses), and the memory seam of a turn
(Memories chapter, section 9).

A task is durable before it is answered, runs on whichever runner takes it, and is written event by
event to a log that any runner can replay. What a memory is and who may reach it is decided elsewhere.
"""
