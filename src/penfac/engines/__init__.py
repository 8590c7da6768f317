"""An engine advances a group of learners by one update each and evaluates them.

`host.py` plays Gymnasium environments learner by learner; `device.py` compiles collecting
and learning of built-in environments into one program. The loop cannot tell them apart.
"""
