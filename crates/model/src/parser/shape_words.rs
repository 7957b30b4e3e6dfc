//! The words of problems with a file's shape: what was probably meant, and what a key is for.

use serde_json::Value as Json;

/// Words of other tools for keys of ours.
const SYNONYMS: [(&str, &str); 21] = [
    ("affinity", "cpus"),
    ("arrival", "arrivals"),
    ("burst", "budget"),
    ("container", "cgroup"),
    ("cores", "cpus"),
    ("cost", "execution_time"),
    ("cpuset", "cpus"),
    ("exec", "command"),
    ("exec_time", "execution_time"),
    ("execution", "execution_time"),
    ("interval", "period"),
    ("machine", "host"),
    ("machines", "hosts"),
    ("node", "host"),
    ("nodes", "hosts"),
    ("policy", "scheduling"),
    ("prio", "priority"),
    ("quota", "budget"),
    ("runtime", "budget"),
    ("slo", "slos"),
    ("wcet", "execution_time"),
];

/// The one of `known` that `word` was probably meant to be.
pub(crate) fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let lower = word.to_ascii_lowercase().replace(' ', "_");
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == lower);
    if let Some((_, ours)) = synonym
        && let Some(name) = names.iter().find(|name| *name == ours)
    {
        return Some(name);
    }
    if lower.chars().count() > 80 {
        return None;
    }
    let allowed = match lower.chars().count() {
        0..=2 => 1,
        3..=6 => 2,
        _ => 3,
    };
    names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, name), *name))
        .filter(|(distance, name)| *distance <= allowed && *distance < name.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The advice for a key that is none of `known`.
pub(crate) fn did_you_mean(word: &str, names: &[&str]) -> String {
    match nearest(word, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known here: {}", list(names)),
    }
}

/// The words that a schema lets one choose from; none if it is of another sort.
pub(crate) fn words(choices: &[Json]) -> Vec<&str> {
    choices
        .iter()
        .filter_map(|choice| choice["const"].as_str())
        .collect()
}

/// The words with commas between them.
pub(crate) fn list(words: &[&str]) -> String {
    match words {
        [] => "nothing".into(),
        words => words.join(", "),
    }
}

/// What a key takes, for "expected ...".
pub(crate) fn expected(schema: &Json) -> &'static str {
    match schema["type"].as_str() {
        Some("object") => "a table",
        Some("array") => "an array",
        Some("string") => "a string",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        _ => "something else",
    }
}

/// What a key is for, from its schema: the first clause, begun in lower case.
pub(crate) fn purpose(schema: &Json) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let text = text.replace('\n', " ");
    let sentence = text
        .split(". ")
        .next()
        .unwrap_or_default()
        .trim_end_matches('.');
    let mut chars = sentence.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first
            .to_lowercase()
            .chain(sentence.chars().skip(1))
            .collect(),
        _ => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_synonyms_but_does_not_guess() {
        let names = ["budget", "period", "priority", "cpus"];
        assert_eq!(nearest("budgte", &names), Some("budget"));
        assert_eq!(nearest("Period", &names), Some("period"));
        assert_eq!(nearest("runtime", &names), Some("budget"));
        assert_eq!(nearest("zebra", &names), None);
        assert_eq!(nearest("wcet", &names), None);
    }

    #[test]
    fn tells_what_a_key_is_for() {
        let schema = serde_json::json!({"description": "The machines, by name."});
        assert_eq!(purpose(&schema), "the machines, by name");
        let schema = serde_json::json!({"description": "CPU time. More."});
        assert_eq!(purpose(&schema), "CPU time");
    }
}
