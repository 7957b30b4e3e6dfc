//! The seam of the description: tables that a subsystem adds at the top of the file.

use std::collections::BTreeMap;
use std::fmt::Debug;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::validation::Check;

/// `Section` is a table at the top of a description with a type and checks of its own. The crate that
/// implements `Section` may lie above this one; a [`SectionKind`] enters the section into a
/// [`DescriptionFormat`](crate::DescriptionFormat).
///
/// The schema of the type says which keys there are: reading refuses all others, with a suggestion, at
/// their lines. The doc comment of the type says in the schema and the reference what the table is for.
pub trait Section: Default + Serialize + DeserializeOwned + JsonSchema {
    /// The key at the top of the file.
    const KEY: &'static str;

    /// Holds the section against the rest of the description. A description without the table is checked, too.
    fn check(&self, check: &mut Check<'_>);
}

/// `SectionKind` is the line of a [`Section`] in the list of a format.
#[derive(Clone, Copy, Debug)]
pub struct SectionKind {
    pub(crate) key: &'static str,
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) read: fn(&Sections) -> serde_json::Result<()>,
    pub(crate) check: fn(&mut Check<'_>),
}

impl SectionKind {
    /// The line of `S`.
    pub const fn of<S: Section>() -> Self {
        Self {
            key: S::KEY,
            schema: SchemaGenerator::subschema_for::<S>,
            read: |sections| sections.read::<S>().map(drop),
            check: |check| check.description().section::<S>().check(check),
        }
    }
}

/// `Sections` are the tables of a description that its core does not know, by key. Crates that do not know them either
/// copy, compare and write them all the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sections(BTreeMap<String, Json>);

impl Sections {
    fn read<S: Section>(&self) -> serde_json::Result<S> {
        self.0
            .get(S::KEY)
            .map_or_else(|| Ok(S::default()), S::deserialize)
    }

    /// The section of this type; its default where the description has none.
    ///
    /// # Panics
    /// If the table was put in without reading it by a format that has the section.
    pub fn get<S: Section>(&self) -> S {
        let section = self.read();
        section.unwrap_or_else(|error| panic!("`{}` was not checked: {error}", S::KEY))
    }

    /// Puts a section in, in place of the one that is there.
    ///
    /// # Errors
    /// If the section's type cannot be written.
    pub fn set<S: Section>(&mut self, section: &S) -> serde_json::Result<()> {
        let mut table = serde_json::to_value(section)?;
        remove_nulls(&mut table);
        self.0.insert(S::KEY.to_owned(), table);
        Ok(())
    }

    /// Takes a section out, so that its default holds.
    pub fn remove<S: Section>(&mut self) {
        self.0.remove(S::KEY);
    }
}

/// TOML has no null: a key without a value is left out.
fn remove_nulls(value: &mut Json) {
    match value {
        Json::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Json::Array(elements) => elements.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
