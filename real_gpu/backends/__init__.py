"""How one execution is captured and replayed: eager, full, breakable, tc_piecewise."""
