//! Text from outside inside of a page. Names come from the user's file, commands and host facts
//! from anywhere; none of it may become markup or script.

/// Text for element content and for attributes in double quotes; also for XML. Characters that
/// XML cannot hold are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON for the inside of a script element: nothing in it can end the element or open another.
pub(crate) fn escaped_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A relative path as the value of `href`: never a scheme, a host or a query.
pub(crate) fn relative_reference(path: &str) -> String {
    let mut out = String::from("./");
    for byte in path.trim_start_matches('/').bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_never_leave_the_folder_by_scheme() {
        assert_eq!(relative_reference("raw/a b.csv"), "./raw/a%20b.csv");
        assert_eq!(
            relative_reference("javascript:alert(1)"),
            "./javascript%3Aalert%281%29"
        );
        assert_eq!(relative_reference("//evil.example/x"), "./evil.example/x");
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_markup(text in any::<String>()) {
            let out = escaped(&text);
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
        }

        #[test]
        fn escaped_json_means_the_same(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let out = escaped_json(&json);
            prop_assert!(!out.contains(['<', '>', '&']));
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
