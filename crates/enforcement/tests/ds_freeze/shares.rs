//! A domain that always wants to run has its share and no more, however depletion is found.

use super::*;
use tailbound_enforcement::ds_freeze::LedgerSnapshot;

/// How often a share is measured where it is not what it should be: the host may stand still meanwhile.
const ATTEMPTS: u32 = 4;

/// Runs `programs` of `threads` each under 4/10 ms: the ledger when they had begun, and a second later.
fn served(
    test: &str,
    programs: u32,
    threads: u32,
    detection: Detection,
) -> Option<[LedgerSnapshot; 2]> {
    let mut domain = domain_for(test)?;
    let manager = manager_for(test, &[domain.served(test, BUDGET, PERIOD)], detection)?;
    for _ in 0..programs {
        domain.start(Load::busy(test_cpu(), threads, LOAD_AT_MOST), AS_LOAD);
    }
    let ledger = || manager.ledger(test).expect("served");
    eventually("its programs use its budgets up", || {
        ledger().depletions >= 10
    });
    let begun = ledger();
    pause(1_000);
    let ended = ledger();
    manager.stop().expect("stop");
    assert!(!is_frozen(&domain), "{test}: stop has to thaw");
    Some([begun, ended])
}

/// A domain that always wanted to run got its share and no more, and its overruns were booked.
fn judge_share(begun: &LedgerSnapshot, ledger: &LedgerSnapshot) -> Result<(), String> {
    let first = begun.latest.last().map_or(0, |closed| closed.index + 1);
    let settled = ledger.latest.iter().filter(|closed| closed.index >= first);
    let settled: Vec<_> = settled.collect();
    let points: u64 = settled.iter().map(|p| p.skipped + 1).sum();
    let used: u64 = settled.iter().map(|p| p.used.as_nanos()).sum();
    let wall = (points * PERIOD.as_nanos()) as f64;
    let share = used as f64 / wall;
    // What a held-up manager cannot help: budgets of skipped grid points, time lost to a kernel
    // that was slow to thaw, and overruns that are not paid back, or not yet.
    let lost = settled.iter().map(|p| p.skipped).sum::<u64>() as f64 / points as f64
        + (ledger.slow_switches * ledger.longest_switch.as_nanos()) as f64 / wall;
    let forgiven: u64 = settled.iter().map(|p| p.forgiven.as_nanos()).sum();
    let owed = settled.last().map_or(0, |p| p.debt.as_nanos()) + forgiven;
    let owed = owed as f64 / wall;
    let (depletions, periods) = (
        ledger.depletions - begun.depletions,
        ledger.periods - begun.periods,
    );
    if share <= 0.4 * (0.98 - lost) || share - owed >= 0.4 * 1.02 || depletions * 10 <= periods * 8
    {
        return Err(format!(
            "share {share:.4} of 0.4, {lost:.3} of the time lost, {owed:.4} owed or forgiven, \
             {depletions} of {periods} budgets used up"
        ));
    }
    Ok(())
}

/// What holds however the host stands still.
fn assert_books(test: &str, ledger: &LedgerSnapshot) {
    assert!(ledger.overrun.count() > 0, "{test}: overruns are booked");
    assert_eq!(ledger.failures, 0, "{test}");
    let on_grid = ledger.latest.windows(2).all(|pair| {
        let steps = pair[1].index - pair[0].index;
        pair[1].grid_start.checked_since(pair[0].grid_start)
            == Some(Duration::from_nanos(steps * PERIOD.as_nanos()))
    });
    assert!(on_grid, "{test}: the grid never drifts");
}

fn gives_its_share(test: &str, programs: u32, threads: u32, detection: Detection) {
    let _alone = crate::alone();
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some([begun, ended]) = served(test, programs, threads, detection) else {
            return;
        };
        assert_books(test, &ended);
        match judge_share(&begun, &ended) {
            Ok(()) => return,
            Err(why) => seen.push(why),
        }
    }
    panic!("{test}: {seen:#?}");
}

macro_rules! share_test {
    ($name:ident, $programs:expr, $threads:expr, $detection:expr) => {
        #[test]
        fn $name() {
            gives_its_share(stringify!($name), $programs, $threads, $detection);
        }
    };
}

share_test!(one_busy_process, 1, 1, Detection::Automatic);
share_test!(one_busy_process_by_alarm, 1, 1, Detection::Alarm);
share_test!(one_busy_process_by_polling, 1, 1, Detection::Polling);
share_test!(several_threads, 1, 8, Detection::Automatic);
share_test!(several_processes, 5, 1, Detection::Automatic);
share_test!(several_processes_by_polling, 5, 2, Detection::Polling);
