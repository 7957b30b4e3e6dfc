//! The whole story of an experiment: predict, simulate, apply, drive, measure, compare.
