//! From a text to a description, with everything that is wrong on the way.
//!
//! A text becomes a tree with places ([`tree`]), the tree is held against the JSON Schema of a
//! description ([`shape`]), and what has the right shape is checked for sense
//! ([`crate::validation`]). Each step goes on after a problem, so that one reading finds all of
//! them; what is wrong in shape is cut out, and nothing more is said about it.

mod format;
mod fragment;
mod load;
mod place;
mod shape;
mod shape_words;
mod syntax;
mod tree;
mod varied_key;

pub use format::DescriptionFormat;
pub use fragment::Extended;
pub(crate) use load::LONGEST_TEXT;
pub use load::{Checked, LoadError, LoadedDescription, check, parse};
pub use place::KeyPath;
pub(crate) use shape_words::nearest;
pub(crate) use tree::Tree;
pub use varied_key::{MissingKey, find_varied_key};
