"""The Roboschool tasks on MuJoCo: one definition of each, two engines under it."""
