//! The JSON Schema of a description.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::description::Description;
use crate::section::SectionKind;

/// The JSON Schema of a description file with these sections.
///
/// TOML has no null, so neither has the schema: what may be left out is not `required`.
pub(crate) fn json_schema<'a>(
    sections: impl Iterator<Item = &'a SectionKind>,
) -> serde_json::Value {
    let mut generator = SchemaGenerator::default();
    let sections: Vec<(&str, Schema)> = sections
        .map(|section| (section.key, (section.schema)(&mut generator)))
        .collect();
    let mut schema = generator.into_root_schema_for::<Description>().to_value();
    for (key, mut section) in sections {
        // A key says what it is for as the type does that stands below it.
        let type_name = section.as_value()["$ref"].as_str().unwrap_or_default();
        let type_name = type_name.trim_start_matches("#/$defs/");
        let purpose = schema["$defs"][type_name]["description"].clone();
        section.insert("description".into(), purpose);
        schema["properties"][key] = section.to_value();
    }
    as_in_toml(&mut schema);
    schema
}

/// Takes `null` out of types, choices and defaults, and bounds integers by what TOML holds.
fn as_in_toml(schema: &mut serde_json::Value) {
    use serde_json::Value as Json;
    match schema {
        Json::Object(members) => {
            if let Some(Json::Array(types)) = members.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    members.insert("type".into(), only);
                }
            }
            if let Some(Json::Array(choices)) = members.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Json::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    members.remove("anyOf");
                    members.extend(only);
                }
            }
            members.retain(|_, member| !member.is_null());
            let most = match members.get("format").and_then(Json::as_str) {
                Some("uint32") => Some(u64::from(u32::MAX)),
                Some("uint64") => Some(i64::MAX as u64),
                _ => None,
            };
            if let Some(most) = most {
                members.entry("maximum").or_insert(most.into());
            }
            members.values_mut().for_each(as_in_toml);
        }
        Json::Array(elements) => elements.iter_mut().for_each(as_in_toml),
        _ => {}
    }
}

/// Whether a key can be left out of a written description: its value is its default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A name of something in a description, in schemas; checked by [`check_name`].
pub(crate) struct NameSchema;

/// The longest name; cgroup names allow 255 bytes, and ours get prefixes.
const LONGEST_NAME: usize = 64;

impl NameSchema {
    /// The name of this type in schemas.
    pub const TYPE: &'static str = "Name";
}

impl JsonSchema for NameSchema {
    fn schema_name() -> Cow<'static, str> {
        Self::TYPE.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A name: small letters, digits, - and _, begun by a letter or digit; \
                            at most 64 characters.",
            "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$",
        })
    }
}

/// Why a text is no name.
pub(crate) struct NameProblem {
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

/// Whether `text` can name something; names become names of cgroups and files, so nothing else
/// may be in them.
pub(crate) fn check_name(text: &str) -> Result<(), NameProblem> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = text.len() <= LONGEST_NAME
        && text.bytes().next().is_some_and(plain)
        && text
            .bytes()
            .all(|byte| plain(byte) || byte == b'-' || byte == b'_');
    if good {
        return Ok(());
    }
    let suggestion = as_name(text);
    let example = match suggestion.is_empty() {
        true => String::new(),
        false => format!(", such as `{suggestion}`"),
    };
    let shown: String = text.chars().take(LONGEST_NAME + 1).collect();
    Err(NameProblem {
        message: format!("{shown:?} is not a name"),
        remedy: format!(
            "use small letters, digits, - and _, begun by a letter or digit, at most \
             {LONGEST_NAME}{example}"
        ),
    })
}

/// The name nearest to `text`; empty if nothing of it can stay.
pub(crate) fn as_name(text: &str) -> String {
    let changed: String = text
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' => c,
            _ => '-',
        })
        .collect();
    let trimmed = changed.trim_matches(['-', '_']);
    trimmed.chars().take(LONGEST_NAME).collect()
}
