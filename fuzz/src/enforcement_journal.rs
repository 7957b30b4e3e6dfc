//! The journal of changes to the host, and what is taken back by it.

use std::fs;

use tailbound_enforcement::journal::{JournalHistory, Record};
use tailbound_enforcement::recovery::{recover_with, standing_reservations_with};

use crate::fake_kernel::FakeKernel;

/// A cut journal says what its whole lines say; recovery never panics, and does nothing a second time.
pub fn check(bytes: &[u8]) {
    let (whole, unreadable) = JournalHistory::read(bytes);
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let cut = &bytes[..end.map_or(0, |end| end + 1)];
    assert_eq!(JournalHistory::read(cut), (whole, unreadable));
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(record) = serde_json::from_slice::<Record>(line) {
            let json = serde_json::to_vec(&record).unwrap();
            assert_eq!(serde_json::from_slice::<Record>(&json).unwrap(), record);
        }
    }
    recovers(bytes);
}

fn recovers(bytes: &[u8]) {
    let folder = crate::folder().join("journals");
    let _gone = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("77-1-0.journal"), bytes).unwrap();
    let mut kernel = FakeKernel::new();
    kernel.add_process(200, 1, &[200, 201]);
    kernel.add_process(300, 1, &[300]);
    let _standing = standing_reservations_with(&folder, &kernel);
    let first = recover_with(&folder, &mut kernel);
    let writes = kernel.writes();
    let state = kernel.snapshot();
    let second = recover_with(&folder, &mut kernel);
    if let (Ok(first), Ok(second)) = (first, second)
        && first.failures.is_empty()
    {
        assert!(second.reverted.is_empty(), "{second:?}");
        assert_eq!(kernel.writes(), writes, "all was taken back before");
        assert_eq!(format!("{:?}", kernel.snapshot()), format!("{state:?}"));
    }
}
