"""Stores: the contract, what makes one from a setting, and the stores of this package."""
