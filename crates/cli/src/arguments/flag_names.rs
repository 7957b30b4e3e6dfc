//! A flag that says what a description says has the name of its key.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::Value;

use super::Arguments;

/// The schema of descriptions, which `tailbound schema` prints.
const SCHEMA: &str = include_str!("../../../../docs/reference/description.schema.json");

/// The verbs that answer about a system, described in a file or by flags.
const VERBS: [&str; 5] = ["predict", "size", "simulate", "analyze", "interface"];

/// Flags about nothing that a description says: the question, the search for its answer, and where the answer goes.
const OF_THE_QUESTION: [&str; 31] = [
    "all",
    "bandwidth",
    "batch",
    "calibration",
    "compose",
    "execution-time-histogram",
    "execution-time-samples",
    "export-csv",
    "export-distributions",
    "export-html",
    "export-json",
    "export-schedule",
    "frame",
    "frequency",
    "frequency-model",
    "grid",
    "limit",
    "measured-at",
    "model",
    "model-form",
    "most-windows",
    "no-history",
    "non-preemptive",
    "points",
    "probability",
    "program",
    "request-log",
    "stanza",
    "tests",
    "until",
    "vas",
];

/// Every key of the schema, spelled as a flag.
fn keys(schema: &Value, keys: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        keys.extend(properties.keys().map(|key| key.replace('_', "-")));
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|field| self::keys(field, keys)),
        Value::Array(items) => items.iter().for_each(|item| self::keys(item, keys)),
        _ => {}
    }
}

/// Names of flags before they had those of the keys; `policy` is a key, of something else.
const GONE: [&str; 4] = ["horizon", "margin", "policy", "service-samples"];

#[test]
fn flags_have_the_names_of_the_keys_that_mean_the_same() {
    let mut of_description = BTreeSet::new();
    keys(&serde_json::from_str(SCHEMA).unwrap(), &mut of_description);
    let command = Arguments::command();
    let verbs = VERBS.map(|verb| command.find_subcommand(verb).unwrap());
    let flags = verbs.iter().flat_map(|verb| verb.get_arguments());
    let names = flags.flat_map(|flag| flag.get_long_and_visible_aliases().unwrap_or_default());
    let names: BTreeSet<&str> = names.collect();
    // A flag names one of what a key lists, and lists what a key names.
    let is_key = |flag: &&str| {
        let singular = flag.strip_suffix('s').unwrap_or(flag);
        let spellings = [(*flag).to_owned(), format!("{flag}s"), singular.to_owned()];
        spellings.iter().any(|name| of_description.contains(name))
    };
    let others: Vec<&str> = names.iter().copied().filter(|flag| !is_key(flag)).collect();
    assert_eq!(
        others, OF_THE_QUESTION,
        "a flag takes the name of the key that means the same; the list is of those that no key means"
    );
    assert!(GONE.iter().all(|flag| !names.contains(flag)), "{names:?}");
}
