//! Cgroup v1 and v2 directories and control files.
