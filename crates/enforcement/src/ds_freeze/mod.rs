//! `ds-freeze`: a deferrable server for whole process groups, in user space.
