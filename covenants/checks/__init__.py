"""The checks, one group a file. Each looks at a `Scope` and notes what it finds in its document."""
