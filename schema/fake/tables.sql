-- The fake database has its tables built in; a migration only marks that it was applied.
CREATE {lock} {meta} {migration};
