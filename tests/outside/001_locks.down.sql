-- Tokens begin anew at the clock, so they rise as long as the clock does.
DROP TABLE {lock};

DROP TABLE {migration};

DROP TABLE {meta};
