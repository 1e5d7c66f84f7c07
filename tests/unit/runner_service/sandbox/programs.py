"""Programs as agents write them: they leave something behind, in every way there is."""

LEAVES_CHILDREN = """
(trap '' TERM HUP INT; exec sleep 3217.{mark}) &
setsid sh -c "trap '' TERM HUP; sleep 3217.{mark} & exec sleep 3217.{mark}" &
(setsid sh -c '(sleep 3217.{mark} &) ; sleep 3217.{mark}' &)
sleep 0.2
echo ready
"""
"""Five sleepers: in the group, in sessions of their own, orphaned twice; some of them deaf to signals."""

ENDS = LEAVES_CHILDREN + "\nread line\n"
"""The same, and ends once it is told something."""

WAITS = LEAVES_CHILDREN + "\ncat > /dev/null; sleep 3217.{mark}\n"
"""The same, and does not end by itself."""
