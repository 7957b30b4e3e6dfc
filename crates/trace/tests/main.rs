//! Integration tests of recordings and explanations.

mod scenario;
mod scenarios;
