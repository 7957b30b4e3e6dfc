//! Patterns of trigger names: `*` stands for any characters, none included.

/// Whether `name` fits `pattern`.
pub fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(place) = rest.find(part) else {
            return false;
        };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, is_fit) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("*", "", true),
            ("a.*", "a.b", true),
            ("*.b", "a.b", true),
            ("a*a", "a", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*bc*c", "abc", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), is_fit, "{pattern} {name}");
        }
    }

    /// The definition: a star takes nothing, or one character and more.
    fn fits_by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                fits_by_definition(rest, name)
                    || (!name.is_empty() && fits_by_definition(pattern, &name[1..]))
            }
            ([first, pattern @ ..], [head, name @ ..]) => {
                first == head && fits_by_definition(pattern, name)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_fit_by_their_definition(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            let is_fit = fits_by_definition(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(fits(&pattern, &name), is_fit);
        }
    }
}
