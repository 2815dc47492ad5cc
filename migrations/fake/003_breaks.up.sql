-- Notes of breaks are built in like all else, and there from this version on.
CREATE {broken};
