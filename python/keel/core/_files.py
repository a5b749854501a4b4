"""Loading, saving, and exported functions."""

__all__ = []
