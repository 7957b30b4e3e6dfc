//! What is written as a file is read back as the same description.

use proptest::prelude::*;
use tailbound_model::{check, to_toml};

use crate::arbitrary::description;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_description_is_written_and_read_back(description in description()) {
        let text = to_toml(&description).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let checked = check(&text, "written.toml");
        prop_assert!(!checked.problems.has_errors(), "{}\n{text}", checked.problems);
        prop_assert_eq!(checked.description, Some(description));
    }

    /// What local modes say can be said by the modes themselves, and means the same.
    #[test]
    fn modes_mean_the_same_with_local_modes_written_out(description in description()) {
        let inline = description.with_inline_modes();
        for mode in description.modes.keys() {
            prop_assert_eq!(inline.in_mode(mode), description.in_mode(mode));
        }
        let text = to_toml(&inline).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let checked = check(&text, "inline.toml");
        prop_assert!(!checked.problems.has_errors(), "{}\n{text}", checked.problems);
        prop_assert_eq!(checked.description, Some(inline));
    }
}

#[test]
fn a_seed_beyond_toml_is_refused() {
    let text = include_str!("good/minimal.toml");
    let mut description = tailbound_model::parse(text, "minimal.toml").unwrap();
    description.seed = u64::MAX;
    assert!(to_toml(&description).is_err());
}
