"""Drivers: what carries out the steps that the core asks for."""
