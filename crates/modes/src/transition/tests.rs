//! The order of things under each policy, and what happens when something does not go as it should.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tailbound_model::{ChangePolicy, TaskStart};
use tailbound_time::{Duration, Instant};

use super::world::{Agent, World, change, limit, mode, run};
use super::*;

fn options(policy: ChangePolicy) -> Options {
    Options {
        policy,
        start: TaskStart::Accepted,
        timeout: Duration::from_millis(100),
    }
}

/// Two that shrink, by 30 and by 10 percent, and two that grow, by 30 and by 10.
fn four() -> Vec<DomainChange> {
    vec![
        change(
            "big",
            mode("a", 4000, 10_000, &["a"]),
            mode("b", 1000, 10_000, &["b"]),
        ),
        change(
            "small",
            mode("a", 2000, 10_000, &["a"]),
            mode("b", 1000, 10_000, &["b"]),
        ),
        change(
            "hungry",
            mode("a", 1000, 10_000, &["a"]),
            mode("b", 4000, 10_000, &["b"]),
        ),
        change(
            "modest",
            mode("a", 1000, 10_000, &["a"]),
            mode("b", 2000, 10_000, &["b"]),
        ),
    ]
}

fn log(policy: ChangePolicy, prepare: impl FnOnce(&mut World)) -> String {
    let (world, transition, outcome) = run(&four(), limit(80), options(policy), prepare);
    assert_eq!(outcome.ending, Ending::Completed);
    assert!(transition.timeline().latency().is_some());
    world.log.join(", ")
}

#[test]
fn one_after_the_other_the_largest_decrease_first() {
    assert_eq!(
        log(ChangePolicy::Sequential, |_| {}),
        "send big b, set big 1ms/10ms, send small b, set small 1ms/10ms, \
         set modest 2ms/10ms, send modest b, set hungry 4ms/10ms, send hungry b"
    );
}

#[test]
fn a_batch_waits_for_the_last_that_shrinks() {
    let late = |world: &mut World| {
        world
            .agents
            .insert("small".into(), Agent::Answers(Duration::from_millis(9)));
    };
    assert_eq!(
        log(ChangePolicy::Batch, late),
        "send big b, send small b, set big 1ms/10ms, set small 1ms/10ms, \
         set modest 2ms/10ms, set hungry 4ms/10ms, send modest b, send hungry b"
    );
}

#[test]
fn the_greedy_grow_as_soon_as_there_is_room() {
    let late = |world: &mut World| {
        world
            .agents
            .insert("small".into(), Agent::Answers(Duration::from_millis(9)));
    };
    // What `big` gives back is enough for one of them only.
    assert_eq!(
        log(ChangePolicy::Greedy, late),
        "send big b, send small b, set big 1ms/10ms, set modest 2ms/10ms, send modest b, \
         set small 1ms/10ms, set hungry 4ms/10ms, send hungry b"
    );
}

#[test]
fn a_boost_lasts_from_the_message_to_the_answer() {
    assert_eq!(
        log(ChangePolicy::Boost, |_| {}),
        "send big b, boost big, unboost big, set big 1ms/10ms, \
         send small b, boost small, unboost small, set small 1ms/10ms, \
         set modest 2ms/10ms, send modest b, boost modest, unboost modest, \
         set hungry 4ms/10ms, send hungry b, boost hungry, unboost hungry"
    );
}

#[test]
fn the_prompt_grow_at_once_where_there_is_room_already() {
    let (world, ..) = run(&four(), limit(100), options(ChangePolicy::Prompt), |_| {});
    let first: Vec<&str> = world.log.iter().map(String::as_str).take(5).collect();
    assert_eq!(
        first,
        [
            "send big b",
            "send small b",
            "set modest 2ms/10ms",
            "boost big",
            "boost small"
        ]
    );
}

#[test]
fn tasks_start_when_their_interface_is_in_force() {
    let in_force = Options {
        start: TaskStart::InForce,
        ..options(ChangePolicy::Greedy)
    };
    let (world, _, outcome) = run(&four(), limit(80), in_force, |_| {});
    assert_eq!(outcome.ending, Ending::Completed);
    for (domain, history) in &world.histories {
        let (at, _) = history.tasks.last().unwrap();
        let has = &world.in_force(domain, *at).budget;
        let needs = Duration::from_millis(if domain == "hungry" { 4 } else { 1 });
        assert!(*has >= needs, "{domain} at {at:?} has {has}");
    }
}

#[test]
fn one_that_does_not_answer_ends_the_transition() {
    let hangs = |world: &mut World| {
        world.agents.insert("big".into(), Agent::Hangs);
    };
    let (world, _, outcome) = run(&four(), limit(80), options(ChangePolicy::Greedy), hangs);
    assert!(
        matches!(&outcome.ending, Ending::GivenUp(Cause::NoAnswer { domain, .. }) if domain == "big"),
        "{outcome:?}"
    );
    // What runs in it is not known, and it keeps what it has.
    let big = &outcome.domains["big"];
    assert_eq!((big.interface, big.tasks), (Held::Old, None));
    assert_eq!(outcome.domains["hungry"].interface, Held::Old);
    assert!(world.log.contains(&"withdraw big".to_owned()));
    assert!(world.most_in_force() <= 800);
}

#[test]
fn a_fallback_lets_the_others_go_on() {
    let mut changes = four();
    changes[0].fallback = Some(mode("park", 500, 10_000, &["p"]));
    for (agent, tasks) in [
        (Agent::Hangs, None),
        (Agent::Ends(Duration::from_micros(7)), None),
    ] {
        let (world, _, outcome) = run(
            &changes,
            limit(80),
            options(ChangePolicy::Prompt),
            |world| {
                world.agents.insert("big".into(), agent);
            },
        );
        assert!(matches!(&outcome.ending, Ending::Partly(causes) if causes.len() == 1));
        let big = &outcome.domains["big"];
        assert_eq!((big.interface, big.tasks), (Held::Fallback, tasks));
        assert_eq!(outcome.domains["hungry"].interface, Held::New);
        assert!(world.most_in_force() <= 800);
    }
}

#[test]
fn one_that_cannot_is_asked_for_its_fallback() {
    let mut changes = four();
    changes[0].fallback = Some(mode("park", 500, 10_000, &["p"]));
    let fails = |world: &mut World| {
        let fails = Agent::Fails(Duration::from_micros(9));
        world.agents.insert("big".into(), fails);
    };
    let (world, _, outcome) = run(&changes, limit(80), options(ChangePolicy::Greedy), fails);
    assert!(world.log.contains(&"send big park".to_owned()));
    // It cannot do that either.
    let big = &outcome.domains["big"];
    assert_eq!((big.interface, big.tasks), (Held::Fallback, None));
}

#[test]
fn a_refused_interface_ends_the_transition() {
    let refuses = |world: &mut World| {
        world.refuses.insert("modest".into());
    };
    let (_, _, outcome) = run(
        &four(),
        limit(80),
        options(ChangePolicy::Sequential),
        refuses,
    );
    assert!(matches!(
        &outcome.ending,
        Ending::GivenUp(Cause::Refused { .. })
    ));
    let modest = &outcome.domains["modest"];
    assert_eq!(
        (modest.interface, modest.tasks),
        (Held::Old, Some(Held::Old))
    );
    assert_eq!(outcome.domains["hungry"].interface, Held::Old);
    assert_eq!(outcome.domains["small"].interface, Held::New);
}

/// A back end may need more room than shares tell: by its own analysis of priorities, for one.
#[test]
fn what_was_refused_is_asked_for_again_when_others_have_shrunk() {
    let wide = |times: usize| {
        run(
            &four(),
            limit(200),
            options(ChangePolicy::Greedy),
            |world| {
                world.refuses_at_first.insert("modest".into(), times);
            },
        )
    };
    let asked = |world: &World| {
        let all = world.log.iter();
        all.filter(|done| done.starts_with("set modest")).count()
    };
    let (world, _, outcome) = wide(2);
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(asked(&world), 3, "{:?}", world.log);
    // Two shrink, so that it is asked for three times, and not again.
    let (world, _, outcome) = wide(3);
    let refused = matches!(&outcome.ending, Ending::GivenUp(Cause::Refused { .. }));
    assert!(refused, "{outcome:?}");
    assert_eq!(asked(&world), 3, "{:?}", world.log);
}

#[test]
fn another_request_ends_what_is_under_way_and_begins_nothing() {
    let mut transition =
        Transition::new(four(), limit(80), options(ChangePolicy::Sequential)).unwrap();
    let start = tailbound_time::Instant::from_nanos(7);
    assert_eq!(transition.begin(start).len(), 1);
    assert_eq!(transition.give_up(start), []);
    assert_eq!(transition.outcome(), None);
    let done = Event::Acknowledged {
        domain: "big".into(),
        received_at: start,
        switched_at: start,
    };
    assert_eq!(transition.handle(done, start).len(), 1);
    let accepted = Event::InterfaceAccepted {
        domain: "big".into(),
        in_force_at: start,
    };
    assert_eq!(transition.handle(accepted, start), []);
    let outcome = transition.outcome().unwrap();
    assert_eq!(outcome.ending, Ending::GivenUp(Cause::Preempted));
    assert_eq!(outcome.domains["big"].interface, Held::New);
    assert_eq!(outcome.domains["small"].interface, Held::Old);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let twice = [four(), four()].concat();
    let refused = |changes, percent| {
        Transition::new(changes, limit(percent), options(ChangePolicy::Greedy)).unwrap_err()
    };
    assert!(matches!(refused(twice, 100), TransitionError::Twice(_)));
    let error = refused(four(), 79).to_string();
    assert!(error.contains("CPU 0") && error.contains("79"), "{error}");
    let mut moves = four();
    moves[1].to.interface.cpus = [tailbound_model::Cpu(1)].into();
    assert_eq!(refused(moves, 100), TransitionError::Moves("small".into()));
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let same = mode("a", 1000, 10_000, &["a"]);
    let changes = [change("same", same.clone(), same)];
    let (world, transition, outcome) =
        run(&changes, limit(80), options(ChangePolicy::Boost), |_| {});
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(world.log, Vec::<String>::new());
    assert_eq!(transition.timeline().latency(), Some(Duration::ZERO));
}

/// The messages among these actions, as what they stop and what they start.
fn sent(actions: Vec<Action>) -> Vec<(Vec<String>, Vec<String>)> {
    let sent = actions.into_iter().filter_map(|action| match action {
        Action::Send { stop, start, .. } => Some((stop, start)),
        _ => None,
    });
    sent.collect()
}

#[test]
fn new_tasks_wait_for_their_offset_after_the_old_ones_are_stopped() {
    let ms = |count: u64| Instant::from_nanos(count * 1_000_000);
    let (from, to) = (
        mode("a", 4000, 10_000, &["old", "both"]),
        mode("b", 4000, 10_000, &["new", "both"]),
    );
    let mut one = change("arm", from, to);
    one.offset = Duration::from_millis(30);
    let begun = || Transition::new(vec![one.clone()], limit(80), options(ChangePolicy::Prompt));
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let answer = |at: Instant| Event::Acknowledged {
        domain: "arm".into(),
        received_at: at,
        switched_at: at,
    };
    let mut transition = begun().unwrap();
    assert_eq!(
        sent(transition.begin(ms(1))),
        [(names(&["old"]), names(&[]))]
    );
    assert_eq!(sent(transition.handle(answer(ms(4)), ms(5))), []);
    assert_eq!(transition.next_wake(), Some(ms(35)));
    assert_eq!(sent(transition.handle(Event::Woken, ms(34))), []);
    assert_eq!(
        sent(transition.handle(Event::Woken, ms(35))),
        [(names(&[]), names(&["new"]))]
    );
    transition.handle(answer(ms(36)), ms(36));
    assert_eq!(transition.outcome().unwrap().ending, Ending::Completed);
    // One that cannot start the new tasks has no old ones, either: nobody knows what runs.
    for (waits, tasks) in [(false, Some(Held::Old)), (true, None)] {
        let mut transition = begun().unwrap();
        transition.begin(ms(1));
        if waits {
            transition.handle(answer(ms(2)), ms(2));
            transition.handle(Event::Woken, ms(40));
        }
        let failed = Event::Failed {
            domain: "arm".into(),
            reason: "it broke".into(),
            rolled_back: true,
        };
        transition.handle(failed, ms(41));
        let outcome = transition.outcome().unwrap();
        assert!(matches!(outcome.ending, Ending::GivenUp(_)));
        assert_eq!(outcome.domains["arm"].tasks, tasks);
    }
}

#[test]
fn a_fallback_starts_when_nothing_can_be_left_of_what_ran() {
    let ms = |count: u64| Instant::from_nanos(count * 1_000_000);
    let mut one = change(
        "arm",
        mode("a", 4000, 10_000, &["old", "both"]),
        mode("b", 4000, 10_000, &["new", "both"]),
    );
    one.fallback = Some(mode("park", 1000, 10_000, &["both", "slow"]));
    one.fallback_offset = Duration::from_millis(30);
    let mut transition =
        Transition::new(vec![one], limit(80), options(ChangePolicy::Prompt)).unwrap();
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let answer = |at: Instant| Event::Acknowledged {
        domain: "arm".into(),
        received_at: at,
        switched_at: at,
    };
    transition.begin(ms(1));
    let failed = Event::Failed {
        domain: "arm".into(),
        reason: "it broke".into(),
        rolled_back: true,
    };
    // Whichever of the old and the new ones run are stopped first.
    assert_eq!(
        sent(transition.handle(failed, ms(2))),
        [(names(&["new", "old"]), names(&[]))]
    );
    assert_eq!(sent(transition.handle(answer(ms(3)), ms(4))), []);
    assert_eq!(transition.next_wake(), Some(ms(34)));
    assert_eq!(
        sent(transition.handle(Event::Woken, ms(34))),
        [(names(&[]), names(&["both", "slow"]))]
    );
    let actions = transition.handle(answer(ms(35)), ms(35));
    let asks = |action: &Action| matches!(action, Action::SetInterface { .. });
    assert!(actions.iter().any(asks), "{actions:?}");
    let accepted = Event::InterfaceAccepted {
        domain: "arm".into(),
        in_force_at: ms(40),
    };
    transition.handle(accepted, ms(35));
    let outcome = transition.outcome().unwrap();
    assert_eq!(outcome.domains["arm"].tasks, Some(Held::Fallback));
}

/// A domain whose new tasks wait 30 ms for the old ones, and how its agent answers.
fn waits_between_tasks() -> (DomainChange, impl Fn(Instant) -> Event) {
    let mut one = change(
        "arm",
        mode("a", 4000, 10_000, &["old"]),
        mode("b", 4000, 10_000, &["new"]),
    );
    one.offset = Duration::from_millis(30);
    let answer = |at: Instant| Event::Acknowledged {
        domain: "arm".into(),
        received_at: at,
        switched_at: at,
    };
    (one, answer)
}

/// What begins and ends a boost among these actions.
fn boosts(actions: &[Action]) -> Vec<bool> {
    let boosts = actions.iter().filter_map(|action| match action {
        Action::Boost { .. } => Some(true),
        Action::Unboost { .. } => Some(false),
        _ => None,
    });
    boosts.collect()
}

/// Nobody has to do anything while nothing of the old tasks may be left.
#[test]
fn a_boost_ends_with_the_stop_of_the_old_tasks() {
    let ms = |count: u64| Instant::from_nanos(count * 1_000_000);
    let (mut one, answer) = waits_between_tasks();
    one.fallback = Some(mode("park", 1000, 10_000, &["slow"]));
    one.fallback_offset = Duration::from_millis(30);
    let failed = Event::Failed {
        domain: "arm".into(),
        reason: "it broke".into(),
        rolled_back: true,
    };
    let mut transition =
        Transition::new(vec![one], limit(80), options(ChangePolicy::Boost)).unwrap();
    let begun = transition.begin(ms(1));
    assert_eq!(boosts(&begun), [true]);
    let steps = [
        (answer(ms(2)), 2, &[false][..]),
        (Event::Woken, 32, &[true]),
        (failed, 33, &[false, true]),
        (answer(ms(34)), 34, &[false]),
        (Event::Woken, 64, &[true]),
        (answer(ms(65)), 65, &[false]),
    ];
    for (event, now, expected) in steps {
        let actions = transition.handle(event, ms(now));
        assert_eq!(boosts(&actions), expected, "{now} ms");
    }
}

/// One that runs on the host has the host's CPU time, not the domain's.
#[test]
fn an_agent_outside_is_not_boosted() {
    let mut changes = four();
    for change in &mut changes {
        change.agent = Some(tailbound_model::AgentPlace::Outside);
    }
    for policy in [ChangePolicy::Boost, ChangePolicy::Prompt] {
        let (world, _, outcome) = run(&changes, limit(80), options(policy), |_| {});
        assert_eq!(outcome.ending, Ending::Completed);
        assert_eq!(world.most_boosted, 0);
    }
}

#[test]
fn a_fallback_is_never_more_than_what_a_domain_has() {
    let mut changes = four();
    changes[0].fallback = Some(mode("park", 5000, 10_000, &["p"]));
    let hangs = |world: &mut World| {
        world.agents.insert("big".into(), Agent::Hangs);
    };
    let (world, _, outcome) = run(&changes, limit(200), options(ChangePolicy::Greedy), hangs);
    let set = world.log.iter().find(|done| done.starts_with("set big"));
    assert_eq!(set, None);
    let big = &outcome.domains["big"];
    assert_eq!((big.interface, big.tasks), (Held::Old, None));
}

/// To take another transition back, one that cannot does not end it for the others.
#[test]
fn regardless_of_one_that_cannot_the_others_change() {
    let changes = four();
    let mut transition =
        Transition::new(changes.clone(), limit(100), options(ChangePolicy::Greedy))
            .unwrap()
            .regardless();
    let mut world = World::of(&changes);
    world.agents.insert("small".into(), Agent::Hangs);
    let outcome = world.run(&mut transition);
    assert!(
        matches!(&outcome.ending, Ending::Partly(causes) if causes.keys().eq(["small"])),
        "{outcome:?}"
    );
    for domain in ["big", "hungry", "modest"] {
        assert_eq!(outcome.domains[domain].interface, Held::New, "{domain}");
    }
}

/// Neither the old tasks run nor the new ones while these wait.
#[test]
fn a_change_that_is_given_up_ends_no_domain_without_tasks() {
    let ms = |count: u64| Instant::from_nanos(count * 1_000_000);
    let (one, answer) = waits_between_tasks();
    let mut transition =
        Transition::new(vec![one], limit(80), options(ChangePolicy::Greedy)).unwrap();
    transition.begin(ms(1));
    transition.handle(answer(ms(2)), ms(2));
    transition.give_up(ms(3));
    assert_eq!(transition.outcome(), None);
    transition.handle(Event::Woken, ms(32));
    assert_eq!(transition.outcome(), None);
    transition.handle(answer(ms(33)), ms(33));
    // All was done by then.
    assert_eq!(transition.outcome().unwrap().ending, Ending::Completed);
}
