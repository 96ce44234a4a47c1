"""Containment: what a call may touch on this machine, enforced by the operating system."""
