//! What is written as a file is read back as the same description.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arbitrary;

use arbitrary::description;
use proptest::prelude::*;
use tailbound_model::{check, to_toml};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_description_is_written_and_read_back(description in description()) {
        let text = to_toml(&description).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let checked = check(&text, "written.toml");
        prop_assert!(!checked.problems.has_errors(), "{}\n{text}", checked.problems);
        prop_assert_eq!(checked.description, Some(description));
    }
}

#[test]
fn a_seed_beyond_toml_is_refused() {
    let text = include_str!("good/minimal.toml");
    let mut description = tailbound_model::parse(text, "minimal.toml").unwrap();
    description.seed = u64::MAX;
    assert!(to_toml(&description).is_err());
}
