//! The journal of mode changes, from which a daemon goes on where another one died.

use std::fs;

use tailbound_modes::manager::StepRecord;
use tailbound_modes::manager::journal::resumption;
use tailbound_modes::table::ModeTable;
use tailbound_modes_service::journal::{count_restart, forget_restarts, left, path_in};
use tailbound_time::Instant;

/// Stands for this boot, which no corpus can know.
const BOOT: &str = "THIS-BOOT";

/// The state to go on in is one of the table, and restarts have an end whatever their count says.
pub fn check(bytes: &[u8]) {
    let folder = crate::folder().join("modes");
    let _made = fs::create_dir(&folder);
    let boot = tailbound_linux::process::boot_id().unwrap();
    let text = String::from_utf8_lossy(bytes).replace(BOOT, &boot);
    fs::write(path_in(&folder), &text).unwrap();
    if let Ok(Some((loaded, resumption))) = left(&folder) {
        let _any = loaded.requests(&resumption.state);
        let json = serde_json::to_vec(&loaded.table).unwrap();
        let again: ModeTable = serde_json::from_slice(&json).unwrap();
        assert_eq!(again, loaded.table);
        // A journal that was cut in its last line is that without the line.
        let cut = text.rfind('\n').map_or("", |end| &text[..=end]);
        fs::write(path_in(&folder), cut).unwrap();
        assert_eq!(left(&folder), Ok(Some((loaded, resumption))));
    }
    restarts_end(&folder, bytes);
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Some(Ok(table)) = lines.next().map(serde_json::from_slice::<ModeTable>) else {
        return;
    };
    let records = lines.filter_map(|line| serde_json::from_slice::<StepRecord>(line).ok());
    let _any = resumption(records.collect::<Vec<_>>(), &table);
}

fn restarts_end(folder: &std::path::Path, bytes: &[u8]) {
    forget_restarts(folder);
    assert!(count_restart(folder, Instant::from_nanos(1)));
    let mut files = fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let counts = files.find(|file| file.file_name().to_string_lossy().contains("restarts"));
    fs::write(counts.expect("the counts").path(), bytes).unwrap();
    let restarts = (0..64u64)
        .filter(|second| count_restart(folder, Instant::from_nanos(second * 1_000_000_000)));
    assert!(restarts.count() <= 10);
    forget_restarts(folder);
}
