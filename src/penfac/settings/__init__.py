"""Settings of an algorithm: how they are declared, parsed and preset."""
