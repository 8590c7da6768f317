"""Experiments as data: arms x environments x seeds, and what they are to show."""
