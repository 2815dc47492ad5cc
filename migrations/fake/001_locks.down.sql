DROP {lock};
