//! Workloads of rt-app.

use tailbound_model::{Problems, check as checked, rt_app, to_toml};

/// What is imported is a description without errors; what such a description exports is imported.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    match rt_app::import(text, "fuzz.json") {
        Ok(imported) => {
            crate::problems_have_places(text, &Problems::new(imported.notes));
            let written = to_toml(&imported.description).expect("writable");
            let reading = checked(&written, "imported.toml");
            assert!(!reading.problems.has_errors(), "{}", reading.problems);
            assert_eq!(reading.description.as_ref(), Some(&imported.description));
            if let Ok(json) = rt_app::export(&imported.description) {
                rt_app::import(&json, "exported.json").expect("what is exported is imported");
            }
        }
        Err(problems) => {
            assert!(problems.has_errors());
            crate::problems_have_places(text, &problems);
        }
    }
}
