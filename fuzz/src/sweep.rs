//! Parcels of sweeps, and the journals of what is finished.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use tailbound_sweep::{Collection, Sweep, SweepQuery};
use tailbound_time::Duration;

const TEXT: &str = include_str!("../../crates/model/tests/good/minimal.toml");

/// Where the parcel of a good sweep stands in a fuzzed journal.
fn sweep() -> &'static Sweep {
    static SWEEP: OnceLock<Sweep> = OnceLock::new();
    SWEEP.get_or_init(|| {
        let query = SweepQuery {
            axes: Vec::new(),
            seeds: 8,
            duration: Duration::from_millis(100),
            warm_up: Duration::ZERO,
            mode: None,
            variant: None,
        };
        Sweep::plan(TEXT, "minimal.toml", Path::new("/"), query).expect("a sweep")
    })
}

/// A parcel that is read packs as one that is read; a journal that is read goes on.
pub fn check(bytes: &[u8]) {
    if let Ok(sweep) = Sweep::from_parcel(bytes) {
        let packed = sweep.to_parcel().expect("what was read can be packed");
        let again = Sweep::from_parcel(&packed).expect("our own parcel");
        assert_eq!(again.units(), sweep.units());
        assert_eq!(again.header(), sweep.header());
        if sweep.units() > 0 && sweep.units() < 1 << 40 {
            // Simulations of what nobody checked may be long; only what cannot be planned is asked for.
            let _any = sweep.rows(usize::MAX);
        }
    }
    let out = crate::folder().join("sweep.csv");
    let journal = crate::folder().join("sweep.csv.journal");
    let title = {
        let _gone = fs::remove_file(&journal);
        drop(Collection::open(sweep(), &out).expect("a new journal"));
        fs::read(&journal).unwrap()
    };
    fs::write(&journal, [title.as_slice(), bytes].concat()).unwrap();
    let mut first = Collection::open(sweep(), &out).expect("the title is right");
    let (finished, missing) = (first.finished(), first.missing());
    assert_eq!(finished + missing.len(), sweep().units());
    if let Some(unit) = missing.first() {
        first.add(*unit, "a,row\n".into()).unwrap();
    }
    let text = first.text();
    drop(first);
    let second = Collection::open(sweep(), &out).expect("our own journal");
    assert_eq!(second.text(), text, "what is finished is there again");
    drop(second);
    fs::write(&journal, bytes).unwrap();
    let _any = Collection::open(sweep(), &out);
}
