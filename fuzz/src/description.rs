//! Descriptions: two readers agree, what was read can be written and read again.

use tailbound_analysis::FORMAT;
use tailbound_model::{Description, to_toml};
use tailbound_modes::table_from_description::table_of;

/// A fragment of modes stands behind this line, where there is one.
const SPLIT: &str = "\n#---\n";

/// Checks the text as a description, and what stands behind a line `#---` as modes for it.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    holds(text);
    let Some((whole, fragment)) = text.split_once(SPLIT) else {
        return;
    };
    match FORMAT.with_modes(whole, fragment, "modes.toml") {
        Ok(extended) => {
            let written = to_toml(&extended.description).expect("what was read can be written");
            assert!(!FORMAT.check(&written, "again.toml").problems.has_errors());
        }
        Err(problems) => crate::problems_have_places(fragment, &problems),
    }
}

/// Checks what `DescriptionFormat::check` promises of `text`.
pub fn holds(text: &str) {
    let reading = FORMAT.check(text, "fuzz.toml");
    crate::problems_have_places(text, &reading.problems);
    assert_eq!(reading.description.is_none(), reading.problems.has_errors());
    let Some(description) = reading.description else {
        return;
    };
    let by_serde: Description = toml::from_str(text).expect("serde reads what we read");
    assert_eq!(description, by_serde);
    let written = to_toml(&description).expect("what was read can be written");
    let again = FORMAT.check(&written, "again.toml").description;
    assert_eq!(again.as_ref(), Some(&description));
    let json = serde_json::to_vec(&description).unwrap();
    assert_eq!(
        serde_json::from_slice::<Description>(&json).unwrap(),
        description
    );
    let _table = table_of(&description);
}
