//! The format of a description: what every description has, and the sections of subsystems.

use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::mode_changes::ModeChanges;
use crate::schema::json_schema;
use crate::section::SectionKind;

/// The sections whose types this crate has.
const CORE: [SectionKind; 1] = [SectionKind::of::<ModeChanges>()];

/// `DescriptionFormat` reads descriptions: the core of the format, and a list of sections of other crates.
#[derive(Debug)]
pub struct DescriptionFormat {
    sections: &'static [SectionKind],
    schema: OnceLock<Json>,
}

impl DescriptionFormat {
    /// The core of the format, with these sections.
    pub const fn with(sections: &'static [SectionKind]) -> Self {
        Self {
            sections,
            schema: OnceLock::new(),
        }
    }

    /// All sections, those of the core first.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &'static SectionKind> + use<> {
        CORE.iter().chain(self.sections)
    }

    /// The JSON Schema of a description file, for editors and other programs.
    pub fn schema(&self) -> &Json {
        self.schema.get_or_init(|| json_schema(self.sections()))
    }
}
