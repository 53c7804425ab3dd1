"""Flag tables from the engines' own packages: the source is parsed, never imported or run."""
