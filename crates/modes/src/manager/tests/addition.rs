//! Modes that are added while the others are in use.

use super::*;

/// The table without the mode that does not fit, and with another one of these budgets.
fn with_more(table: &ModeTable, budgets: Option<[u64; 3]>, keeps: &[&str]) -> ModeTable {
    let kept = keeps.iter().map(|name| {
        let locals = table.mode(name).unwrap().clone();
        ((*name).to_owned(), locals)
    });
    let more = budgets.map(|budgets| {
        let locals = ["a", "b", "c"].into_iter().zip(budgets);
        let locals = locals.map(|(domain, ms)| (domain.to_owned(), local("more", domain, ms)));
        ("more".to_owned(), locals.collect())
    });
    let settings = settings(RequestsMeanwhile::Queue);
    let (modes, agents) = (kept.chain(more).collect(), BTreeMap::new());
    ModeTable::new("run".into(), modes, agents, settings).unwrap()
}

/// A manager of the modes with these names.
fn manager_of(keeps: &[&str]) -> HostModeManager<FakeHost, FakeHost, FakeHost> {
    let (_, mut manager) = manager(RequestsMeanwhile::Queue);
    manager.table = with_more(&manager.table, None, keeps);
    manager
}

#[test]
fn a_mode_is_added_that_can_be_changed_to_and_from() {
    let fitting = ["run", "rest", "off"];
    let manager = manager_of(&fitting);
    let added =
        |budgets| manager.check_addition(&with_more(&manager.table, Some(budgets), &fitting));
    assert_eq!(added([3, 3, 2]), Ok(()));
    let refused = added([3, 3, 3]).unwrap_err().to_string();
    assert!(
        refused.starts_with("mode `off` cannot be changed to mode `more`: "),
        "{refused}"
    );
    let all = ["run", "rest", "off", "full"];
    let manager = manager_of(&all);
    let added = manager.check_addition(&with_more(&manager.table, Some([3, 3, 2]), &all));
    let refused = added.unwrap_err().to_string();
    assert!(
        refused.starts_with("mode `more` cannot be changed to mode `full`: "),
        "{refused}"
    );
}

/// The journal begins anew with the new modes, so that a daemon after this one knows them.
#[test]
fn after_an_addition_what_holds_is_noted_again() {
    let fitting = ["run", "rest", "off"];
    let noted = Noted::default();
    let mut manager = manager_of(&fitting).with_journal(Box::new(noted.clone()));
    let before = noted.0.lock().unwrap().len();
    let more = with_more(&manager.table, Some([3, 3, 2]), &fitting);
    manager.add_modes(more);
    let state = manager.state().clone();
    assert_eq!(
        noted.0.lock().unwrap()[before..],
        [StepRecord::Holds { state }]
    );
}
