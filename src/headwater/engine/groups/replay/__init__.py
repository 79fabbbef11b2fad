"""Groups that keep their events and form windows from them anew at each step: what no slice can serve."""
