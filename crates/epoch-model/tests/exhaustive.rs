//! Walks every state of the epoch protocol within bounds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use tailbound_epoch_model::{Action, Bounds, Durability, Ensemble, Violation};

struct Protocol {
    durability: Durability,
    bounds: Bounds,
}

impl Model for Protocol {
    type State = Ensemble;
    type Action = Action;

    fn init_states(&self) -> Vec<Ensemble> {
        vec![Ensemble::new(self.durability, self.bounds)]
    }

    fn actions(&self, state: &Ensemble, actions: &mut Vec<Action>) {
        // Nothing after a violation is of interest.
        if state.violation().is_none() {
            state.actions(actions);
        }
    }

    fn next_state(&self, state: &Ensemble, action: Action) -> Option<Ensemble> {
        Some(state.after(action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn never<const WHAT: usize>(_: &Protocol, state: &Ensemble) -> bool {
            state.violation() != Some(VIOLATIONS[WHAT])
        }
        vec![
            Property::always("no epoch has two leaders", never::<0>),
            Property::always("no committed transaction is lost", never::<1>),
            Property::always("accepted >= current >= epoch of the log", never::<2>),
            Property::always("no promise is forgotten", |_, state: &Ensemble| {
                !state.forgot()
            }),
            Property::sometimes("a transaction is committed", |_, state: &Ensemble| {
                state.committed().length() >= 1
            }),
        ]
    }
}

const VIOLATIONS: [Violation; 3] = [
    Violation::TwoLeaders,
    Violation::LostCommit,
    Violation::EpochsOutOfOrder,
];

/// Bounds of one run.
fn bounds(
    terms: u8,
    transactions: u8,
    kills: u8,
    power_losses: u8,
    blackouts: u8,
    damages: u8,
) -> Bounds {
    Bounds {
        terms,
        kills,
        power_losses,
        blackouts,
        transactions,
        damages,
    }
}

/// Visits every state; all invariants hold, and the bounds leave room for a committed transaction.
fn assert_safe(durability: Durability, bounds: Bounds) {
    let checker = Protocol { durability, bounds }
        .checker()
        .threads(2)
        .spawn_bfs()
        .join();
    eprintln!(
        "{durability:?} {bounds:?}: {} states",
        checker.unique_state_count()
    );
    checker.assert_properties();
}

/// Visits states until one breaks the invariant; fails if none does. Prints the steps that lead there.
fn assert_finds(durability: Durability, bounds: Bounds, broken: &'static str) {
    let model = Protocol { durability, bounds };
    let stop = HasDiscoveries::AnyOf(BTreeSet::from([broken]));
    let checker = model
        .checker()
        .threads(2)
        .finish_when(stop)
        .spawn_bfs()
        .join();
    let path = checker.assert_any_discovery(broken);
    eprintln!("{durability:?}, \"{broken}\": {:?}", path.into_actions());
}

const LEADERS: &str = "no epoch has two leaders";
const COMMITS: &str = "no committed transaction is lost";
const PROMISES: &str = "no promise is forgotten";

#[test]
fn upstreams_order_is_safe() {
    assert_safe(Durability::Synchronous, bounds(3, 1, 1, 1, 1, 0));
}

#[test]
fn ours_is_safe_when_all_lose_power() {
    assert_safe(Durability::ReserveAndTail, bounds(3, 1, 0, 0, 1, 0));
}

#[test]
fn ours_is_safe_when_servers_lose_power_one_by_one() {
    assert_safe(Durability::ReserveAndTail, bounds(2, 1, 1, 2, 0, 0));
}

#[test]
fn ours_is_safe_when_an_epoch_file_is_damaged() {
    assert_safe(Durability::ReserveAndTail, bounds(3, 1, 0, 0, 0, 1));
}

#[test]
fn ours_is_safe_where_a_reserve_alone_is_not() {
    assert_safe(Durability::ReserveAndTail, bounds(4, 1, 0, 0, 1, 0));
}

#[test]
fn epochs_in_the_memory_of_a_majority_are_used_twice() {
    assert_finds(Durability::Memory, bounds(2, 1, 0, 0, 1, 0), LEADERS);
    assert_finds(Durability::Memory, bounds(2, 1, 0, 0, 1, 0), PROMISES);
}

#[test]
fn a_gate_for_transactions_alone_lets_an_epoch_be_used_twice() {
    assert_finds(Durability::CommitGate, bounds(2, 1, 0, 0, 1, 0), LEADERS);
}

#[test]
fn a_reserve_alone_loses_the_tail_of_a_history() {
    assert_finds(Durability::Reserve, bounds(4, 1, 0, 0, 1, 0), COMMITS);
}
