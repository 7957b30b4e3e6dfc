//! What the verbs that need no privilege print, and how they end: one file of examples per verb.
//!
//! `TRYCMD=overwrite cargo test -p tailbound-cli --test cli cases` writes what they print now; read the
//! difference before you keep it.

use std::path::Path;

#[test]
fn verbs_print_what_their_cases_show() {
    let state = std::env::temp_dir().join(format!("tailbound-cases-{}", std::process::id()));
    trycmd::TestCases::new()
        .register_bin("tailbound", Path::new(env!("CARGO_BIN_EXE_tailbound")))
        .env("TAILBOUND_STATE_DIR", state.display().to_string())
        .case("tests/cases/*.trycmd")
        .run();
}
