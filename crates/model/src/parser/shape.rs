//! Holds a document against the JSON Schema of a description.
//!
//! The schema comes from the types themselves, so there is one place that says which keys there
//! are, which of them are needed, and what they take.

use serde_json::{Map, Value as Json, json};
use tailbound_time::{Duration, Rate};

use super::place::KeyPath;
use super::shape_words::{did_you_mean, expected, list, nearest, purpose, words};
use super::tree::{Key, SpannedValue, TomlValue, shortened};
use crate::isolation::MemorySize;
use crate::schema::{NameSchema, check_name};

/// Something wrong with a document's shape.
#[derive(Clone, Debug)]
pub(crate) struct ShapeError {
    /// Where; its place is cut out of what is checked further.
    pub place: KeyPath,
    /// The bytes it is about.
    pub span: std::ops::Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

/// The document as JSON of the schema's shape, without what is wrong; `None` if nothing of it
/// can be kept. Adds what is wrong to `errors`.
pub(crate) fn shaped(
    root: &SpannedValue,
    schema: &Json,
    errors: &mut Vec<ShapeError>,
) -> Option<Json> {
    let mut reader = ShapeReader { schema, errors };
    reader.read(root, schema, &KeyPath::root())
}

struct ShapeReader<'a> {
    schema: &'a Json,
    errors: &'a mut Vec<ShapeError>,
}

impl<'a> ShapeReader<'a> {
    fn fail(&mut self, place: &KeyPath, node: &SpannedValue, message: String, remedy: String) {
        self.errors.push(ShapeError {
            place: place.clone(),
            span: node.span.clone(),
            message,
            remedy,
        });
    }

    /// Follows a reference into `$defs`; gives the name of the type and its schema.
    fn resolve(&self, schema: &'a Json) -> (Option<&'a str>, &'a Json) {
        let name = schema["$ref"]
            .as_str()
            .and_then(|r| r.strip_prefix("#/$defs/"));
        match name {
            Some(name) => (Some(name), &self.schema["$defs"][name]),
            None => (None, schema),
        }
    }

    fn read(&mut self, node: &SpannedValue, schema: &'a Json, place: &KeyPath) -> Option<Json> {
        let (name, schema) = self.resolve(schema);
        let outcome = match name {
            Some("Duration") => self.text_of(node, place, |text| text.parse::<Duration>()),
            Some("MemorySize") => self.text_of(node, place, |text| text.parse::<MemorySize>()),
            Some("Rate") => self.text_of(node, place, |text| text.parse::<Rate>()),
            Some(NameSchema::TYPE) => return self.name(node, schema, place),
            _ => None,
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let words = words(choices);
            if !words.is_empty() {
                return self.one_word(node, &words, place);
            }
            return self.tagged(node, choices, place);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            return self.one_table(node, choices, place);
        }
        match (schema["type"].as_str(), &node.value) {
            (Some("object"), TomlValue::Table(entries)) => self.table(entries, node, schema, place),
            (Some("array"), TomlValue::Array(elements)) => {
                self.array(elements, node, schema, place)
            }
            (Some("string"), TomlValue::Text(text)) => Some(json!(text)),
            (Some("boolean"), TomlValue::Boolean(value)) => Some(json!(value)),
            (Some("integer"), TomlValue::Integer(number)) => {
                self.integer(node, schema, place, *number)
            }
            (Some("number"), TomlValue::Integer(number)) => {
                self.number(node, schema, place, *number as f64)
            }
            (Some("number"), TomlValue::Float(text)) => {
                let number = text.replace('_', "").parse().unwrap_or(f64::NAN);
                self.number(node, schema, place, number)
            }
            (_, value) => {
                let message = format!("expected {}, found {}", expected(schema), value.in_words());
                self.fail(place, node, message, hint(schema, value));
                None
            }
        }
    }

    /// A text with a parser of its own; the parser's error says what is wrong; what is right.
    fn text_of<T, E: std::fmt::Display>(
        &mut self,
        node: &SpannedValue,
        place: &KeyPath,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Option<Json>> {
        let text = match &node.value {
            TomlValue::Text(text) => text.clone(),
            TomlValue::Integer(number) => number.to_string(),
            TomlValue::Float(text) => text.clone(),
            other => {
                let message = format!("expected a string, found {}", other.in_words());
                let remedy = parse("")
                    .err()
                    .map(|error| error.to_string())
                    .unwrap_or_default();
                let remedy = remedy.split_once("; ").map_or("", |(_, remedy)| remedy);
                self.fail(place, node, message, remedy.into());
                return Some(None);
            }
        };
        let error = match (parse(&text), &node.value) {
            (Ok(_), TomlValue::Text(_)) => return Some(Some(json!(text))),
            (Ok(_), other) => format!("{} is no string; write it in quotes", other.in_words()),
            (Err(error), _) => error.to_string(),
        };
        let (message, remedy) = error.split_once("; ").unwrap_or((&error, ""));
        self.fail(place, node, message.into(), remedy.into());
        Some(None)
    }

    fn name(&mut self, node: &SpannedValue, schema: &Json, place: &KeyPath) -> Option<Json> {
        let TomlValue::Text(text) = &node.value else {
            let shown = node.value.in_words();
            self.fail(
                place,
                node,
                format!("expected a name, found {shown}"),
                hint(schema, &node.value),
            );
            return None;
        };
        match check_name(text) {
            Ok(()) => Some(json!(text)),
            Err(error) => {
                self.fail(place, node, error.message, error.remedy);
                None
            }
        }
    }

    fn number(
        &mut self,
        node: &SpannedValue,
        schema: &Json,
        place: &KeyPath,
        number: f64,
    ) -> Option<Json> {
        const RULES: [&str; 4] = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
        let broken = |rule: &&str| {
            schema[*rule].as_f64().is_some_and(|bound| match *rule {
                "minimum" => number < bound,
                "exclusiveMinimum" => number <= bound,
                "maximum" => number > bound,
                _ => number >= bound,
            })
        };
        match RULES.into_iter().find(broken) {
            Some(rule) => self.out_of_range(node, schema, place, rule),
            None if number.is_finite() => Some(json!(number)),
            None => self.out_of_range(node, schema, place, "finite"),
        }
    }

    fn integer(
        &mut self,
        node: &SpannedValue,
        schema: &Json,
        place: &KeyPath,
        number: i128,
    ) -> Option<Json> {
        let least = schema["minimum"].as_i64().map_or(0, i128::from);
        let most = schema["maximum"]
            .as_i64()
            .map_or(i128::from(i64::MAX), i128::from);
        match u64::try_from(number) {
            Ok(exact) if (least..=most).contains(&number) => Some(json!(exact)),
            _ if number < least => self.out_of_range(node, schema, place, "minimum"),
            _ => self.out_of_range(node, schema, place, "maximum"),
        }
    }

    /// Complains of a number by the rule of the schema that it breaks.
    fn out_of_range(
        &mut self,
        node: &SpannedValue,
        schema: &Json,
        place: &KeyPath,
        rule: &str,
    ) -> Option<Json> {
        let least = &schema["minimum"];
        let limit = match rule {
            _ if least.is_number() && *least == schema["maximum"] => {
                format!("{least}: {}", purpose(schema))
            }
            "minimum" => format!("at least {}", schema["minimum"]),
            "exclusiveMinimum" => format!("above {}", schema["exclusiveMinimum"]),
            "maximum" => format!("at most {}", schema["maximum"]),
            "exclusiveMaximum" => format!("below {}", schema["exclusiveMaximum"]),
            _ => "finite".to_owned(),
        };
        let message = format!("{} is out of range", node.value.in_words());
        self.fail(place, node, message, format!("it must be {limit}"));
        None
    }

    fn one_word(&mut self, node: &SpannedValue, words: &[&str], place: &KeyPath) -> Option<Json> {
        let choice = format!("one of: {}", list(words));
        let TomlValue::Text(text) = &node.value else {
            let message = format!("expected a string, found {}", node.value.in_words());
            self.fail(place, node, message, choice);
            return None;
        };
        if words.contains(&text.as_str()) {
            return Some(json!(text));
        }
        let remedy = match nearest(text, words) {
            Some(meant) => format!("did you mean `{meant}`? ({choice})"),
            None => choice,
        };
        self.fail(
            place,
            node,
            format!("unknown value {:?}", shortened(text)),
            remedy,
        );
        None
    }

    /// A table whose key `kind` tells which keys it has.
    fn tagged(
        &mut self,
        node: &SpannedValue,
        choices: &'a [Json],
        place: &KeyPath,
    ) -> Option<Json> {
        let kind_of = |choice: &'a Json| choice["properties"]["kind"]["const"].as_str();
        let kinds: Vec<&str> = choices.iter().filter_map(kind_of).collect();
        let TomlValue::Table(entries) = &node.value else {
            let message = format!("expected a table, found {}", node.value.in_words());
            let remedy = format!(
                "write {{ kind = \"...\", ... }} with one of: {}",
                list(&kinds)
            );
            self.fail(place, node, message, remedy);
            return None;
        };
        let Some(kind) = node.entry("kind") else {
            let message = "the key `kind` is missing".to_owned();
            self.fail(
                place,
                node,
                message,
                format!("add `kind`, one of: {}", list(&kinds)),
            );
            return None;
        };
        let word = match &kind.value {
            TomlValue::Text(text) => text.as_str(),
            _ => "",
        };
        match choices.iter().find(|choice| kind_of(choice) == Some(word)) {
            Some(choice) => self.table(entries, node, choice, place),
            None => self.one_word(kind, &kinds, &place.key("kind")).and(None),
        }
    }

    /// A table of one of several sorts, told by the key that only one of them has.
    fn one_table(
        &mut self,
        node: &SpannedValue,
        choices: &'a [Json],
        place: &KeyPath,
    ) -> Option<Json> {
        let TomlValue::Table(entries) = &node.value else {
            let message = format!("expected a table, found {}", node.value.in_words());
            self.fail(place, node, message, one_of_keys(choices));
            return None;
        };
        let has = |choice: &Json| needed(choice).iter().any(|key| node.entry(key).is_some());
        let fitting: Vec<&Json> = choices.iter().filter(|choice| has(choice)).collect();
        match fitting.as_slice() {
            [choice] => self.table(entries, node, choice, place),
            [] => {
                let message = "the table is of no known sort".to_owned();
                self.fail(place, node, message, one_of_keys(choices));
                None
            }
            _ => {
                let message = "the table is of two sorts at once".to_owned();
                self.fail(place, node, message, one_of_keys(choices));
                None
            }
        }
    }

    fn table(
        &mut self,
        entries: &[(Key, SpannedValue)],
        node: &SpannedValue,
        schema: &'a Json,
        place: &KeyPath,
    ) -> Option<Json> {
        let mut kept = Map::new();
        let mut whole = true;
        let needed = needed(schema);
        for (key, value) in entries {
            let here = place.key(&key.name);
            let property = &schema["properties"][&key.name];
            let rest = &schema["additionalProperties"];
            let read = if property.is_object() {
                self.read(value, property, &here)
            } else if rest.is_object() {
                let named = self.key_is_a_name(key, schema, &here);
                self.read(value, rest, &here).filter(|_| named)
            } else {
                self.unknown_key(key, schema, &here);
                None
            };
            match read {
                Some(json) => {
                    kept.insert(key.name.clone(), json);
                }
                None => whole &= !needed.contains(&key.name.as_str()),
            }
        }
        for name in needed {
            if entries.iter().all(|(key, _)| key.name != name) {
                let message = format!("the key `{name}` is missing");
                let remedy = format!("add `{name}`: {}", self.use_of(&schema["properties"][name]));
                self.fail(&place.key(name), node, message, remedy);
                whole = false;
            }
        }
        whole.then_some(Json::Object(kept))
    }

    /// What a key is for, and the words it takes if they are few.
    fn use_of(&self, schema: &'a Json) -> String {
        let (_, resolved) = self.resolve(schema);
        let words = resolved["oneOf"].as_array().map(|choices| words(choices));
        match words {
            Some(words) if !words.is_empty() => {
                format!("{} (one of: {})", purpose(schema), list(&words))
            }
            _ => purpose(schema),
        }
    }

    fn key_is_a_name(&mut self, key: &Key, schema: &Json, here: &KeyPath) -> bool {
        if schema["propertyNames"].is_null() {
            return true;
        }
        let Err(error) = check_name(&key.name) else {
            return true;
        };
        self.errors.push(ShapeError {
            place: here.clone(),
            span: key.span.clone(),
            message: error.message,
            remedy: error.remedy,
        });
        false
    }

    fn unknown_key(&mut self, key: &Key, schema: &Json, here: &KeyPath) {
        let properties: Vec<&str> = match schema["properties"].as_object() {
            Some(properties) => properties.keys().map(String::as_str).collect(),
            None => Vec::new(),
        };
        self.errors.push(ShapeError {
            place: here.clone(),
            span: key.span.clone(),
            message: format!("unknown key `{}`", shortened(&key.name)),
            remedy: did_you_mean(&key.name, &properties),
        });
    }

    fn array(
        &mut self,
        elements: &[SpannedValue],
        node: &SpannedValue,
        schema: &'a Json,
        place: &KeyPath,
    ) -> Option<Json> {
        let count = elements.len() as u64;
        let least = schema["minItems"].as_u64();
        let most = schema["maxItems"].as_u64();
        let remedy = match (least, most) {
            (Some(least), _) if count < least => format!("put in at least {least}"),
            (_, Some(most)) if count > most => format!("put in at most {most}"),
            _ => String::new(),
        };
        if !remedy.is_empty() {
            let message = match count {
                0 => "the array is empty".to_owned(),
                1 => "the array has one element".to_owned(),
                _ => format!("the array has {count} elements"),
            };
            self.fail(place, node, message, remedy);
            return None;
        }
        let mut kept = Vec::new();
        let mut whole = true;
        for (index, element) in elements.iter().enumerate() {
            let here = place.index(index);
            match self.read(element, &schema["items"], &here) {
                Some(json) if schema["uniqueItems"] == true && kept.contains(&json) => {
                    let message = format!("{} is there twice", element.value.in_words());
                    self.fail(&here, element, message, "name each of them once".into());
                }
                Some(json) => kept.push(json),
                None => whole = false,
            }
        }
        // An array with holes would shift the places of what comes after them.
        whole.then_some(Json::Array(kept))
    }
}

fn needed(schema: &Json) -> Vec<&str> {
    match schema["required"].as_array() {
        Some(keys) => keys.iter().filter_map(Json::as_str).collect(),
        None => Vec::new(),
    }
}

fn one_of_keys(choices: &[Json]) -> String {
    let sorts: Vec<String> = choices
        .iter()
        .map(|choice| format!("`{}` for {}", list(&needed(choice)), purpose(choice)))
        .collect();
    format!("give exactly one of {}", sorts.join(", or "))
}

fn hint(schema: &Json, value: &TomlValue) -> String {
    match (schema["type"].as_str(), value) {
        (Some("array"), TomlValue::Text(_) | TomlValue::Integer(_)) => {
            "write it in brackets: [...]".to_owned()
        }
        (Some("object"), _) => "write it as a table: { ... }".to_owned(),
        (Some("string"), TomlValue::Integer(_) | TomlValue::Float(_)) => {
            "write it in quotes: \"...\"".to_owned()
        }
        (Some("integer" | "number" | "boolean"), TomlValue::Text(_)) => {
            "write it without quotes".to_owned()
        }
        _ => match purpose(schema) {
            what if what.is_empty() => format!("write {}", expected(schema)),
            what => format!("it is for {what}"),
        },
    }
}
