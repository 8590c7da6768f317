"""The robots as Bullet saw them: geometry, mass, centre of mass, inertia, limits, motors.

Bullet read its models with rules of its own (density 1000 everywhere, the inertia of a
bounding box, the centre of mass of a link's last geom), so the mass figures are written
down, not derived. Lengths in m, masses in kg, inertias in kg m^2 along the body's axes.
"""
