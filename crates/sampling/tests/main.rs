//! The table `[sampling]`, each check by a file with its expected problems, and whole adaptive campaigns.

#![allow(clippy::unwrap_used)]

mod adaptive_campaigns;
mod sampled_application;
mod table_files;
