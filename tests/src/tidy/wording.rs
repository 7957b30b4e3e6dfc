//! Phrases that no file of ours contains.

use super::Finding;

/// Forbidden phrases, in pieces so that this file passes its own check, each with a reason.
const FORBIDDEN: [(&[&str], &str); 10] = [
    (&["TO", "DO"], "finish it, or write down why it is as it is"),
    (
        &["FIX", "ME"],
        "finish it, or write down why it is as it is",
    ),
    (&["XX", "X"], "finish it, or write down why it is as it is"),
    (&["HA", "CK"], "finish it, or write down why it is as it is"),
    (
        &["/wo", "rk/main"],
        "a path of one machine; make it relative",
    ),
    (
        &["/wo", "rk/shared"],
        "a path of one machine; make it relative",
    ),
    (
        &["sta", "te-of-the-art"],
        "say what it does and show the number",
    ),
    (&["bla", "zing"], "say what it does and show the number"),
    (&["seam", "less"], "say what it does and show the number"),
    (
        &["industry-", "leading"],
        "say what it does and show the number",
    ),
];

/// Finds forbidden phrases. Marks in capitals count as whole words only.
pub fn forbidden_phrases(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (pieces, why) in FORBIDDEN {
            let phrase = pieces.concat();
            if contains(line, &phrase) {
                findings.push(Finding::new(
                    path,
                    number + 1,
                    format!("\"{phrase}\": {why}"),
                ));
            }
        }
    }
    findings
}

fn contains(line: &str, phrase: &str) -> bool {
    if !phrase.chars().all(|c| c.is_ascii_uppercase()) {
        return line.to_lowercase().contains(&phrase.to_lowercase());
    }
    line.match_indices(phrase).any(|(start, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..start].chars().next_back().is_some_and(is_word);
        let after = line[start + phrase.len()..]
            .chars()
            .next()
            .is_some_and(is_word);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_phrases_are_found() {
        for (pieces, _) in FORBIDDEN {
            let text = format!("fine\n// a {} b", pieces.concat());
            let findings = forbidden_phrases("a.rs", &text);
            assert_eq!(findings.len(), 1, "{pieces:?}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn marks_inside_words_pass() {
        let text = format!("METHO{}S and WATER{}S", FORBIDDEN[0].0.concat(), "MARK");
        assert_eq!(forbidden_phrases("a.rs", &text), vec![]);
    }
}
