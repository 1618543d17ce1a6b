"""Side-by-side measurements; never part of CI."""
