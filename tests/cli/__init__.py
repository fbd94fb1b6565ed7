"""The commands of people and operators, run as they run them."""
