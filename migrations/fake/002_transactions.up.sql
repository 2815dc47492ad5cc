-- Registers are built in like all else, and there from this version on.
CREATE {row} {register};
