//! Messages of topics: their [header](Header), the [qualities](Quality) of their delivery, and the [contracts](Contract)
//! of their publishers.
//!
//! The description, the analysis, the simulation and the library for programs share these types, so that a contract
//! that is enforced is the one that was analysed. Nothing here sends, waits or reads a clock.

mod circle;
mod contract;
mod header;
mod quality;

pub use circle::circle;
pub use contract::{Contract, Violation};
pub use header::{HEADER_LENGTH, Header, HeaderError, MessageKind};
pub use quality::{Liveliness, Quality, Reliability};
